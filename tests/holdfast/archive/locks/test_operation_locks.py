"""The locks of an operation, all or nothing; tests/holdfast/cli/test_locks.py shows them to people."""

from __future__ import annotations

import pytest

from holdfast.archive import locks
from locking import LockBusy, Owner, RWLock
from locking.store import StoreUnavailable
from tests.support.locks.lockstore import MemoryStore, Request

ACQUIRED = ["put INTENT", "list", "put READ", "delete INTENT", "put INTENT", "list", "put WRIT", "delete INTENT"]
"""What a backup writes and verifies: the ``format`` lock for reading, then its source's for writing."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def backup(store: MemoryStore, wait: float = 0) -> locks.HeldLocks:
    return locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=wait)


def test_acquiring_both_locks_of_an_uncontended_backup_takes_nine_requests_and_releasing_them_two(
    store: MemoryStore,
) -> None:
    held = backup(store)
    assert store.words() == ["list", *ACQUIRED]
    assert len(store.requests) == 9
    store.forget()
    held.release()
    assert store.words() == ["delete WRIT", "delete READ"]
    assert store.objects == {}


def test_acquiring_both_takes_twelve_requests_where_listings_are_unordered() -> None:
    store = MemoryStore(listing_is_ordered=False)
    with backup(store):
        assert len(store.requests) == 12
        assert store.words().count("list") == 6


def test_releasing_the_locks_of_a_run_takes_two_requests_each(store: MemoryStore) -> None:
    held = locks.acquire(store, "backup", sources=["shop"], owner=Owner(scope="run"), purpose="test", wait=0)
    store.forget()
    held.release()
    assert store.words() == ["put DEAD", "delete WRIT", "put DEAD", "delete READ"]


def test_who_is_in_the_way_already_is_disturbed_by_no_intent(store: MemoryStore) -> None:
    with RWLock(store, "ingest-shop").write(wait=0, renew=False):
        store.forget()
        with pytest.raises(LockBusy, match="ingest-shop"):
            backup(store)
        assert store.words() == ["list", *ACQUIRED[:4], "list", "get WRIT", "delete READ"]


def test_who_has_gone_since_the_common_look_is_in_nobodys_way(store: MemoryStore) -> None:
    other = RWLock(store, "ingest-shop").write(wait=0, renew=False)

    def leave(request: Request) -> None:
        if request.name == "READ":
            store.after = lambda request: None
            other.release()

    store.after = leave
    with backup(store) as held:
        held.check()


def test_who_came_since_the_common_look_is_seen_by_the_second(store: MemoryStore) -> None:
    def come(request: Request) -> None:
        if request.name == "READ":
            store.after = lambda request: None
            RWLock(store, "ingest-shop").write(wait=0, renew=False)

    store.after = come
    with pytest.raises(LockBusy, match="ingest-shop"):
        backup(store)
    assert store.names() == ["WRIT"]


def test_a_store_that_fails_for_a_while_is_asked_again_from_the_first_look_on(store: MemoryStore) -> None:
    def fail(request: Request) -> None:
        store.before = lambda request: None
        raise StoreUnavailable("not now")

    store.before = fail
    with backup(store, wait=10) as held:
        held.check()
