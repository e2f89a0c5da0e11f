"""Rows of change files, made from the messages about one table.

All rows of a batch are made at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.lsn import show_position
from holdfast.postgresql.logical.pgoutput import DELETE, INSERT, KEY, NEW, OLD, TRUNCATE, UPDATE, ProtocolError, tuples
from holdfast.postgresql.values import arrow
from holdfast.postgresql.values.decode import UnkeepableValueError
from holdfast.postgresql.values.from_text import TextDecoder
from holdfast.postgresql.values.stored_columns import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.logical.pgoutput import PgoutputMessages
    from holdfast.postgresql.logical.relation_schema import ChangeForm
    from holdfast.postgresql.values.arrow import Bools
    from holdfast.postgresql.values.from_text import Cells
    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s
    from holdfast.postgresql.values.stored_columns import StoredColumn

_INSERT, _UPDATE, _DELETE, _TRUNCATE = b"IUDT"


def change_rows(messages: PgoutputMessages, rows: Int64s, form: ChangeForm, limit: int) -> pa.RecordBatch:
    """Return the change rows of some messages, in order of commits and numbers.

    :param rows: numbers of messages, each a change of this table.
    :param limit: bytes of the largest value that is kept.
    :raises ProtocolError: they are not what PostgreSQL sends of such a table.
    :raises UnkeepableValueError: naming table and column.
    """
    try:
        return _Changes(messages, rows, form, limit).batch()
    except UnkeepableValueError as error:
        first = int(messages.lsn[rows[0]])
        where = f"a row changed by a transaction at or after {show_position(first)}"
        raise error.of(form.label, where) from error


class _Side(NamedTuple):
    """Old or new rows of some messages.

    :param rows: numbers of the messages.
    """

    rows: Int64s
    cells: list[Cells]

    def of(self, which: Bools) -> _Side:
        """Return some of them."""
        if which.all():
            return self
        return _Side(self.rows[which], [cells.of(which) for cells in self.cells])


class _Changes:
    """Group of messages while it becomes rows."""

    def __init__(self, messages: PgoutputMessages, rows: Int64s, form: ChangeForm, limit: int) -> None:
        self._messages = messages
        self._form = form
        self._stored = layout(form.columns)
        self._text = TextDecoder(messages.buffer, messages.octets, limit)
        self._kinds = messages.kinds[rows]
        self._truncates = rows[self._kinds == TRUNCATE]
        others = self._kinds != TRUNCATE
        self._read_tuples(rows[others], self._kinds[others])

    def _read_tuples(self, rows: Int64s, kinds: UInt8s) -> None:
        octets, count = self._messages.octets, len(self._form.columns)
        at = self._messages.starts[rows] + 5
        tags = octets[at]
        expected = OLD if self._form.keeps_old_rows else KEY
        has_old = tags == expected
        ok = np.where(kinds == INSERT, tags == NEW, has_old | ((kinds == UPDATE) & (tags == NEW)))
        if not ok.all():
            raise ProtocolError(f"changes of {self._form.label} that are not logged as its replica identity says")
        ends = at.copy()
        old, ends[has_old] = tuples(octets, at[has_old] + 1, count)
        has_new = kinds != DELETE
        start = ends[has_new]
        if (octets.take(start, mode="clip") != NEW).any():
            raise ProtocolError(f"updates of {self._form.label} without a new row")
        new, ends[has_new] = tuples(octets, start + 1, count)
        if (ends != self._messages.ends[rows]).any():
            raise ProtocolError(f"changes of {self._form.label} of another size")
        self._old = _Side(rows[has_old], old)
        self._new = _Side(rows[has_new], new)
        self._updates = kinds[has_new] == UPDATE
        self._old_updates = kinds[has_old] == UPDATE
        if any(cells.unchanged is not None for cells in old):
            raise ProtocolError(f"old rows of {self._form.label} that are not whole")

    def batch(self) -> pa.RecordBatch:
        """Return the rows."""
        # Of each new row, the number of its old one.
        pair = np.full(len(self._new.rows), -1)
        with_old = self._updates & np.isin(self._new.rows, self._old.rows[self._old_updates])
        pair[with_old] = np.flatnonzero(self._old_updates)
        split = self._split(pair)
        removed = ~self._old_updates
        removed[pair[split]] = True
        parts = [self._added(pair, split)] if len(self._new.rows) else []
        if removed.any():
            parts.append(self._removed(self._old.of(removed)))
        if len(self._truncates):
            parts.append(self._emptied())
        if len(parts) == 1:
            return parts[0]
        whole = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        order = np.lexsort((_numbers(whole, -3), _numbers(whole, -4)))
        return whole.take(pa.array(order))

    def _split(self, pair: Int64s) -> Bools:
        """Return the mask of updates that become a deletion and an insertion.

        Their new row takes the place of an old one that has to be removed for itself.
        """
        if not self._form.key:
            if (self._updates & (pair < 0)).any():
                raise ProtocolError(f"updates of {self._form.label} that do not tell the old row")
            every: Bools = self._updates
            return every
        split: Bools = np.zeros(len(pair), np.bool_)
        both = np.flatnonzero(pair >= 0)
        for place in self._form.key_places if len(both) else ():
            new, old = self._new.cells[place].of(both), self._old.cells[place].of(pair[both])
            same = new.unchanged.copy() if new.unchanged is not None else np.zeros(len(both), np.bool_)
            same |= _same_text(self._text, new, old)
            split[both] |= ~same
        return split

    def _added(self, pair: Int64s, split: Bools) -> pa.RecordBatch:
        """Return inserted and updated rows as they are after it."""
        values, sidecars, left = [], [], []
        for place, (each, cells) in enumerate(zip(self._stored, self._new.cells, strict=True)):
            value, *exact = self._text.decode(each, cells)
            if cells.unchanged is not None:
                is_logged = self._form.keeps_old_rows or place in self._form.key_places
                filled = cells.unchanged & (pair >= 0) & is_logged
                value, *exact = self._filled(each, (value, *exact), filled, pair)
                unknown = cells.unchanged & ~filled
                if unknown.any():
                    self._refuse_unknown(place, unknown)
                    left.append((each.column.number, unknown))
            values.append(value)
            sidecars += exact
        letters = np.where(self._updates & ~split, _UPDATE, _INSERT).astype(np.uint8)
        return self._put_together(self._new.rows, split, letters, values + sidecars, _unchanged(left, len(pair)))

    def _refuse_unknown(self, place: int, unknown: Bools) -> None:
        if place in self._form.key_places or (unknown & ~self._updates).any():
            raise ProtocolError(f"changes of {self._form.label} that do not tell the row's key")

    def _filled(self, each: StoredColumn, arrays: Sequence[pa.Array], which: Bools, pair: Int64s) -> Sequence[pa.Array]:
        """Return a column with the values that did not change taken from the old rows."""
        if not which.any():
            return arrays
        old = self._text.decode(each, self._old.cells[each.index].of(pair[which]))
        take = np.arange(len(which))
        take[which] = len(which) + np.arange(len(old[0]))
        return [pa.concat_arrays(both).take(pa.array(take)) for both in zip(arrays, old, strict=True)]

    def _removed(self, side: _Side) -> pa.RecordBatch:
        """Return rows that are gone: their keys, or all of them where there is no key."""
        values, sidecars = [], []
        key = self._form.key_places or range(len(self._stored))
        for place, (each, cells) in enumerate(zip(self._stored, side.cells, strict=True)):
            value, *exact = self._text.decode(each, cells) if place in key else self._nothing(each, len(side.rows))
            values.append(value)
            sidecars += exact
        letters = np.full(len(side.rows), _DELETE, np.uint8)
        first = np.zeros(len(side.rows), np.bool_)
        return self._put_together(side.rows, first, letters, values + sidecars, _unchanged([], len(side.rows)))

    def _emptied(self) -> pa.RecordBatch:
        count = len(self._truncates)
        arrays = [self._nothing(each, count) for each in self._stored]
        values = [value for value, *_ in arrays] + [exact for _, *more in arrays for exact in more]
        letters = np.full(count, _TRUNCATE, np.uint8)
        return self._put_together(self._truncates, np.zeros(count, np.bool_), letters, values, _unchanged([], count))

    @staticmethod
    def _nothing(each: StoredColumn, count: int) -> list[pa.Array]:
        return [pa.nulls(count, each.type)] + [pa.nulls(count, pa.string())] * (each.exact is not None)

    def _put_together(
        self, rows: Int64s, second: Bools, letters: UInt8s, values: list[pa.Array], unchanged: pa.Array
    ) -> pa.RecordBatch:
        """Return the rows with their positions, numbers and operations.

        :param second: which are the second half of a split update.
        """
        count = len(rows)
        seq = 2 * self._messages.number[rows] + second
        edges = np.arange(count + 1, dtype=np.int32)
        ops = pa.StringArray.from_buffers(count, pa.py_buffer(edges), pa.py_buffer(letters))
        values = values or [pa.array(np.ones(count, np.bool_))]  # a table without columns
        lsn = pa.array(self._messages.lsn[rows])
        return pa.RecordBatch.from_arrays([*values, lsn, pa.array(seq), ops, unchanged], schema=self._form.schema)


def _numbers(batch: pa.RecordBatch, column: int) -> Int64s:
    return arrow.numbers(batch.column(column), np.int64)


def _same_text(text: TextDecoder, one: Cells, other: Cells) -> Bools:
    same: Bools = one.length == other.length
    if same.any():
        equal = pc.equal(text.strings(one.of(same)), text.strings(other.of(same)))
        same[same] = equal.fill_null(True).to_numpy(zero_copy_only=False)
    same &= one.text == other.text
    return same


def _unchanged(columns: Sequence[tuple[int, Bools]], count: int) -> pa.Array:
    """Return each row's column numbers with unchanged, unknown values."""
    if not columns:
        return pa.nulls(count, pa.list_(pa.int32()))
    rows, places = np.nonzero(np.stack([which for _, which in columns], axis=1))
    numbers = np.array([number for number, _ in columns], np.int32)[places]
    counts = np.bincount(rows, minlength=count)
    edges = np.zeros(count + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    return pa.ListArray.from_arrays(pa.array(edges), pa.array(numbers), mask=pa.array(counts == 0))
