"""Merge of a table's changes of one form, sorted by key, position and order, in bounded memory.

What fits is sorted in memory. Of more, each row goes to one of several files beside, by ranges of its key, and each of
those is sorted alone; one that turns out too large is spread once more. Where a single value of the key's first column
has more rows than fit, DuckDB sorts the keys alone, to say where each row goes: no row goes through DuckDB, which takes
2048 of them at a time, however large they are.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.archive.files.blocks import read_batches, write_parquet
from holdfast.archive.files.data_files import open_file
from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.projection import name_of, sql_type
from holdfast.common.errors import DamagedError
from holdfast.common.field_ids import EXACT_FIELD_IDS, LSN, SEQ, field_id
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from holdfast.archive.files.data_files import ReadableStore, Writable
    from holdfast.archive.format.document import FileRecord

MEMORY_BYTES: Final = 128 << 20
"""Of rows, as Arrow, that are sorted in memory."""

ENGINE_BYTES: Final = 192 << 20
"""DuckDB's, where there are more."""

_SLICE_BYTES: Final = 8 << 20
"""Of rows that are given out together."""

_KEYS_AT_ONCE: Final = 1 << 16

_RANGES: Final = 32
"""Files that rows are spread over, at most; of what does not fit in so many, each is spread again."""

_SAMPLED_FILES: Final = 16
_SAMPLED_VALUES: Final = 4096
"""Of each file."""


@dataclass(frozen=True)
class KeyRange:
    """Range of changes by the first column of their key; each row is in exactly one.

    :param low: the least value, as an array of one; None: no bound.
    :param high: the first value behind; None: no bound, and rows without a value are in it, too.
    """

    low: pa.Array | None = None
    high: pa.Array | None = None

    def has(self, values: pa.Array) -> pa.Array:
        chosen = pa.repeat(pa.scalar(value=True), len(values))
        if self.low is not None:
            chosen = pc.invert(pc.fill_null(pc.less(values, self.low[0]), fill_value=False))
        if self.high is not None:
            chosen = pc.and_(chosen, pc.fill_null(pc.less(values, self.high[0]), fill_value=False))
        return chosen


EVERYTHING: Final = KeyRange()


def split_keys(store: ReadableStore, files: Sequence[FileRecord], key: int, count: int) -> tuple[KeyRange, ...]:
    """Split keys into ranges with about as many changes each, judged by a sample; fewer where keys are few.

    :param key: number of the first column of the key.
    """
    bounds = _bounds(_sample(store, files, key), count)
    return tuple(KeyRange(low, high) for low, high in pairwise([None, *bounds, None]))


def _sample(store: ReadableStore, files: Sequence[FileRecord], key: int) -> list[pa.Array]:
    """Sample a column from files all along the log; unverified, as it decides only where to cut."""
    chosen = files[:: max(1, len(files) // _SAMPLED_FILES)]
    return [values for file in chosen if (values := _some_of(store, file, key)) is not None]


def _some_of(store: ReadableStore, record: FileRecord, key: int) -> pa.Array | None:
    """Return values from the middle of a file; None where it has none, or cannot be read."""
    with suppress(DamagedError, StoreError, pa.ArrowException), open_file(store, record) as file:
        parquet = pq.ParquetFile(file)
        name = parquet.schema_arrow.names[_places(parquet.schema_arrow)[key]]
        if parquet.num_row_groups:
            group = parquet.read_row_group(parquet.num_row_groups // 2, columns=[name], use_threads=False)
            return _some(group.column(0).combine_chunks())
    return None


def _some(values: pa.Array, most: int = _SAMPLED_VALUES) -> pa.Array:
    """Sample at most `most` values from all along an array, and at least one."""
    return values.take(pa.array(np.arange(0, len(values), max(1, -(-len(values) // max(1, most))))))


def _bounds(sample: Sequence[pa.Array], count: int) -> list[pa.Array]:
    """Return the first value of each range but the first, as arrays of one; none where all values are alike."""
    if not sample:
        return []
    values = pa.chunked_array(sample).drop_null()
    if not len(values):
        return []
    ordered = values.take(pc.sort_indices(values)).combine_chunks()
    cuts = sorted({len(ordered) * each // count for each in range(1, count)})
    found = ordered.take(pa.array(cuts, pa.int64())).unique()
    found = found.filter(pc.greater(found, ordered[0]))
    if not len(found):  # most of them are the least one
        found = ordered.filter(pc.greater(ordered, ordered[0])).slice(0, 1)
    return [found.slice(each, 1) for each in range(len(found))]


def _places(schema: pa.Schema) -> dict[int, int]:
    return {field_id(each): index for index, each in enumerate(schema)}


@dataclass
class Merge:
    """Changes of one form of a table.

    :param files: in the order of the log.
    :param key: numbers of the columns that tell rows apart; without any, changes stay in the order of the log.
    :param within: which of them.
    """

    store: ReadableStore
    files: Sequence[FileRecord]
    key: Sequence[int]
    within: KeyRange = EVERYTHING
    memory_bytes: int = MEMORY_BYTES
    _schema: pa.Schema | None = field(default=None, init=False)

    def write(self, target: Writable, stem: str, spill: Path) -> Iterator[FileRecord]:
        """Write the changes to a store's files `stem…`, sorted; yield their records.

        :param spill: an existing folder for what does not fit, which is empty again at the end.
        :raises DamagedError: a file is not what was written, or they are not of one form.
        """
        rows = self._sorted(spill) if self.key else self.read()
        first = next(rows, None)
        if first is None:
            return
        name = first.schema.names[_places(first.schema)[self.key[0]]] if self.key else None
        yield from write_parquet(target, stem, first.schema, _again(first, rows), key=name)

    def read(self) -> Iterator[pa.RecordBatch]:
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
        waiting: list[pa.RecordBatch] = []
        size = 0
        rows = self.read()
        for batch in rows:
            waiting.append(batch)
            size += batch.nbytes
            if size > self.memory_bytes:
                break
        else:
            yield from _in_order(waiting, self._order)
            return
        whole = size * sum(file.rows for file in self.files) // sum(batch.num_rows for batch in waiting)
        sample = _sample(self.store, self.files, self.key[0])
        bounds = self._cut([values.filter(self.within.has(values)) for values in sample], whole)
        with TemporaryDirectory(dir=spill, ignore_cleanup_errors=True) as folder:
            if bounds:
                yield from self._spread(chain(_emptied(waiting), rows), bounds, Path(folder))
            else:
                waiting.clear()
                yield from self._by_engine(self.read, Path(folder))

    def _cut(self, sample: Sequence[pa.Array], size: int) -> list[pa.Array]:
        return _bounds(sample, max(2, min(_RANGES, 2 * size // self.memory_bytes + 1)))

    def _spread(
        self, rows: Iterable[pa.RecordBatch], bounds: Sequence[pa.Array], folder: Path
    ) -> Iterator[pa.RecordBatch]:
        def numbers(batch: pa.RecordBatch) -> NDArray[np.uint16]:
            values = batch.column(_places(batch.schema)[self.key[0]])
            found = np.zeros(batch.num_rows, dtype=np.uint16)
            for bound in bounds:
                found += _reaches(values, bound)
            return found

        for path, size in _spread_out(rows, numbers, folder):
            if size <= self.memory_bytes:
                yield from _in_order(list(_spilled(path)), self._order)
            else:
                yield from self._spread_again(path, size)
            path.unlink()

    def _spread_again(self, path: Path, size: int) -> Iterator[pa.RecordBatch]:
        sample = [
            _some(
                batch.column(_places(batch.schema)[self.key[0]]),
                _SAMPLED_FILES * _SAMPLED_VALUES * batch.nbytes // size,
            )
            for batch in _spilled(path)
        ]
        bounds = self._cut(sample, size)
        with TemporaryDirectory(dir=path.parent, ignore_cleanup_errors=True) as folder:
            if bounds:
                yield from self._spread(_spilled(path), bounds, Path(folder))
            else:
                yield from self._by_engine(lambda: _spilled(path), Path(folder))

    def _order(self, schema: pa.Schema) -> list[int]:
        places = _places(schema)
        wanted = [number for each in self.key for number in (each, each + EXACT_FIELD_IDS)]
        return [places[number] for number in (*wanted, LSN, SEQ) if number in places]

    def _by_engine(self, read: Callable[[], Iterable[pa.RecordBatch]], folder: Path) -> Iterator[pa.RecordBatch]:
        """Sort more rows than fit, of one first key value: DuckDB says by their keys where each goes."""
        with open_engine(ENGINE_BYTES, folder) as connection:
            buckets = _Buckets(connection, read, self._order, self.memory_bytes // 2).of_rows()
        ends = 0

        def numbers(batch: pa.RecordBatch) -> NDArray[np.uint16]:
            nonlocal ends
            ends += batch.num_rows
            return buckets[ends - batch.num_rows : ends]

        for path, _ in _spread_out(read(), numbers, folder):
            yield from _in_order(list(_spilled(path)), self._order)
            path.unlink()


def _reaches(values: pa.Array, bound: pa.Array) -> NDArray[np.bool_]:
    """Return a mask of the values not less than a bound; nulls and NaN come last."""
    found: NDArray[np.bool_] = KeyRange(low=bound).has(values).to_numpy(zero_copy_only=False)
    return found


def _emptied(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches.reverse()
    while batches:
        yield batches.pop()


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    del first
    yield from rest


def _in_order(batches: list[pa.RecordBatch], order: Callable[[pa.Schema], list[int]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches sorted, and empty the list."""
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
    """Assignment of rows to buckets, by sorting the keys alone.

    :param read: yields the rows; each time the same ones in the same order.
    :param size: bytes of rows in a bucket, about.
    """

    connection: DuckDBPyConnection
    read: Callable[[], Iterable[pa.RecordBatch]]
    order: Callable[[pa.Schema], list[int]]
    size: int

    def of_rows(self) -> NDArray[np.uint16]:
        """Return the number of each row's bucket; rows of a lower number come first."""
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
        """Load keys into table `events`; return the names of columns to sort by, and the number of rows."""
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


def _spread_out(
    batches: Iterable[pa.RecordBatch], numbers: Callable[[pa.RecordBatch], NDArray[np.uint16]], folder: Path
) -> list[tuple[Path, int]]:
    """Write the rows of each number to a file of its own; return files and bytes, by number.

    :param numbers: called for each batch, in order.
    """
    sizes: dict[int, int] = {}
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchStreamWriter] = {}
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for batch in batches:
            mine = numbers(batch)
            ordered = batch.take(pa.array(np.argsort(mine, kind="stable")))
            found, counts = np.unique(mine, return_counts=True)
            first = 0
            for number, count in zip(found.tolist(), counts.tolist(), strict=True):
                if number not in writers:
                    file = stack.enter_context(pa.OSFile(str(folder / f"{number}.arrow"), "wb"))
                    writers[number] = stack.enter_context(pa.ipc.new_stream(file, batch.schema, options=options))
                rows = ordered.slice(first, count)
                writers[number].write_batch(rows)
                sizes[number] = sizes.get(number, 0) + rows.nbytes
                first += count
    return [(folder / f"{number}.arrow", sizes[number]) for number in sorted(sizes)]


def _spilled(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file:
        yield from pa.ipc.open_stream(file)
