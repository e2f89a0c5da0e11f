"""Put the changes of one form of a table together, sorted by key, position and order, in bounded memory.

What fits is sorted in memory. Of more, DuckDB sorts the keys alone; then each row goes to one of several files beside,
each of which fits. Files are read twice for that, and no row goes through DuckDB, which takes 2048 of them at a time,
however large they are.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.blocks import read_batches, write_parquet
from holdfast.archive.engine import open_engine
from holdfast.archive.shape import name_of, sql_type
from holdfast.errors import DamagedError
from holdfast.fields import EXACT_FIELD_IDS, LSN, SEQ, field_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from holdfast.archive.model import FileRecord
    from holdfast.storage import ObjectStore

MEMORY_BYTES: Final = 128 << 20
"""Of rows, as Arrow, that are sorted in memory."""

ENGINE_BYTES: Final = 192 << 20
"""DuckDB's, where there are more."""

_SLICE_BYTES: Final = 8 << 20
"""Of rows that are given out together."""

_KEYS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True)
class KeyRange:
    """Changes by the first column of their key, so that several tasks share the work; of all ranges one has a row.

    :param low: the least value, as an array of one; None: no bound.
    :param high: the first value behind; None: no bound, and rows without a value are here, too.
    """

    low: pa.Array | None = None
    high: pa.Array | None = None

    def has(self, values: pa.Array) -> pa.Array:
        """Return which values are in the range."""
        chosen = pa.repeat(pa.scalar(value=True), len(values))
        if self.low is not None:
            chosen = pc.invert(pc.fill_null(pc.less(values, self.low[0]), fill_value=False))
        if self.high is not None:
            chosen = pc.and_(chosen, pc.fill_null(pc.less(values, self.high[0]), fill_value=False))
        return chosen


EVERYTHING: Final = KeyRange()


def split_keys(store: ObjectStore, files: Sequence[FileRecord], key: int, count: int) -> tuple[KeyRange, ...]:
    """Return so many ranges with about as many changes in each, judged by the largest file; fewer where keys are few.

    :param key: number of the first column of the key.
    """
    largest = max(files, key=lambda file: file.size)
    columns = [batch.column(_places(batch.schema)[key]) for batch in read_batches(store, largest)]
    values = pa.chunked_array(columns).drop_null()
    ordered = values.take(pc.sort_indices(values))
    bounds = [ordered.slice(len(ordered) * each // count, 1) for each in range(1, count)]
    found = pa.chunked_array([chunk for bound in bounds for chunk in bound.chunks], values.type).unique()
    cuts = [None, *(found.slice(each, 1) for each in range(len(found))), None]
    return tuple(KeyRange(low, high) for low, high in pairwise(cuts))


def _places(schema: pa.Schema) -> dict[int, int]:
    return {field_id(each): index for index, each in enumerate(schema)}


@dataclass
class Merge:
    """The changes of one form of a table.

    :param files: in the order of the log.
    :param key: numbers of the columns that tell rows apart; without any, changes stay in the order of the log.
    :param within: which of them.
    """

    store: ObjectStore
    files: Sequence[FileRecord]
    key: Sequence[int]
    within: KeyRange = EVERYTHING
    memory_bytes: int = MEMORY_BYTES
    _schema: pa.Schema | None = field(default=None, init=False)

    def write(self, stem: str, spill: Path) -> Iterator[FileRecord]:
        """Write them to files `stem…`, sorted; yields their records, none where there are no changes.

        :param spill: an existing folder for what does not fit; what is written there is gone at the end.
        :raises DamagedError: a file is not what was written, or they are not of one form.
        """
        rows = self._sorted(spill) if self.key else self.read()
        first = next(rows, None)
        if first is None:
            return
        name = first.schema.names[_places(first.schema)[self.key[0]]] if self.key else None
        yield from write_parquet(self.store, stem, first.schema, _again(first, rows), key=name)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes as they are, in the order of their files."""
        for file in self.files:
            for batch in read_batches(self.store, file):
                if self._schema is None:
                    self._schema = batch.schema
                if not batch.schema.equals(self._schema, check_metadata=True):
                    raise DamagedError(f"{file.path} does not have the columns that the commits say it has")
                chosen = self._chosen(batch)
                if chosen.num_rows:
                    yield chosen

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.within == EVERYTHING:
            return batch
        return batch.filter(self.within.has(batch.column(_places(batch.schema)[self.key[0]])))

    def _sorted(self, spill: Path) -> Iterator[pa.RecordBatch]:
        waiting = self._all()
        yield from _in_order(waiting, self._order) if waiting is not None else self._spread(spill)

    def _all(self) -> list[pa.RecordBatch] | None:
        """Return all changes; None where they are too many."""
        found: list[pa.RecordBatch] = []
        size = 0
        for batch in self.read():
            found.append(batch)
            size += batch.nbytes
            if size > self.memory_bytes:
                return None
        return found

    def _order(self, schema: pa.Schema) -> list[int]:
        """Return where the columns stand that rows are sorted by."""
        places = _places(schema)
        wanted = [number for each in self.key for number in (each, each + EXACT_FIELD_IDS)]
        return [places[number] for number in (*wanted, LSN, SEQ) if number in places]

    def _spread(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Sort more than fits: bucket by bucket, each of which does."""
        with TemporaryDirectory(dir=spill) as name:
            folder = spill / name
            with open_engine(ENGINE_BYTES, folder) as connection:
                buckets = _Buckets(connection, self.read, self._order, self.memory_bytes // 2).of_rows()
            paths = _spread_out(self.read(), buckets, folder)
            for path in paths:
                with pa.OSFile(str(path)) as file:
                    batches = list(pa.ipc.open_stream(file))
                path.unlink()
                yield from _in_order(batches, self._order)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    del first
    yield from rest


def _in_order(batches: list[pa.RecordBatch], order: Callable[[pa.Schema], list[int]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches sorted; empties the list."""
    if not batches:
        return
    table = pa.Table.from_batches(batches).combine_chunks()
    batches.clear()
    columns = order(table.schema)
    names = [f"c{index}" for index in range(len(columns))]
    keys = pa.table([table.column(index) for index in columns], names=names)
    places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
    step = max(1, _SLICE_BYTES * table.num_rows // max(1, table.nbytes))
    for first in range(0, table.num_rows, step):
        yield from table.take(places[first : first + step]).combine_chunks().to_batches()


@dataclass
class _Buckets:
    """Finds for every row the bucket it belongs to, by sorting the keys alone.

    :param read: yields the rows; each time the same ones in the same order.
    :param size: bytes of rows in a bucket, about.
    """

    connection: DuckDBPyConnection
    read: Callable[[], Iterable[pa.RecordBatch]]
    order: Callable[[pa.Schema], list[int]]
    size: int

    def of_rows(self) -> NDArray[np.uint16]:
        """Return the number of each row's bucket; those of a lower number come first."""
        names, rows = self._load()
        found = np.zeros(rows, dtype=np.uint16)
        done = 0.0
        asked = f"select pos, size from events order by {', '.join(names)}"
        for batch in self.connection.sql(asked).to_arrow_reader(_KEYS_AT_ONCE):
            ends = done + np.cumsum(batch.column(1).to_numpy())
            found[batch.column(0).to_numpy()] = (ends // self.size).astype(np.uint16)
            done = float(ends[-1])
        return found

    def _load(self) -> tuple[list[str], int]:
        """Put the keys into table `events`; return the names of the columns to sort by, and how many rows there are."""
        names: list[str] = []
        rows = 0
        for batch in self.read():
            places = self.order(batch.schema)
            fields = [batch.schema.field(place) for place in places]
            if not names:
                names = [name_of(each) for each in fields]
                columns = [f"{name} {sql_type(each.type)}" for name, each in zip(names, fields, strict=True)]
                self.connection.execute(f"create table events ({', '.join(columns)}, pos bigint, size double)")
            positions = pa.array(np.arange(rows, rows + batch.num_rows, dtype=np.int64))
            size = pa.repeat(batch.nbytes / batch.num_rows, batch.num_rows)
            incoming = pa.table([*map(batch.column, places), positions, size], names=[*names, "pos", "size"])
            self.connection.register("incoming", incoming)
            self.connection.execute("insert into events select * from incoming")
            self.connection.unregister("incoming")
            rows += batch.num_rows
        return names, rows


def _spread_out(batches: Iterable[pa.RecordBatch], buckets: NDArray[np.uint16], folder: Path) -> list[Path]:
    """Write the rows of each bucket to a file of its own; return the files in the order of the buckets."""
    paths = [folder / f"{number}.arrow" for number in range(int(buckets.max(initial=0)) + 1)]
    start = 0
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchStreamWriter] = {}
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for batch in batches:
            mine = buckets[start : start + batch.num_rows]
            start += batch.num_rows
            ordered = batch.take(pa.array(np.argsort(mine, kind="stable")))
            numbers, firsts = np.unique(np.sort(mine), return_index=True)
            for number, first, end in zip(numbers, firsts, [*firsts[1:], len(mine)], strict=True):
                if number not in writers:
                    file = stack.enter_context(pa.OSFile(str(paths[number]), "wb"))
                    writers[number] = stack.enter_context(pa.ipc.new_stream(file, batch.schema, options=options))
                writers[number].write_batch(ordered.slice(first, end - first))
    return [path for path in paths if path.exists()]
