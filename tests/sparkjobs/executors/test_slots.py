"""Slots of a cluster, as threads take them."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from sparkjobs.executors import spark as slots
from sparkjobs.executors.spark import ClusterSlots


def test_no_more_are_taken_than_there_are() -> None:
    made = ClusterSlots(lambda: 1)
    entered = threading.Event()

    def enter() -> None:
        with made.one():
            entered.set()

    with made.one():
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.is_set()
    other.join()
    assert entered.is_set()


def test_those_that_come_meanwhile_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "WATCH_S", 0.0)
    counts = iter([1, 1])
    made = ClusterSlots(lambda: next(counts, 2))
    with made.one(), made.one():
        assert next(counts, 2) == 2


def test_a_slot_is_free_again_after_an_error() -> None:
    made = ClusterSlots(lambda: 1)
    with pytest.raises(ZeroDivisionError), made.one():
        raise ZeroDivisionError
    with made.one():
        pass


def test_who_waits_when_they_are_closed_begins_no_more() -> None:
    made = ClusterSlots(lambda: 1)
    told: list[str] = []

    def enter() -> None:
        try:
            with made.one():
                told.append("entered")
        except CancelledError:
            told.append("cancelled")

    with made.one():
        other = threading.Thread(target=enter)
        other.start()
        made.close()
        other.join()
    assert told == ["cancelled"]
