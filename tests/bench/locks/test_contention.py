"""Contenders for one lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.locks import contention
from bench.locks.contention import WAYS, Contest, Told, Way
from bench.locks.memory_store import serving
from bench.locks.slow_store import SlowStore
from locking.names import Mode


@pytest.mark.representatives("ours")
@pytest.mark.slow
@pytest.mark.forks
@pytest.mark.parametrize("way", WAYS)
def test_all_contenders_have_all_of_their_turns_and_never_meet(tmp_path: Path, way: Way) -> None:
    with serving() as memory:
        told = contention.run(
            Contest("three", ("W", "W", "R"), 2, 0.0), way, lambda: SlowStore(memory, 0, ordered=True), tmp_path / "in"
        )
    assert (len(told.waits), len(told.writers_waits), told.refused, told.met) == (6, 4, 0, 0)
    assert told.requests >= 6 * 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "other", "met"), [("W", "W", True), ("W", "R", True), ("R", "W", True), ("R", "R", False)]
)
def test_meeting_is_noticed(tmp_path: Path, mode: Mode, other: Mode, met: bool) -> None:
    note = tmp_path / f"{other}.1"
    note.touch()
    with contention._inside(tmp_path, mode) as found:
        assert found is met
    assert list(tmp_path.iterdir()) == [note]


def test_rate_and_unfairness() -> None:
    told = Told(waits=[1.0, 2.0, 8.0], seconds=6.0)
    assert (told.rate, told.unfairness) == (0.5, 4.0)
