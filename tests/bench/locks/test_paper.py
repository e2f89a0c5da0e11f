"""The port of the paper's algorithm, which ours is measured beside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.locks import paper
from locking.store import LockStore
from tests.support.locks.lockstore import MemoryStore, Request

Take = Callable[[LockStore, str], str]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_an_uncontended_mutex_takes_five_requests(store: MemoryStore) -> None:
    held = paper.try_lock(store, "locks/r")
    assert [request.word for request in store.requests] == ["list", "put", "list", "put", "delete"]
    assert list(store.objects) == [held]


@pytest.mark.parametrize(
    ("held", "wanted", "free"),
    [
        (paper.try_lock, paper.try_lock, False),
        (paper.try_lock_write, paper.try_lock_write, False),
        (paper.try_lock_write, paper.try_lock_read, False),
        (paper.try_lock_read, paper.try_lock_write, False),
        (paper.try_lock_read, paper.try_lock_read, True),
    ],
)
def test_who_excludes_whom(store: MemoryStore, held: Take, wanted: Take, free: bool) -> None:
    first = held(store, "locks/r")
    if not free:
        with pytest.raises(paper.Conflict):
            wanted(store, "locks/r")
        assert list(store.objects) == [first]
        store.delete(first)
    wanted(store, "locks/r")


def test_two_that_meet_at_their_intents_both_give_way(store: MemoryStore) -> None:
    def rival(request: Request) -> None:
        if request.word == "put":
            store.before = lambda request: None
            store.place("locks/r.INTENT.other", b"")

    store.before = rival
    with pytest.raises(paper.Conflict, match="other"):
        paper.try_lock(store, "locks/r")
    assert list(store.objects) == ["locks/r.INTENT.other"]


def test_trying_ends_when_the_time_is_over(store: MemoryStore) -> None:
    store.place("locks/r", b"")
    with pytest.raises(paper.Conflict):
        paper.lock(paper.try_lock, store, "locks/r", wait=0)
