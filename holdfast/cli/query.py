"""`holdfast query`: SQL on backed-up tables at a recovery target."""

from __future__ import annotations

import math
from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from holdfast.archive import locks
from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points
from holdfast.cli.shared.options import Json, Store, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Formatted, Output, table_lines
from holdfast.cli.shared.reading import Consistent, open_archive, say_read_from
from holdfast.cli.shared.request_options import takes
from holdfast.common.lsn import show_position
from holdfast.common.units import parse_size
from holdfast.common.words import counted
from holdfast.operations.requests.query import QueryRequest
from holdfast.point_in_time.schema_choice import resolve
from holdfast.point_in_time.unlocked import read_unlocked
from holdfast.replication.work.consistent_read import open_to_read
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.point_in_time.query import Query


@takes(QueryRequest)
def query(
    url: Url,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement that reads, in DuckDB's dialect.")],
    request: QueryRequest,
    consistency: Consistent = None,
    store: Store = None,
    wait: Wait = 0,
    form: Formatted = "table",
    as_json: Json = False,
) -> None:
    """Query tables at any recovery target, without restoring them."""
    from holdfast.point_in_time.query import Query  # DuckDB and pandas, which no other command needs

    output = Output(as_json=as_json, form=form)
    at, limit, memory = request.at, request.limit, parse_size(request.memory)
    archive, opened = open_archive(url, consistency, store)
    place = opened.store
    locked = (
        nullcontext() if request.no_lock else locks.acquire(place, "query", owner=Owner(), purpose="query", wait=wait)
    )
    with locked as held, TemporaryDirectory(prefix="holdfast-query-", ignore_cleanup_errors=True) as folder:
        opened = open_to_read(place, opened.consistency, address=archive.coordination)
        state = opened.state
        source = restore_points.only_source(state, request.source, at)
        target = resolve(state, place, source, at, request.schema_choice)
        asked = Query(place, target, sql, memory_bytes=memory, spill=Path(folder))
        with nullcontext() if held else read_unlocked(place, target):
            columns, rows = _fetch(asked, limit + 1)
        if held:
            held.check()
    for note in filter(None, [restore_points.age_of_newest(state, target, datetime.now(UTC)), *asked.notes]):
        output.say(note)
    if len(rows) > limit:
        output.say(f"only the first {counted(limit, 'row')} shown: --limit shows more")
    value: dict[str, Any] = {
        "at": {"time": iso(target.at), "position": show_position(target.position), "commit": target.commit},
        "source": target.source,
        "columns": columns,
        "rows": rows[:limit],
        "complete": len(rows) <= limit,
        "notes": asked.notes,
        "read_from": opened.describe(),
    }
    say_read_from(output, value["read_from"])
    names = [each["name"] for each in columns]
    summary = _summary(value)
    output.rows(names, value["rows"], value, _lines(names, value["rows"], summary), [summary])


def _fetch(asked: Query, most: int) -> tuple[list[dict[str, str]], list[list[Any]]]:
    """Return the columns of the result and its first rows, as JSON values."""
    columns: list[dict[str, str]] = []
    rows: list[list[Any]] = []
    for batch in asked.rows():
        columns = [{"name": field.name, "type": str(field.type)} for field in batch.schema]
        some = batch.slice(0, most - len(rows))
        rows += map(list, zip(*(_values(column) for column in some.columns), strict=True))
        if len(rows) >= most:
            break
    return columns, rows


def _values(column: pa.Array) -> list[Any]:
    try:
        return [plain(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # beyond the years 1 to 9999
        return list(column.cast(pa.string()).to_pylist())


def plain(value: Any) -> Any:
    """Return a value as JSON has it; types that JSON lacks become text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, datetime):
        return iso(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _lines(names: Sequence[str], rows: Sequence[Sequence[Any]], summary: str) -> Iterator[str]:
    yield from table_lines(names, (["" if cell is None else str(cell) for cell in row] for row in rows))
    yield summary


def _summary(value: dict[str, Any]) -> str:
    at = value["at"]
    more = "" if value["complete"] else ", and more"
    return f"{counted(len(value['rows']), 'row')}{more}; {value['source']} as of {at['time']}, {at['position']}"
