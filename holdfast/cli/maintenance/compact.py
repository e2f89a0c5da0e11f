"""`holdfast compact`: small blocks of changes joined into few, and full snapshots made of older ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import only_source, source_names
from holdfast.archive.maintenance.compaction import CompactionPolicy, check_format, plan_compaction
from holdfast.archive.maintenance.consolidation import newest_cut
from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.errors import RefusedError
from holdfast.common.words import human_size
from holdfast.operations.requests.compaction import CompactionRequest
from holdfast.replication.work.replica_maintenance import state_to_plan

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.archive.maintenance.compaction import Group


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
    request = request.configured(places.compaction(url))
    policy = CompactionPolicy.configured(request.section)
    archive = Archive.open(places.archive_store(url))
    check_format(archive)
    request = request.with_values(source=only_source(archive.state, request.source) if request.source else None)
    if dry_run:
        value = _planned(archive, policy, request.source, consolidate=request.consolidate)
    else:
        value = run_job(archive.store, request, wait=wait, output=output)
    output.result(value, lambda console: _show(console, value))


def _planned(archive: Archive, policy: CompactionPolicy, source: str | None, *, consolidate: bool) -> dict[str, Any]:
    state = state_to_plan(archive)
    groups = plan_compaction(state, policy, archive.store.list(IDENTITY_KEY).now, source=source)
    names = (source,) if source else source_names(state)
    cuts, refused = [], {}
    for cut in filter(None, (newest_cut(state, name) for name in names if consolidate)):
        try:
            from holdfast.point_in_time.consolidated_backup import (
                Consolidation,  # what reads rows, which joining blocks plans without
            )

            Consolidation(state, archive.store, cut)
        except RefusedError as error:
            if source:
                raise
            refused[cut.source] = str(error)
        else:
            cuts.append(cut)
    return {
        "dry_run": True,
        "joined": [_told(group) for group in groups],
        "consolidated": [
            {
                "source": cut.source,
                "restorable_to": iso(cut.head.covers.to_time),
                "position": cut.head.covers.to_position,
            }
            for cut in cuts
        ],
        "not_consolidated": refused,
    }


def _told(group: Group) -> dict[str, Any]:
    first, last = group.blocks[0].head, group.blocks[-1].head
    return {
        "source": group.source,
        "blocks": len(group.blocks),
        "bytes_before": group.size,
        "changes": group.rows,
        "from": iso(first.covers.from_time),
        "to": iso(last.covers.to_time),
    }


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
