"""Data files of a table, read as one sequence of rows; each row has a place, the same at every reading."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.files.blocks import GROUP_BYTES, decode_groups, open_parquet, read_groups
from holdfast.archive.files.data_files import read_file
from holdfast.archive.scan.projection import Projection
from holdfast.common.field_ids import LSN, OP, SEQ, field_id
from holdfast.common.side_by_side import do_side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from holdfast.archive.files.data_files import ReadableStore
    from holdfast.archive.format.document import FileRecord

_BITS: Final = 63

RUN_BYTES: Final = 1 << 20
"""Of small files that are read one after the other, as they are stored."""

PART_BYTES: Final = 4 << 20
"""Of small batches that are put together."""

_KEPT_BYTES: Final = 16 << 20
"""Of rows of small files, in Arrow, that are kept for the next reading."""

AT_ONCE: Final = 4
"""Small files that are read at the same time: from a cloud, each takes a request's time."""

_FEW_ROWS: Final = 8192
"""No more are in a small file, so that few of those at once take little memory."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a file, or of several small ones.

    :param start: the place of the first one.
    """

    start: int
    batch: pa.RecordBatch

    @property
    def end(self) -> int:
        return self.start + len(self.batch)

    def column(self, number: int) -> pa.Array:
        return self.batch.column([field_id(each) for each in self.batch.schema].index(number))

    def places(self) -> pa.Array:
        return pa.array(np.arange(self.start, self.end, dtype=np.int64))


class Files:
    def __init__(self, store: ReadableStore, files: Sequence[FileRecord]) -> None:
        self._store = store
        self._files = files
        self._kept: dict[int, list[pa.RecordBatch]] = {}
        self._room = _KEPT_BYTES

    def read(
        self, wanted: Callable[[int, int], bool] = lambda start, end: True, *, ids: Container[int] | None = None
    ) -> Iterator[FileRows]:
        """Yield the files' rows, at most a row group at a time; those of small files come together.

        :param wanted: whether to read rows, by the places of the first one and behind the last.
        :param ids: of the fields to read, and maybe others; None: all.
        """
        end = 0
        for number, files in enumerate(self._runs()):
            start, end = end, end + sum(file.rows for file in files)
            if end > start and wanted(start, end):
                yield from self._parts(number, files, start, wanted, ids)

    def _parts(
        self,
        number: int,
        files: Sequence[FileRecord],
        start: int,
        wanted: Callable[[int, int], bool],
        ids: Container[int] | None,
    ) -> Iterator[FileRows]:
        if len(files) == 1 and not _is_small(files[0]):
            groups = read_groups(
                self._store, files[0], ids=ids, wanted=lambda first, behind: wanted(start + first, start + behind)
            )
            for first, batch in groups:
                yield FileRows(start + first, batch)
            return
        for batch in self._batches(number, files, ids):
            yield FileRows(start, batch)
            start += batch.num_rows

    def _batches(
        self, number: int, files: Sequence[FileRecord], ids: Container[int] | None
    ) -> Iterable[pa.RecordBatch]:
        """Return the rows of a run of files; few are kept, since most are read twice."""
        if number in self._kept:
            return self._kept[number]
        if any(not _is_small(file) for file in files):
            return _joined(batch for file in files for _, batch in read_groups(self._store, file, ids=ids))
        keep = self._room > 0
        batches = iter(_joined(self._small(files, None if keep else ids)))
        found: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size > GROUP_BYTES:  # small as they are stored, these files are large
                self._room = 0
                return chain(found, batches)
        if keep and size <= self._room:
            self._room -= size
            self._kept[number] = found
        elif keep:
            self._room = 0
        return found

    def _small(self, files: Sequence[FileRecord], ids: Container[int] | None) -> Iterator[pa.RecordBatch]:
        def read(file: FileRecord) -> bytes:
            return read_file(self._store, file)

        # On this machine, threads would take longer to take turns than to read.
        is_away = "://" in self._store.url
        bodies = do_side_by_side(read, files, at_once=AT_ONCE) if is_away else map(read, files)
        for file, body in zip(files, bodies, strict=True):
            yield from (batch for _, batch in decode_groups(open_parquet(body, file.path), file, ids=ids))

    def _runs(self) -> Iterator[list[FileRecord]]:
        """Yield the files in their order, small ones together."""
        run: list[FileRecord] = []
        size = 0
        for file in self._files:
            if run and size + file.size > RUN_BYTES:
                yield run
                run, size = [], 0
            run.append(file)
            size += file.size
        if run:
            yield run


def _is_small(file: FileRecord) -> bool:
    return file.size <= RUN_BYTES and file.rows <= _FEW_ROWS


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches of one form: the work on a part takes longer than that on its rows."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        same = not waiting or batch.schema.equals(waiting[0].schema, check_metadata=True)
        if waiting and (not same or size + batch.nbytes > PART_BYTES):
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


class Shaper:
    """Conversion of parts in several forms to one."""

    def __init__(self, wanted: pa.Schema, missing: Mapping[int, pa.Scalar]) -> None:
        self.wanted = wanted
        self._missing = missing
        self._written: pa.Schema | None = None
        self._shape: Projection | None = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._shape is None or self._written is None or not batch.schema.equals(self._written, check_metadata=True):
            self._written, self._shape = batch.schema, Projection(batch.schema, self.wanted, self._missing)
        return self._shape.apply(batch)


def within(part: FileRows, since: int, upto: int) -> pa.Array:
    """Return a mask of the changes of transactions between two positions."""
    lsn = part.column(LSN)
    return pc.and_(pc.greater_equal(lsn, since), pc.less(lsn, upto))


def order_of(lsn: int, seq: int) -> int:
    return (lsn << _BITS) + seq


ORDER_SQL: Final = f"lsn::hugeint * {1 << _BITS} + seq"
"""The same in SQL."""


def last_truncation(part: FileRows, chosen: pa.Array) -> int | None:
    """Return the order of the last truncation of the table, or None."""
    found: NDArray[np.int64] = np.flatnonzero(pc.and_(chosen, pc.equal(part.column(OP), "T")))
    if not len(found):
        return None
    lsn, seq = part.column(LSN).take(pa.array(found)), part.column(SEQ).take(pa.array(found))
    return max(order_of(*each) for each in zip(lsn.to_pylist(), seq.to_pylist(), strict=True))
