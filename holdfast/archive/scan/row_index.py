"""Index of the last change's place, by integer key, for millions of keys.

A place is counted from 0; GONE stands for a change after which there is no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE: Final = -1
GONE: Final = -2

PENDING_CHANGES: Final = 1 << 20
"""Changes that wait to be put among the others."""

SORTED_BYTES: Final = 48
"""That a key takes while others are put among them."""

_SLOT_BYTES: Final = 8


class OutOfRoomError(Exception):
    """More keys than memory allows, or keys outside the range given."""


class RowIndex(Protocol):
    def put(self, keys: NDArray[np.int64], places: NDArray[np.int32]) -> None:
        """Add changes that are later than all others of their keys; of equal keys the last one counts.

        :raises OutOfRoomError: as it says.
        """
        ...

    def has(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the keys that have a change."""
        ...

    def rows(self) -> NDArray[np.int32]:
        """Return the places of the last changes that left a row, in order."""
        ...


class Slots:
    """A slot for each key of a narrow range, from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        self._low = low
        self._high = high
        self._last = np.full(high - low + 1, NONE, dtype=np.int32)

    @staticmethod
    def fit(low: int, high: int, memory_bytes: int) -> bool:
        """Return whether there is memory for a range."""
        return (high - low + 1) * _SLOT_BYTES <= memory_bytes

    def put(self, keys: NDArray[np.int64], places: NDArray[np.int32]) -> None:
        if keys.min() < self._low or keys.max() > self._high:
            raise OutOfRoomError
        self._last[keys - self._low] = places  # of an index that is there twice numpy keeps the last value

    def has(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        inside = (keys >= self._low) & (keys <= self._high)
        if inside.all():
            return np.not_equal(self._last[keys - self._low], NONE)
        inside[inside] = self._last[keys[inside] - self._low] != NONE
        return inside

    def rows(self) -> NDArray[np.int32]:
        return np.sort(self._last[self._last >= 0])


class Sorted:
    """The keys in order."""

    def __init__(self, memory_bytes: int) -> None:
        self._most = memory_bytes // SORTED_BYTES
        self._keys = np.empty(0, dtype=np.int64)
        self._last = np.empty(0, dtype=np.int32)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
        self._count = 0

    def put(self, keys: NDArray[np.int64], places: NDArray[np.int32]) -> None:
        self._waiting.append((keys, places))
        self._count += len(keys)
        if self._count > max(PENDING_CHANGES, len(self._keys) // 2):
            self._merge()

    def _merge(self) -> None:
        if not self._waiting:
            return
        keys = np.concatenate([self._keys, *(each for each, _ in self._waiting)])
        places = np.concatenate([self._last, *(each for _, each in self._waiting)])
        self._waiting, self._count = [], 0
        order = np.argsort(keys)
        keys = keys[order]
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        self._keys = keys[first]
        self._last = places[np.maximum.reduceat(order, first)]
        if len(self._keys) > self._most:
            raise OutOfRoomError

    def has(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        self._merge()
        found = np.zeros(len(keys), dtype=np.bool_)
        if len(self._keys):
            order = np.argsort(keys)  # in order they are found several times as fast
            ordered = keys[order]
            at = np.minimum(np.searchsorted(self._keys, ordered), len(self._keys) - 1)
            found[order] = self._keys[at] == ordered
        return found

    def rows(self) -> NDArray[np.int32]:
        self._merge()
        return np.sort(self._last[self._last >= 0])
