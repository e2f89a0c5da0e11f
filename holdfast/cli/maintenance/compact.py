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
from holdfast.common.words import counted, human_size
from holdfast.operations.plans import planned_compaction
from holdfast.operations.requests.compaction import CompactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator


@takes(CompactionRequest)
def compact(
    url: Url,
    request: CompactionRequest,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Join small blocks of changes into few; all restore points are kept."""
    output = Output(as_json=as_json)
    resolved = places.resolve(url)
    request = request.configured(resolved.settings.compaction)
    CompactionPolicy.configured(request.section)  # refuses invalid settings before anything is read
    archive = Archive.open(resolved.open())
    check_format(archive)
    request = request.with_values(source=only_source(archive.state, request.source) if request.source else None)
    if dry_run:
        value = planned_compaction(archive, request, coordination=resolved.coordination)
    else:
        value = run_job(resolved, request, wait=wait, output=output)
    output.result(value, _lines(value))


def _lines(value: dict[str, Any]) -> Iterator[str]:
    planned = value.get("dry_run", False)
    for each in value["joined"]:
        blocks, changes = counted(each["blocks"], "block"), counted(each["changes"], "change")
        what = f"{blocks} of changes of {each['source']} from {each['from']} to {each['to']}"
        size = human_size(each["bytes_before"])
        if planned:
            yield f"would join {what} ({changes} in {size})"
        else:
            yield f"commit {each['commit']}: joined {what} ({changes}, {size} before, {human_size(each['bytes'])} now)"
    for each in value["consolidated"]:
        what = f"a full snapshot of {each['source']} at {each['restorable_to']}"
        if planned:
            yield f"would make {what}"
        else:
            yield (
                f"commit {each['commit']}: {what} ({counted(each['rows'], 'row')} of "
                f"{counted(each['tables'], 'table')}, {human_size(each['bytes'])} written)"
            )
    if planned:  # a run has reported these
        yield from value["not_consolidated"].values()
    if not value["joined"] and not value["consolidated"]:
        yield "nothing to do"
