"""The rows of a table at a position, found by keys alone.

The last change of each key then holds all of its row. Of the snapshot's rows those stay whose key no change has; of the
changes, the last of each key. So only the keys of the changes are read first, and a place is kept in memory for each;
rows pass by as they are, a row group at a time, and never go through a database. What cannot be told in this way is
left to others before any row is given out: values that the log did not repeat, a truncation, a key that is not one
whole number, more keys than there is memory for.
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
from holdfast.archive.scan.sequence import Sequenced
from holdfast.common.field_ids import EXACT_FIELD_IDS, LSN, OP, SEQ, UNCHANGED, field_id, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.scan.change_files import FileRows
    from holdfast.archive.scan.row_index import Places
    from holdfast.archive.scan.split import Share
    from holdfast.archive.scan.table_history import TableHistory
    from holdfast.storage import ObjectStore

_MOST_CHANGES: Final = 1 << 31
"""A place is 32 bits."""

_WORK_OF_ROW: Final = 2
"""To give out a row of a change takes about twice as long as to read a change."""


def find_newest(store: ObjectStore, history: TableHistory, memory_bytes: int) -> Newest | None:
    """Read the keys of all changes up to the position.

    It returns None where they are not enough to find the rows.

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
        told = all(found.add(part) for part in changes.read(ids=ids))
        return Newest(store, history, key, changes, found.places, found.places.rows()) if told else None
    except OutOfRoomError:
        return None


def _room_for(files: list[FileRecord], memory_bytes: int) -> Places:
    ranges = [file.key_range for file in files if file.rows]
    known = [(int(each[0]), int(each[1])) for each in ranges if each is not None]
    if known and len(known) == len(ranges):
        low, high = min(low for low, _ in known), max(high for _, high in known)
        if Slots.fit(low, high, memory_bytes):
            return Slots(low, high)
    return Sorted(memory_bytes)


class _Last:
    """Search for the last change of each key."""

    def __init__(self, history: TableHistory, key: pa.Schema, places: Places) -> None:
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


def _numbers(key: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = key.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


@dataclass(frozen=True)
class Newest:
    """The rows at the position.

    :param places: of the keys that changes have.
    :param rows: the places of the changes whose rows are there, in order.
    """

    store: ObjectStore
    history: TableHistory
    key: pa.Schema
    changes: Files
    places: Places
    rows: NDArray[np.int32]

    def batches(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Yield a share of the rows in the wanted form.

        Those of the snapshot come first.

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
        """Return a share of the places.

        It is of about as much work as others, not of as many rows. The newest changes have most of the rows, and of the
        others as many must be read for few.
        """
        count = len(self.rows)

        def work(number: int) -> int:
            return int(self.rows[number]) + _WORK_OF_ROW * number

        cuts = [
            bisect_left(range(count), bound, key=work) for bound in share.bounds(work(count - 1) + 1 if count else 0)
        ]
        return self.rows[slice(*cuts)]


def snapshot_rows(store: ObjectStore, history: TableHistory, share: Share) -> Iterator[pa.RecordBatch]:
    """Yield a share of the snapshot's rows as they were written.

    Only files and row groups of the share are read.

    :raises DamagedError: a file is not what was written.
    """
    first, behind = share.bounds(sum(file.rows for file in history.base))
    end = 0
    for file in history.base:
        start, end = end, end + file.rows
        if first < end and start < behind:
            yield from _between(store, file, first - start, behind - start)


def _between(store: ObjectStore, file: FileRecord, first: int, behind: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file between two numbers.

    The second one is not among them.
    """
    for start, batch in read_groups(store, file, wanted=lambda start, end: first < end and start < behind):
        skip = max(0, first - start)
        yield batch.slice(skip, max(0, min(behind - start, batch.num_rows) - skip))
