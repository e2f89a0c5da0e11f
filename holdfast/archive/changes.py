"""Data files of a table read as one: each row has a place, counted from 0, which is the same at every reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.blocks import read_batches
from holdfast.archive.history import LSN, OP, SEQ, field_id
from holdfast.archive.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from holdfast.archive.model import FileRecord
    from holdfast.storage import ObjectStore

_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a file, one after the other.

    :param start: the place of the first one.
    """

    start: int
    batch: pa.RecordBatch

    @property
    def end(self) -> int:
        """Return the place behind the last one."""
        return self.start + len(self.batch)

    def column(self, number: int) -> pa.Array:
        """Return the column with this field id."""
        return self.batch.column([field_id(each) for each in self.batch.schema].index(number))

    def places(self) -> pa.Array:
        """Return the place of each row."""
        return pa.array(np.arange(self.start, self.end, dtype=np.int64))


class Files:
    """Data files in a certain order."""

    def __init__(self, store: ObjectStore, files: Sequence[FileRecord]) -> None:
        self._store = store
        self._files = files

    def read(self, wanted: Callable[[int, int], bool] = lambda start, end: True) -> Iterator[Part]:
        """Yield the rows of the files, a row group or less at a time.

        :param wanted: asked of each file with the places of its first row and behind its last: whether to read it.
        """
        start = 0
        for file in self._files:
            end = start + file.rows
            if file.rows and wanted(start, end):
                for batch in read_batches(self._store, file):
                    yield Part(start, batch)
                    start += batch.num_rows
            start = end


class Shaper:
    """Brings parts in several forms to one; looks at each form once."""

    def __init__(self, wanted: pa.Schema, missing: Mapping[int, pa.Scalar]) -> None:
        self.wanted = wanted
        self._missing = missing
        self._written: pa.Schema | None = None
        self._shape: Shape | None = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in the wanted form."""
        if self._shape is None or self._written is None or not batch.schema.equals(self._written, check_metadata=True):
            self._written, self._shape = batch.schema, Shape(batch.schema, self.wanted, self._missing)
        return self._shape.apply(batch)


def within(part: Part, since: int, upto: int) -> pa.Array:
    """Return which rows of a part are changes of transactions between two positions."""
    lsn = part.column(LSN)
    return pc.and_(pc.greater_equal(lsn, since), pc.less(lsn, upto))


def order_of(lsn: int, seq: int) -> int:
    """Return one number that changes are ordered by."""
    return (lsn << _BITS) + seq


ORDER_SQL: Final = f"lsn::hugeint * {1 << _BITS} + seq"
"""The same in SQL."""


def last_truncation(part: Part, chosen: pa.Array) -> int | None:
    """Return the order of the last change that emptied the table; None where there is none."""
    found: NDArray[np.int64] = np.flatnonzero(pc.and_(chosen, pc.equal(part.column(OP), "T")))
    if not len(found):
        return None
    lsn, seq = part.column(LSN).take(pa.array(found)), part.column(SEQ).take(pa.array(found))
    return max(order_of(*each) for each in zip(lsn.to_pylist(), seq.to_pylist(), strict=True))
