"""The last place of each key, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.archive.scan import row_index
from holdfast.archive.scan.row_index import GONE, OutOfRoomError, RowIndex, Slots, Sorted


@pytest.mark.parametrize("kind", ["slots", "sorted", "sorted in steps"])
def test_the_last_change_of_a_key_counts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "sorted in steps":
        monkeypatch.setattr(row_index, "PENDING_CHANGES", 10)
    found: RowIndex = Slots(-50, 50) if kind == "slots" else Sorted(1 << 20)
    random = np.random.default_rng(3)
    expected: dict[int, int] = {}
    for start in range(0, 400, 40):
        keys = random.integers(-50, 51, 40)
        last = np.where(random.random(40) < 0.2, GONE, np.arange(start, start + 40)).astype(np.int32)
        found.put(keys, last)
        expected |= dict(zip(keys.tolist(), last.tolist(), strict=True))
    asked = np.array([-(10**18), *random.permutation(np.arange(-60, 61)), 10**18])
    assert found.has(asked).tolist() == [each in expected for each in asked.tolist()]
    assert found.rows().tolist() == sorted(each for each in expected.values() if each != GONE)


@pytest.mark.parametrize("found", [Slots(1, 5), Sorted(100)])
def test_nothing_was_changed_as_long_as_nothing_was_put(found: RowIndex) -> None:
    assert found.has(np.array([3, 4])).tolist() == [False, False]
    assert found.rows().tolist() == []


def test_slots_are_for_the_keys_that_were_told() -> None:
    with pytest.raises(OutOfRoomError):
        Slots(1, 5).put(np.array([0]), np.array([0], np.int32))
    with pytest.raises(OutOfRoomError):
        Slots(1, 5).put(np.array([6]), np.array([0], np.int32))


def test_there_are_no_more_keys_than_there_is_memory_for() -> None:
    assert Slots.fit(1, 100, 800)
    assert not Slots.fit(1, 101, 800)
    found = Sorted(480)
    found.put(np.arange(11), np.arange(11, dtype=np.int32))
    with pytest.raises(OutOfRoomError):
        found.rows()
