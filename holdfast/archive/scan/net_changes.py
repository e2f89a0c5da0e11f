"""Net changes of a table between its snapshot and a position.

What counts is found by DuckDB from the keys alone; rows never go through it, since it takes 2048 of them at a time,
however large they are. So files are read twice: for the keys, and those that hold rows which count for these. Where a
row's values are spread over several changes there is one more reading, of the files they are in.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.scan.change_files import Files, Shaper
from holdfast.archive.scan.engine import apart
from holdfast.archive.scan.keyed_changes import KeyedChanges
from holdfast.archive.scan.keyless import KeylessChanges
from holdfast.common.field_ids import COUNT, OP, UNCHANGED, field_id, numbered, with_extra

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from holdfast.archive.files.data_files import ReadableStore
    from holdfast.archive.scan.change_files import FileRows
    from holdfast.archive.scan.table_history import TableHistory

ROWS: Final = 8192
"""In a batch of keys."""

FILLED_BYTES: Final = 16 << 20
"""Of values from elsewhere that are put into one batch, about."""


def net_schema(history: TableHistory) -> pa.Schema:
    """Return the schema of net changes: the wanted columns, then what to do with them.

    With a key these are `__op` and `__unchanged`, without one `__op` and `__count`; the names get underscores appended
    where the table has such columns.
    """
    op = numbered("__op", pa.string(), OP)
    if history.key:
        return with_extra(history.wanted, op, numbered("__unchanged", pa.list_(pa.int32()), UNCHANGED))
    return with_extra(history.wanted, op, numbered("__count", pa.int64(), COUNT))


def net_changes(
    engine: DuckDBPyConnection, store: ReadableStore, history: TableHistory, *, spill: Path
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the net changes of a table, which make the rows at the position of those in the snapshot.

    With a key there is one row for each key that has another row now: `I`, all of it; `U`, all of it but the columns in
    `__unchanged`, whose values are those of the snapshot's row with that key; `D`, only the key: the snapshot's row is
    gone. Without one each is a whole row to be added (`I`) or taken away (`D`) `__count` times. A first row `T` says
    that nothing of the snapshot is left; then there are no others than `I`.

    :param engine: an open one, which does nothing else meanwhile; beside its memory are a file, a row group of it in
        Arrow and a batch.
    :param spill: an existing folder for rows, which is empty again at the end.
    :raises DamagedError: a file is not what was written, or changes do not fit together.
    """
    if not history.relevant():
        return
    changes = Files(store, [file for record in history.relevant() for file in record.files])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=spill, ignore_cleanup_errors=True)))
        stack.enter_context(apart(engine))
        if history.key:
            yield from _Keyed(engine, store, history, changes, folder).batches()
        else:
            yield from _keyless(engine, history, changes)


def _whole(schema: pa.Schema, rows: pa.RecordBatch, *extra: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, *extra], schema=schema)


def _truncation(schema: pa.Schema) -> pa.RecordBatch:
    empty = [pa.array(["T"]) if field_id(field) == OP else pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(empty, schema=schema)


def _keyless(connection: DuckDBPyConnection, history: TableHistory, changes: Files) -> Iterator[pa.RecordBatch]:
    schema = net_schema(history)
    balance = KeylessChanges(connection, history)
    balance.load(changes)
    balance.settle()
    if balance.emptied is not None:
        yield _truncation(schema)
    shaper = Shaper(history.wanted, history.missing)
    picks = _Picks(connection, "op, count")
    for part in changes.read(picks.any_between):
        rows, found = picks.of(part)
        if len(rows):
            batch = shaper.apply(part.batch.take(rows))
            yield _whole(schema, batch, found["op"].combine_chunks(), found["count"].combine_chunks())


class _Picks:
    def __init__(self, connection: DuckDBPyConnection, columns: str, table: str = "picks", place: str = "pos") -> None:
        self._sql = connection
        self._columns = columns
        self._table = table
        self._place = place

    def any_between(self, start: int, end: int) -> bool:
        found = self._sql.execute(
            f"select 1 from {self._table} where {self._place} >= ? and {self._place} < ? limit 1", [start, end]
        ).fetchall()
        return bool(found)

    def of(self, part: FileRows) -> tuple[pa.Array, pa.Table]:
        """Return the picked rows of a part, and their details."""
        found = self._sql.sql(
            f"select {self._place} - {part.start} as row, {self._columns} from {self._table} "
            f"where {self._place} >= {part.start} and {self._place} < {part.end} order by {self._place}"
        ).to_arrow_table()
        return found["row"].combine_chunks(), found


class Shelf:
    """Values of some fields; written once to a new file, then read in any order."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)
        self._ends: list[int] = []
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> int:
        """Set rows aside, and return the place of the first one."""
        first = self.rows
        self._writer.write_batch(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self._ends.append(self.rows)
        return first

    def finish(self) -> None:
        self._writer.close()
        self._file.close()
        self._reader = pa.ipc.open_file(pa.memory_map(str(self._path)))

    def take(self, places: NDArray[np.int64]) -> pa.RecordBatch:
        if self._reader is None:
            raise RuntimeError("values can be taken once all are there")
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        ends = np.array(self._ends, dtype=np.int64)
        batches = np.searchsorted(ends, ordered, side="right")
        parts = []
        for number in np.unique(batches):
            inside = ordered[batches == number] - (ends[number - 1] if number else 0)
            parts.append(self._reader.get_batch(int(number)).take(pa.array(inside)))
        found = pa.Table.from_batches(parts, self._schema).combine_chunks()
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        (batch,) = found.take(pa.array(back)).combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], self._schema)
        ]
        return batch


class _Keyed:
    def __init__(
        self, connection: DuckDBPyConnection, store: ReadableStore, history: TableHistory, changes: Files, folder: Path
    ) -> None:
        self._sql = connection
        self._store = store
        self._history = history
        self._changes = changes
        self._folder = folder
        self._schema = net_schema(history)
        self._touched = KeyedChanges(connection, history)
        self._shelves: dict[int, Shelf] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        touched = self._touched
        touched.load(self._changes)
        touched.settle()
        self._fill_shelves()
        if touched.emptied is not None:
            yield _truncation(self._schema)
        yield from self._deleted()
        yield from self._rows()

    def _deleted(self) -> Iterator[pa.RecordBatch]:
        for keys in self._touched.deleted(ROWS):
            columns = dict(zip(keys.schema.names, keys.columns, strict=True))
            columns[self._schema.names[-2]] = pa.repeat(pa.scalar("D"), keys.num_rows)
            yield pa.RecordBatch.from_arrays(
                [columns.get(field.name, pa.nulls(keys.num_rows, field.type)) for field in self._schema],
                schema=self._schema,
            )

    def _fill_shelves(self) -> None:
        """Set aside the values that rows lack, from the changes and the snapshot that have them."""
        self._sql.execute("create table shelved (number integer, pos bigint, place bigint)")
        self._set_aside(self._changes, "change_pieces")
        if self._touched.needs_base():
            base = Files(self._store, self._history.base)
            self._touched.find_in_base(base)
            self._set_aside(base, "base_pieces")
        for shelf in self._shelves.values():
            shelf.finish()
        self._sql.execute("create or replace table shelved as select * from shelved order by number, pos")

    def _set_aside(self, files: Files, table: str) -> None:
        pieces = _Picks(self._sql, "number, pos", table, "source")
        shapers: dict[int, Shaper] = {}
        for part in files.read(pieces.any_between):
            rows, found = pieces.of(part)
            numbers = found["number"].to_numpy()
            for number in np.unique(numbers).tolist():
                fields = self._history.fields((number,))
                shaper = shapers.setdefault(number, Shaper(fields, self._history.missing))
                if number not in self._shelves:
                    self._shelves[number] = Shelf(self._folder / f"{number}.arrow", fields)
                mine = pa.array(numbers == number)
                values = shaper.apply(part.batch.take(rows.filter(mine)))
                place = self._shelves[number].add(values)
                places = pa.array(np.arange(place, place + values.num_rows, dtype=np.int64))
                self._sql.register("incoming", pa.table({"pos": found["pos"].filter(mine), "place": places}))
                self._sql.execute("insert into shelved select ?, pos, place from incoming", [number])
                self._sql.unregister("incoming")

    def _rows(self) -> Iterator[pa.RecordBatch]:
        shaper = Shaper(self._history.wanted, self._history.missing)
        picks = _Picks(self._sql, "pos, op, u")
        for part in self._changes.read(picks.any_between):
            rows, found = picks.of(part)
            positions = found["pos"].to_numpy()
            set_aside = [self._set_aside_for(number, part, positions) for number in self._shelves]
            for some in _slices(len(rows), set_aside):
                batch = shaper.apply(part.batch.take(rows[some]))
                for each in set_aside:
                    batch = each.put_into(batch, some)
                yield _whole(self._schema, batch, *(_plain(found[name][some]) for name in ("op", "u")))

    def _set_aside_for(self, number: int, part: FileRows, positions: NDArray[np.int64]) -> _SetAside:
        found = self._sql.sql(
            f"select pos, place from shelved where number = {number} "
            f"and pos >= {part.start} and pos < {part.end} order by pos"
        ).to_arrow_table()
        places = np.full(len(positions), -1, dtype=np.int64)
        places[np.searchsorted(positions, found["pos"].to_numpy())] = found["place"].to_numpy()
        return _SetAside(self._shelves[number], places)


@dataclass(frozen=True, slots=True)
class _SetAside:
    """Values on a shelf for the rows of a part; `places` is -1 where a row has its own."""

    shelf: Shelf
    places: NDArray[np.int64]

    def sizes(self) -> NDArray[np.float64]:
        """Return the approximate bytes added to each row."""
        return np.where(self.places >= 0, self.shelf.bytes / max(1, self.shelf.rows), 0.0)

    def put_into(self, batch: pa.RecordBatch, some: slice) -> pa.RecordBatch:
        mask = self.places[some] >= 0
        if mask.any():
            values = self.shelf.take(self.places[some][mask])
            for field, column in zip(values.schema, values.columns, strict=True):
                index = batch.schema.names.index(field.name)
                filled = pc.replace_with_mask(batch.column(index), pa.array(mask), column)
                batch = batch.set_column(index, field, filled)
        return batch


def _slices(rows: int, set_aside: Sequence[_SetAside]) -> Iterator[slice]:
    """Cut rows into slices with about FILLED_BYTES of values to put in, at most."""
    put = np.cumsum(sum((each.sizes() for each in set_aside), np.zeros(rows)))
    cuts = np.flatnonzero(np.diff(put // FILLED_BYTES)) + 1
    ends = [*cuts.tolist(), rows] if rows else []
    return map(slice, [0, *ends[:-1]], ends)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.cast(pa.list_(pa.int32())) if pa.types.is_list(array.type) else array
