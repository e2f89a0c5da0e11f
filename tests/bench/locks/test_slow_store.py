"""A store that is as far away as one says."""

from __future__ import annotations

import pytest

from bench.locks.slow_store import SlowStore
from locking import RWLock
from tests.support.locks.lockstore import MemoryStore
from tests.support.no_waiting import no_waiting


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    sleeps: list[float] = []
    no_waiting(monkeypatch, sleeps.append)
    return sleeps


def test_every_request_waits_and_is_counted(slept: list[float]) -> None:
    store = SlowStore(MemoryStore(), 0.5)
    with RWLock(store, "r").write(wait=0, renew=False) as lease:
        lease.renew()
    assert store.requests == 5 + 2 + 1
    assert slept == [0.5] * 8


def test_a_listing_waits_for_each_of_its_pages(slept: list[float]) -> None:
    memory = MemoryStore()
    for number in range(2001):
        memory.place(f"a/{number:04}", b"")
    store = SlowStore(memory, 0.5)
    assert len(store.list("a/").objects) == 2001
    store.list("b/")
    assert store.pages == 3 + 1
    assert slept == [0.5] * 4


def test_it_says_of_its_order_what_it_is_told_or_else_the_truth() -> None:
    unordered = MemoryStore(listing_is_ordered=False)
    assert not SlowStore(unordered, 0).listing_is_ordered
    assert SlowStore(unordered, 0, ordered=True).listing_is_ordered
