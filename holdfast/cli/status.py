"""`holdfast status`: the contents of an archive. Works with Airflow down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from holdfast.archive import Archive
from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points
from holdfast.archive.history.waiting_tables import waiting_tables
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, told_waiting
from holdfast.common.errors import UsageError
from holdfast.common.words import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from holdfast.archive.format.block_ref import Placed


def status(
    url: Url,
    check: Annotated[
        bool,
        typer.Option("--check", help="Judge the objectives of archives.yaml, and exit with 1 where one is missed."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the contents of an archive."""
    output = Output(as_json=as_json)
    archive = Archive.open(places.archive_store(url))
    value = _status(archive)
    if check:
        from holdfast.objectives import judge  # with drills, which no status else needs

        judged = judge(archive, places.sources(url))
        value["objectives"] = [each.describe() for each in judged]
    output.result(value, lambda console: _show_status(console, value))
    if check and not judged:
        raise UsageError(f"archives.yaml promises nothing of {url}: write 'objectives' below a source of it")
    if missed := [each for each in judged if not each.is_met] if check else []:
        for each in missed:
            output.say(f"holdfast: {each}")
        raise typer.Exit(1)


def _status(archive: Archive) -> dict[str, Any]:
    blocks = archive.state.blocks.values()
    return {
        "archive": archive.identity.id,
        "name": archive.identity.name,
        "url": archive.store.url,
        "format": archive.state.format,
        "commits": archive.state.sequence,
        "blocks": len(blocks),
        "bytes": sum(placed.size for placed in blocks),
        "sources": [
            {
                "source": name,
                "backups": len(_of_kind(blocks, name, "snapshot")),
                "changes": len(_of_kind(blocks, name, "changes")),
                "restorable_to": iso(restore_points.intervals(archive.state, name)[-1].end),
                "rows": (_of_kind(blocks, name, "snapshot") or _of_kind(blocks, name, "changes"))[-1].rows,
                "waiting": [each.model_dump(mode="json") for each in waiting_tables(archive.state, name)],
            }
            for name in restore_points.source_names(archive.state)
        ],
    }


def _of_kind(blocks: Iterable[Placed], source: str, kind: str) -> list[Placed]:
    """Return a source's blocks of a kind in the order of their commits.

    Supplements for single tables are left out.
    """
    found = [
        placed
        for placed in blocks
        if placed.source == source and placed.head.kind == kind and not placed.head.supplement
    ]
    return sorted(found, key=lambda placed: placed.number)


def _show_status(console: Console, value: dict[str, Any]) -> None:
    console.print(
        f"{value['name']} at {value['url']}: format {value['format']}, {value['commits']} commits, "
        f"{human_size(value['bytes'])} in {value['blocks']} blocks",
        markup=False,
    )
    table = Table("source", "full", "changes", "rows", "restorable to", box=None)
    for source in value["sources"]:
        full, changes = str(source["backups"]), str(source["changes"])
        table.add_row(source["source"], full, changes, f"{source['rows']:,}", source["restorable_to"])
    if value["sources"]:
        console.print(table)
    for each in value.get("objectives", ()):
        kept = "kept" if each["is_met"] else "missed"
        console.print(f"{each['source']}: {each['name']} {each['limit']} {kept}: {each['stands']}", markup=False)
    for source in value["sources"]:
        for line in told_waiting(source["waiting"]):
            console.print(f"{source['source']}: {line}", markup=False)
