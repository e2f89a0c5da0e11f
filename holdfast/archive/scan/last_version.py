"""Rows of a table at a position, found by keys alone.

The last change of each key then holds all of its row. Of the snapshot's rows those stay whose key no change has; of the
changes, the last of each key. So only the keys of the changes are read first, and a place is kept in memory for each;
rows pass by a row group at a time, and never go through a database. What cannot be decided in this way is left to
others before any row is given out: values that the log did not repeat, a truncation, a key that is not one whole
number, more keys than there is memory for.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.files.blocks import read_groups
from holdfast.archive.scan.change_files import Files, Shaper, within
from holdfast.archive.scan.row_index import GONE, OutOfRoomError, Slots, Sorted
from holdfast.common.field_ids import EXACT_FIELD_IDS, LSN, OP, SEQ, UNCHANGED, field_id, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.scan.change_files import FileRows
    from holdfast.archive.scan.row_index import RowIndex
    from holdfast.archive.scan.table_history import Share, TableHistory
    from holdfast.storage import ObjectStore

_MOST_CHANGES: Final = 1 << 31
"""A place is 32 bits."""

Order = tuple[int, int]
"""Position and number inside the transaction."""

_WORK_OF_ROW: Final = 2
"""To give out a row of a change takes about twice as long as to read a change."""


def find_newest(store: ObjectStore, history: TableHistory, memory_bytes: int) -> LastVersions | None:
    """Read the keys of all changes up to the position; None where they are not enough to find the rows.

    :param memory_bytes: for the keys.
    :raises DamagedError: a file is not what was written.
    """
    key = history.fields(history.key)
    files = [file for record in history.relevant() for file in record.files]
    if len(key) != 1 or not pa.types.is_integer(key.field(0).type) or sum(file.rows for file in files) >= _MOST_CHANGES:
        return None
    found = _Last(history, key, _room_for(files, memory_bytes))
    changes = Files(store, files)
    ids = {number + more for number in history.key for more in (0, EXACT_FIELD_IDS)} | {LSN, SEQ, OP, UNCHANGED}
    try:
        is_enough = all(found.add(part) for part in changes.read(ids=ids))
        return LastVersions(store, history, key, changes, found.places, found.places.rows()) if is_enough else None
    except OutOfRoomError:
        return None


def _room_for(files: list[FileRecord], memory_bytes: int) -> RowIndex:
    ranges = [file.key_range for file in files if file.rows]
    known = [(int(each[0]), int(each[1])) for each in ranges if each is not None]
    if known and len(known) == len(ranges):
        low, high = min(low for low, _ in known), max(high for _, high in known)
        if Slots.fit(low, high, memory_bytes):
            return Slots(low, high)
    return Sorted(memory_bytes)


class _Last:
    def __init__(self, history: TableHistory, key: pa.Schema, places: RowIndex) -> None:
        self.places = places
        self._history = history
        self._shaper = Shaper(key, {})
        self._wanted = pa.array(sorted({number_of(field_id(field)) for field in history.wanted}), pa.int32())
        self._sequenced = Sequenced([sum(file.rows for file in record.files) for record in history.relevant()])

    def add(self, part: FileRows) -> bool:
        """Add changes, and return whether keys alone are still enough."""
        chosen = within(part, self._history.since, self._history.upto)
        if not chosen.true_count:
            return True
        rows = pa.RecordBatch.from_arrays(
            [*self._shaper.apply(part.batch).columns, *map(part.column, (LSN, SEQ, OP, UNCHANGED)), part.places()],
            names=["key", "lsn", "seq", "op", "unchanged", "place"],
        )
        if chosen.true_count < len(chosen):
            rows = rows.filter(chosen)
        key, lsn, seq, op, unchanged, place = rows.columns
        if (
            key.null_count
            or pc.any(pc.is_in(unchanged.flatten(), self._wanted)).as_py()
            or pc.index(op, "T").as_py() >= 0
        ):
            return False
        keys, places = _numbers(key), place.to_numpy()
        if not self._sequenced.go_on(places, keys, lsn.to_numpy(), seq.to_numpy()):
            return False
        gone = pc.equal(op, "D").to_numpy(zero_copy_only=False)
        self.places.put(keys, np.where(gone, GONE, places).astype(np.int32))
        return True


class Sequenced:
    """Running check that stored changes are in log order for each key, so that the last one is its newest.

    Blocks follow each other in the log. In each of them, changes stand as they happened, or, where blocks were joined,
    by key and only then as they happened. Nothing says which of both it is, so it is looked at.

    :param sizes: how many there are in each record, one after the other.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._record = -1
        self._before: Order = (-1, -1)
        self._newest: Order = (-1, -1)
        self._last: tuple[Order, int] | None = None
        self._in_time = True
        self._by_key = True

    def go_on(
        self,
        places: NDArray[np.int64],
        keys: NDArray[np.int64],
        lsn: NDArray[np.int64],
        seq: NDArray[np.int64],
    ) -> bool:
        """Return whether these changes follow those before in order.

        :param places: which they are, of all in the records; some may be left out.
        """
        records = np.searchsorted(self._ends, places[[0, -1]], side="right")
        cuts = np.searchsorted(places, self._ends[records[0] : records[1]]).tolist()
        for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(places)], strict=True)):
            some = slice(start, end)
            if start < end and not self._fit(int(records[0]) + number, keys[some], lsn[some], seq[some]):
                return False
        return True

    def _fit(self, record: int, keys: NDArray[np.int64], lsn: NDArray[np.int64], seq: NDArray[np.int64]) -> bool:
        if record != self._record:
            self._record, self._before, self._last = record, self._newest, None
            self._in_time = self._by_key = True
        if self._last is not None:  # the step from the changes before is one as all others
            (before, number), key = self._last
            lsn, seq = np.concatenate([[before], lsn]), np.concatenate([[number], seq])
            keys = np.concatenate([[key], keys])
        later = (lsn[1:] > lsn[:-1]) | ((lsn[1:] == lsn[:-1]) & (seq[1:] > seq[:-1]))
        self._in_time = self._in_time and bool(later.all())
        self._by_key = self._by_key and bool(((keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & later)).all())
        self._last = (int(lsn[-1]), int(seq[-1])), int(keys[-1])
        oldest = int(lsn.min())
        newest = int(lsn.max())
        self._newest = max(self._newest, (newest, int(seq[lsn == newest].max())))
        return (self._in_time or self._by_key) and (oldest, int(seq[lsn == oldest].min())) > self._before


def _numbers(key: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = key.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


@dataclass(frozen=True)
class LastVersions:
    """Rows at the position.

    :param places: of the keys that changes have.
    :param rows: the places of the changes whose rows are there, in order.
    """

    store: ObjectStore
    history: TableHistory
    key: pa.Schema
    changes: Files
    places: RowIndex
    rows: NDArray[np.int32]

    def batches(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Yield a share of the rows in the wanted form, those of the snapshot first.

        :raises DamagedError: a file is not what was written.
        """
        yield from self._kept(share)
        yield from self._changed(share)

    def _kept(self, share: Share) -> Iterator[pa.RecordBatch]:
        shaper = Shaper(self.history.wanted, self.history.missing)
        keys = Shaper(self.key, self.history.missing)
        for batch in snapshot_rows(self.store, self.history, share):
            shaped = shaper.apply(batch)
            gone = self.places.has(_numbers(keys.apply(batch).column(0)))
            yield shaped.filter(pa.array(~gone)) if gone.any() else shaped

    def _changed(self, share: Share) -> Iterator[pa.RecordBatch]:
        shaper = Shaper(self.history.wanted, self.history.missing)
        mine = self._shared(share)

        def between(start: int, end: int) -> NDArray[np.int32]:
            return mine[slice(*np.searchsorted(mine, np.array([start, end], np.int32)))]  # or all of it would be cast

        for part in self.changes.read(lambda start, end: bool(len(between(start, end)))):
            rows = between(part.start, part.end) - part.start
            yield shaper.apply(part.batch if len(rows) == len(part.batch) else part.batch.take(pa.array(rows)))

    def _shared(self, share: Share) -> NDArray[np.int32]:
        """Return a share of the places: of as much work as others, as the newest changes have most of the rows."""
        count = len(self.rows)

        def work(number: int) -> int:
            return int(self.rows[number]) + _WORK_OF_ROW * number

        cuts = [
            bisect_left(range(count), bound, key=work) for bound in share.bounds(work(count - 1) + 1 if count else 0)
        ]
        return self.rows[slice(*cuts)]


def snapshot_rows(store: ObjectStore, history: TableHistory, share: Share) -> Iterator[pa.RecordBatch]:
    """Yield a share of the snapshot's rows as they were written, reading only its row groups.

    :raises DamagedError: a file is not what was written.
    """
    first, behind = share.bounds(sum(file.rows for file in history.base))
    end = 0
    for file in history.base:
        start, end = end, end + file.rows
        if first < end and start < behind:
            yield from _between(store, file, first - start, behind - start)


def _between(store: ObjectStore, file: FileRecord, first: int, behind: int) -> Iterator[pa.RecordBatch]:
    for start, batch in read_groups(store, file, wanted=lambda start, end: first < end and start < behind):
        skip = max(0, first - start)
        yield batch.slice(skip, max(0, min(behind - start, batch.num_rows) - skip))
