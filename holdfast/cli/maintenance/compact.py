"""`holdfast compact`: small blocks of changes joined into few, and full snapshots made of older ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive
from holdfast.archive.history.restore_points import only_source
from holdfast.archive.maintenance.compaction import CompactionPolicy, check_format
from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.words import human_size
from holdfast.operations.plans import planned_compaction
from holdfast.operations.requests.compaction import CompactionRequest

if TYPE_CHECKING:
    from rich.console import Console


@takes(CompactionRequest)
def compact(
    url: Url,
    request: CompactionRequest,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be joined, and change nothing.")] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Join small blocks of changes into few; all restore points are kept."""
    output = Output(as_json=as_json)
    resolved = places.resolve(url)
    request = request.configured(resolved.settings.compaction)
    CompactionPolicy.configured(request.section)  # refuses settings that make no sense before anything is read
    archive = Archive.open(resolved.open())
    check_format(archive)
    request = request.with_values(source=only_source(archive.state, request.source) if request.source else None)
    if dry_run:
        value = planned_compaction(archive, request, coordination=resolved.coordination)
    else:
        value = run_job(resolved, request, wait=wait, output=output)
    output.result(value, lambda console: _show(console, value))


def _show(console: Console, value: dict[str, Any]) -> None:
    planned = value.get("dry_run", False)
    for each in value["joined"]:
        what = f"{each['blocks']} blocks of changes of {each['source']} from {each['from']} to {each['to']}"
        size = human_size(each["bytes_before"])
        if planned:
            console.print(f"would join {what} ({each['changes']:,} changes in {size})", markup=False)
        else:
            console.print(
                f"commit {each['commit']}: joined {what} ({each['changes']:,} changes, {size} before, "
                f"{human_size(each['bytes'])} now)",
                markup=False,
            )
    for each in value["consolidated"]:
        if planned:
            console.print(f"would make a full snapshot of {each['source']} at {each['restorable_to']}", markup=False)
        else:
            console.print(
                f"commit {each['commit']}: a full snapshot of {each['source']} at {each['restorable_to']} "
                f"({each['rows']:,} rows of {each['tables']} tables, {human_size(each['bytes'])} written)",
                markup=False,
            )
    for reason in value["not_consolidated"].values() if planned else ():  # a run has told of it
        console.print(reason, markup=False)
    if not value["joined"] and not value["consolidated"]:
        console.print("nothing to do", markup=False)
