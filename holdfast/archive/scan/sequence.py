"""Check that stored changes are in log order for each key.

The last change of a key is then its newest. Blocks follow each other in the log. In each of them, changes stand as they
happened, or, where blocks were joined, by key and only then as they happened. Nothing says which of both it is, so it
is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Order = tuple[int, int]
    """Position and number inside the transaction."""


class Sequenced:
    """Running check of the order of changes.

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
        """Return whether changes of one record are in order."""
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
