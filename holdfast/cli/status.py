"""`holdfast status`: the contents of an archive. Works with Airflow down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, table_lines, waiting_lines
from holdfast.common.errors import UsageError
from holdfast.common.words import counted, human_size
from holdfast.status import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    resolved = places.resolve(url)
    archive = Archive.open(resolved.open())
    value = status_of(archive)
    if check:
        from holdfast.objectives import judge  # with drills, which no status else needs

        judged = judge(archive, resolved.settings.sources)
        value["objectives"] = [each.describe() for each in judged]
    output.result(value, _lines(value))
    if check and not judged:
        raise UsageError(f"archives.yaml has no objectives for {url}: write 'objectives' below one of its sources")
    if missed := [each for each in judged if not each.is_met] if check else []:
        for each in missed:
            output.say(f"holdfast: {each}")
        raise typer.Exit(1)


def _lines(value: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{value['name']} at {value['url']}: format {value['format']}, {counted(value['commits'], 'commit')}, "
        f"{human_size(value['bytes'])} in {counted(value['blocks'], 'block')}"
    )
    rows = [
        (each["source"], str(each["backups"]), str(each["changes"]), f"{each['rows']:,}", str(each["restorable_to"]))
        for each in value["sources"]
    ]
    if rows:
        yield from table_lines(("source", "full", "changes", "rows", "restorable to"), rows)
    for each in value.get("objectives", ()):
        kept = "kept" if each["is_met"] else "missed"
        yield f"{each['source']}: {each['name']} {each['limit']} {kept}: {each['stands']}"
    for source in value["sources"]:
        for line in waiting_lines(source["waiting"]):
            yield f"{source['source']}: {line}"
