"""`holdfast points`: which moments can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.table import Column, Table

from holdfast.archive import points
from holdfast.cli.options import Json, Store, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.output import Output, told_waiting
from holdfast.cli.reading import Consistent, open_archive, say_read_from
from holdfast.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


def show_points(url: Url, consistency: Consistent = None, store: Store = None, as_json: Json = False) -> None:
    """List the moments that can be restored, and the gaps between them."""
    output = Output(as_json=as_json)
    opened = open_archive(url, consistency, store)
    value = {**points.describe(opened.state), "read_from": opened.describe()}
    say_read_from(output, value["read_from"])
    output.result(value, lambda console: _show_points(console, value))
    if opened.state.cut_off:
        raise typer.Exit(DamagedError.exit_code)


def _interval_columns() -> tuple[Column, ...]:
    """Return new columns: they keep the cells of the table that they are in."""
    return (
        # A moment that is cut short could not be asked for.
        Column("from", no_wrap=True, min_width=27),
        Column("to", no_wrap=True, min_width=27),
        Column("position"),
        Column("commit"),
    )


def _show_points(console: Console, value: dict[str, Any]) -> None:
    for source in value["sources"]:
        table = Table(*_interval_columns(), box=None, title=source["source"], title_justify="left")
        for interval in source["intervals"]:
            table.add_row(interval["from"], interval["to"], interval["position"], str(interval["commit"]))
        console.print(table)
        for line in _remarks(source):
            console.print(line, markup=False)
    if not value["sources"]:
        console.print("no backups yet")


def _remarks(source: dict[str, Any]) -> Iterator[str]:
    """Yield what the intervals alone do not tell."""
    for gap in source["gaps"]:
        what = f"{gap['table']} not followed" if "table" in gap else "gap"
        yield f"{what} from {gap['from']} to {gap['to']}: {gap['reason']}"
    for interval in source["intervals"]:
        if not interval["whole"]:
            yield f"only chosen tables from {interval['from']} to {interval['to']}"
        for span in interval["schema_approximate"]:
            within = f"lsn:{span['first']} and lsn:{span['last']}, " if "first" in span else ""
            why = "it was changed several times" if within else "it was changed, it is not known when"
            if span["changed_back"]:
                why = "what was made and dropped in between is in no backup"
            yield f"schema approximate between {within}{span['from']} and {span['to']}: {why}"
    for each in source["marks"]:
        yield f"mark {each['name']}: {each['at']} at {each['position']}"
    yield from told_waiting(source["waiting"])
    waiting = {each["table"] for each in source["waiting"]}
    for table, reason in source["not_followed"].items():
        if table not in waiting:
            yield f"only in full backups: {table}: {reason}"
