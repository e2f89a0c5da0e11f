"""A lock in the hands of another process than the one that took it."""

from __future__ import annotations

import pytest

from locking import (
    Lease,
    LeaseHandle,
    LockLost,
    LockStateUnknown,
    Owner,
    Runtime,
    RWLock,
    end,
    release_handle,
)
from locking import (
    attach as attach_to,
)
from locking.attach import AttachedLease
from locking.store import StoreUnavailable
from tests.support.locks.lockstore import MemoryStore, Request


@pytest.fixture
def lease(store: MemoryStore, runtime: Runtime) -> Lease:
    return RWLock(store, "r", owner=Owner(scope="run"), runtime=runtime).write(wait=0, renew=False)


@pytest.fixture
def attached(store: MemoryStore, runtime: Runtime, lease: Lease) -> AttachedLease:
    return attach_to(store, LeaseHandle.from_json(lease.handle().to_json()), runtime=runtime)


def test_attaching_costs_nothing_and_a_check_one_listing(store: MemoryStore, attached: AttachedLease) -> None:
    store.forget()
    attached.check()
    assert store.words() == ["list"]


def test_the_lock_is_trusted_as_long_as_its_holder_renews_it(
    store: MemoryStore, lease: Lease, attached: AttachedLease
) -> None:
    for _ in range(5):
        store.time.sleep(100)
        lease.renew()
        attached.check()
    store.time.sleep(118)
    attached.check()
    store.time.sleep(1)  # a second early: the store's clock may count whole seconds
    with pytest.raises(LockLost, match="not renewed in time"):
        attached.check()


def test_the_time_a_check_takes_counts(store: MemoryStore, attached: AttachedLease) -> None:
    def dawdle(request: Request) -> None:
        store.time.sleep(119)

    store.after = dawdle
    with pytest.raises(LockLost):
        attached.check()


def test_a_check_without_an_answer_loses_nothing(store: MemoryStore, attached: AttachedLease) -> None:
    def fail(request: Request) -> None:
        raise StoreUnavailable("later")

    store.before = fail
    with pytest.raises(LockStateUnknown):
        attached.check()
    store.before = lambda request: None
    attached.check()


def test_another_process_releases_a_lock_in_two_requests_marker_first(
    store: MemoryStore, runtime: Runtime, lease: Lease
) -> None:
    store.forget()
    release_handle(store, lease.handle())
    assert store.words() == ["put DEAD", "delete WRIT"]
    with pytest.raises(LockLost):
        lease.check()
    RWLock(store, "r", runtime=runtime).write(wait=0, renew=False).check()


def test_another_process_renews_a_lock_in_two_requests_after_the_first(
    store: MemoryStore, attached: AttachedLease
) -> None:
    store.forget()
    assert attached.renew()
    assert store.words() == ["get WRIT", "list", "touch WRIT"]
    store.forget()
    for _ in range(3):
        store.time.sleep(100)
        assert attached.renew()
        attached.check()
    assert store.words() == ["list", "touch WRIT", "list"] * 3


def test_a_lock_is_not_renewed_beyond_what_was_agreed_by_the_clock_of_the_store(
    store: MemoryStore, attached: AttachedLease
) -> None:
    assert attached.renew(at_most=220)
    store.time.sleep(100)
    assert attached.renew(at_most=220)
    assert attached.age == 100
    store.time.sleep(1)
    store.forget()
    assert not attached.renew(at_most=220)
    assert store.words() == ["list"]
    store.time.sleep(117)
    attached.check()  # it goes on to the end of its lease, and no further
    store.time.sleep(2)
    with pytest.raises(LockLost):
        attached.check()


@pytest.mark.parametrize("how", ["DEAD", "gone", "READ", "late"])
def test_a_lock_that_does_not_stand_is_not_renewed(
    store: MemoryStore, lease: Lease, attached: AttachedLease, how: str
) -> None:
    attached.renew()
    if how == "DEAD":
        store.place(f"locks/r/DEAD.{lease.txn}", b"")
    elif how == "gone":
        del store.objects[f"locks/r/WRIT.{lease.txn}"]
    elif how == "READ":
        store.place("locks/r/READ." + "f" * 32, b"")
    else:
        store.time.sleep(119)
    before = dict(store.objects)
    for ask in (attached.check, attached.renew, attached.renew):
        with pytest.raises(LockLost):
            ask()
    assert store.objects == before


def test_a_renewal_that_fails_loses_nothing(store: MemoryStore, attached: AttachedLease) -> None:
    def fail(request: Request) -> None:
        raise StoreUnavailable("later")

    store.before = fail
    with pytest.raises(StoreUnavailable):
        attached.renew()
    store.before = lambda request: None
    attached.check()
    assert attached.renew()


def test_a_lock_that_was_given_back_is_told_from_one_that_was_lost(
    store: MemoryStore, runtime: Runtime, lease: Lease, attached: AttachedLease
) -> None:
    assert not attached.was_released()
    other = RWLock(store, "other", owner=Owner(scope="run"), runtime=runtime).write(wait=0, renew=False)
    end(store, "other", other.txn, reason="its run is over", runtime=runtime)
    assert not attach_to(store, other.handle(), runtime=runtime).was_released()
    release_handle(store, lease.handle())
    assert attached.was_released()
