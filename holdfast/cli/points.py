"""`holdfast points`: the restore points of an archive, and the gaps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive.history import restore_points
from holdfast.cli.shared.options import Json, Store, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Formatted, Output, table_lines, waiting_lines
from holdfast.cli.shared.reading import Consistent, open_archive, say_read_from
from holdfast.common.errors import DamagedError, UsageError
from holdfast.common.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator


_EXACT = "exactly what was there"

_SHOWN = 20
"""Ranges of tables that are printed for people, at most."""

Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--tables",
        metavar="GLOB",
        help="Show every range of these tables (schema.table), also those that are restored exactly.",
    ),
]


_HEAD = ("from", "to", "position", "commit")


def points(
    url: Url,
    tables: Tables = None,
    consistency: Consistent = None,
    store: Store = None,
    form: Formatted = "table",
    as_json: Json = False,
) -> None:
    """List the restore points, the gaps between them, and the state of each table in a restore."""
    from holdfast.point_in_time.table_coverage import table_report  # pyarrow, which no other part of this command needs

    output = Output(as_json=as_json, form=form)
    _, opened = open_archive(url, consistency, store)
    value = {**restore_points.describe(opened.state), "read_from": opened.describe()}
    for source in value["sources"]:
        source |= table_report(opened.state, opened.store, source["source"]).describe(tables or ())
    if tables and not any(source["tables"] for source in value["sources"]):
        raise UsageError(f"no table in these backups matches {' or '.join(tables)}")
    say_read_from(output, value["read_from"])
    rows = [
        [source["source"], *(interval[name] for name in _HEAD)]
        for source in value["sources"]
        for interval in source["intervals"]
    ]
    every = bool(tables)
    output.rows(
        ("source", *_HEAD),
        rows,
        value,
        _lines(value, every=every),
        (line for source in value["sources"] for line in _remarks(source, every=every)),
    )
    if opened.state.cut_off:
        raise typer.Exit(DamagedError.exit_code)


def _lines(value: dict[str, Any], *, every: bool) -> Iterator[str]:
    for source in value["sources"]:
        yield source["source"]
        yield from table_lines(_HEAD, ([str(interval[name]) for name in _HEAD] for interval in source["intervals"]))
        yield from _remarks(source, every=every)
    if not value["sources"]:
        yield "no backups yet"


def _table_remarks(source: dict[str, Any], *, every: bool) -> Iterator[str]:
    """Yield lines about ranges of tables, without `every` only of those that are not restored exactly."""
    lines = [
        f"{table['table']} from {each['from']} to {each['to']}: {words}"
        for table in source["tables"]
        for each in table["stretches"]
        if (words := _range_words(each)) != _EXACT or every
    ]
    yield from lines[:_SHOWN]
    if lines[_SHOWN:]:
        yield f"{len(lines) - _SHOWN} more such lines: choose tables with --tables, or see --json"
    if number := source["tables_exact"]:
        yield f"{counted(number, 'other table' if lines else 'table')}: {_EXACT}, at each of these times"
    for each in source["unread"]:
        yield f"tables unknown from {each['from']} to {each['to']}: {each['reason']}"


def _range_words(stretch: dict[str, Any]) -> str:
    if stretch["rows"] == "older":
        words = f"rows of {stretch['as_of']}: {stretch['reason']}"
    elif stretch["rows"] == "missing":
        words = f"no rows: {stretch['reason']}"
    else:
        words = _EXACT if stretch["name"] == "known" else "the rows of this table"
    words = words if stretch["schema"] == "known" else f"{words}; schema approximate"
    return words if stretch["name"] == "known" else f"{words}; its name then is not proved"


def _why_approximate(span: dict[str, Any]) -> str:
    if span["changed_back"]:
        return "objects created and dropped in between are in no backup"
    if span["by_object"]:
        return "it was changed several times; a restore names the objects that were changed more than once"
    return "it was changed several times" if "first" in span else "it was changed, the time is unknown"


def _remarks(source: dict[str, Any], *, every: bool) -> Iterator[str]:
    """Yield lines about a source's gaps, approximate schemas, marks and waiting tables, then about its tables."""
    for gap in source["gaps"]:
        if "table" not in gap:  # tables have lines of their own
            yield f"gap from {gap['from']} to {gap['to']}: {gap['reason']}"
    for interval in source["intervals"]:
        if not interval["whole"]:
            yield f"only chosen tables from {interval['from']} to {interval['to']}"
        for span in interval["schema_approximate"]:
            within = f"lsn:{span['first']} and lsn:{span['last']}, " if "first" in span else ""
            yield f"schema approximate between {within}{span['from']} and {span['to']}: {_why_approximate(span)}"
    for each in source["marks"]:
        yield f"mark {each['name']}: {each['at']} at {each['position']}"
    yield from waiting_lines(source["waiting"])
    waiting = {each["table"] for each in source["waiting"]}
    for table, reason in source["not_followed"].items():
        if table not in waiting:
            yield f"only in full backups: {table}: {reason}"
    yield from _table_remarks(source, every=every)
