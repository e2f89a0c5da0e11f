"""How long a lock is trusted, how it is renewed, lost and released."""

from __future__ import annotations

import logging
import threading

import pytest

from locking import Lease, LockLost, LockStateUnknown, Owner, Runtime, RWLock
from locking.store import ObjectNotFound, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.locks.lockstore import MemoryStore, Request

OTHER = "f" * 32


@pytest.fixture
def lease(store: MemoryStore, runtime: Runtime) -> Lease:
    return RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)


def test_a_lease_is_trusted_until_it_is_over(store: MemoryStore, lease: Lease) -> None:
    store.time.sleep(119)
    lease.check()
    store.time.sleep(1)
    with pytest.raises(LockLost, match="could not be renewed in time"):
        lease.check()


def test_a_renewal_makes_it_last_from_the_renewals_start(store: MemoryStore, lease: Lease) -> None:
    store.time.sleep(100)
    _slow_down(store, "touch", 15)
    lease.renew()
    store.after = lambda request: None
    store.time.sleep(104)  # 119 since the renewal began
    lease.check()
    store.time.sleep(1)
    with pytest.raises(LockLost):
        lease.check()


def test_an_acknowledgement_that_comes_too_late_revives_nothing(store: MemoryStore, lease: Lease) -> None:
    store.time.sleep(100)
    _slow_down(store, "touch", 25)
    with pytest.raises(LockLost):
        lease.renew()
    with pytest.raises(LockLost):
        lease.check()


def test_no_renewal_starts_once_the_lease_is_over(store: MemoryStore, lease: Lease) -> None:
    store.time.sleep(120)
    store.forget()
    with pytest.raises(LockLost):
        lease.renew()
    assert "touch WRIT" not in store.words()


def test_the_time_a_check_takes_counts(store: MemoryStore, lease: Lease) -> None:
    _slow_down(store, "list", 121)
    with pytest.raises(LockLost):
        lease.check()


def test_the_stores_clock_counts_too(lease: Lease, store: MemoryStore) -> None:
    # A paused virtual machine's clock stands still; the store's does not.
    body, _ = store.objects[f"locks/r/WRIT.{lease.txn}"]
    store.time.now -= 200
    store.place(f"locks/r/WRIT.{lease.txn}", body)
    store.time.now += 200
    with pytest.raises(LockLost, match="store's clock"):
        lease.check()


def test_what_is_lost_stays_lost(store: MemoryStore, lease: Lease) -> None:
    store.place(f"locks/r/DEAD.{lease.txn}", b"")
    with pytest.raises(LockLost):
        lease.check()
    del store.objects[f"locks/r/DEAD.{lease.txn}"]
    with pytest.raises(LockLost):
        lease.check()
    with pytest.raises(LockLost):
        lease.renew()


@pytest.mark.parametrize("ask", ["check", "renew"])
def test_a_lock_that_somebody_ended_is_lost(store: MemoryStore, lease: Lease, ask: str) -> None:
    store.place(f"locks/r/DEAD.{lease.txn}", b"")
    with pytest.raises(LockLost, match="ended"):
        getattr(lease, ask)()


@pytest.mark.parametrize("ask", ["check", "renew"])
def test_a_lock_whose_object_is_gone_is_lost(store: MemoryStore, lease: Lease, ask: str) -> None:
    del store.objects[f"locks/r/WRIT.{lease.txn}"]
    with pytest.raises(LockLost, match="gone"):
        getattr(lease, ask)()


def test_a_lock_that_goes_between_listing_and_touching_is_lost(store: MemoryStore, lease: Lease) -> None:
    def gone(request: Request) -> None:
        if request.word == "touch":
            raise ObjectNotFound("gone")

    store.before = gone
    with pytest.raises(LockLost, match="gone"):
        lease.renew()


@pytest.mark.parametrize(
    ("word", "dead", "lost"), [("READ", False, True), ("WRIT", False, True), ("WRIT", True, False)]
)
def test_a_living_holder_beside_us_means_the_lock_is_lost(
    store: MemoryStore, lease: Lease, word: str, dead: bool, lost: bool
) -> None:
    store.place(f"locks/r/{word}.{OTHER}", b"")
    if dead:
        store.place(f"locks/r/DEAD.{OTHER}", b"")
    if lost:
        with pytest.raises(LockLost, match="another holder"):
            lease.check()
    else:
        lease.check()


def test_a_reader_does_not_mind_readers_or_intents(store: MemoryStore, runtime: Runtime) -> None:
    reading = RWLock(store, "r", runtime=runtime).read(wait=0, renew=False)
    store.place(f"locks/r/READ.{OTHER}", b"")
    store.place(f"locks/r/INTENT.WRIT.{OTHER}", b"")
    reading.check()


def test_a_check_that_gets_no_answer_says_so_and_loses_nothing(store: MemoryStore, lease: Lease) -> None:
    def fail(request: Request) -> None:
        raise StoreUnavailable("later")

    store.before = fail
    with pytest.raises(LockStateUnknown):
        lease.check()
    store.before = lambda request: None
    lease.check()


def test_a_release_costs_one_request_and_happens_once(store: MemoryStore, lease: Lease) -> None:
    store.forget()
    lease.release()
    lease.release()
    assert store.words() == ["delete WRIT"]
    with pytest.raises(LockLost, match="released"):
        lease.check()


def test_leaving_the_block_releases_also_after_an_error(store: MemoryStore, runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), RWLock(store, "r", runtime=runtime).write(wait=0, renew=False):
        raise ZeroDivisionError
    assert store.objects == {}


def test_a_release_after_a_doubtful_renewal_marks_the_lock_dead_first(store: MemoryStore, lease: Lease) -> None:
    def lose_answer(request: Request) -> None:
        if request.word == "touch":
            raise StoreOutcomeUnknown("no answer")

    store.before = lose_answer
    with pytest.raises(StoreOutcomeUnknown):
        lease.renew()
    store.before = lambda request: None
    lease.renew()
    store.forget()
    lease.release()
    assert store.words() == ["put DEAD", "delete WRIT"]


def test_a_runs_lock_is_marked_dead_when_it_is_released(store: MemoryStore, runtime: Runtime) -> None:
    lease = RWLock(store, "r", owner=Owner(scope="run"), runtime=runtime).write(wait=0, renew=False)
    store.forget()
    lease.release()
    assert store.words() == ["put DEAD", "delete WRIT"]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreOutcomeUnknown, StoreDenied])
def test_a_release_that_the_store_refuses_is_tried_again_then_logged(
    store: MemoryStore, lease: Lease, caplog: pytest.LogCaptureFixture, error: type[StoreError]
) -> None:
    def fail(request: Request) -> None:
        raise error("not now")

    store.before = fail
    with caplog.at_level(logging.WARNING):
        lease.release()
    assert caplog.text.count("not now") == 3
    assert lease.txn in caplog.text


def test_a_lost_lock_is_still_cleaned_up(store: MemoryStore, lease: Lease) -> None:
    store.time.sleep(500)
    with pytest.raises(LockLost):
        lease.check()
    lease.release()
    assert store.objects == {}


def test_the_renewer_renews_while_its_holder_works_and_stops_with_it(store: MemoryStore) -> None:
    renewed = threading.Event()

    def watch(request: Request) -> None:
        if request.word == "touch":
            renewed.set()

    store.after = watch
    with RWLock(store, "r", lease=1.0, grace=1.0).write(wait=0) as lease:
        assert renewed.wait(10)
        lease.check()
    assert not [thread for thread in threading.enumerate() if thread.name == "renew lock r"]
    assert store.objects == {}


def test_the_renewer_tries_again_after_an_error(store: MemoryStore) -> None:
    renewed = threading.Event()
    failures = iter([StoreUnavailable("later")])

    def fail_once(request: Request) -> None:
        if request.word == "touch":
            for error in failures:
                raise error
            renewed.set()

    store.before = fail_once
    with RWLock(store, "r", lease=1.0, grace=1.0).write(wait=0) as lease:
        assert renewed.wait(10)
        lease.check()


def test_the_renewer_ends_when_the_lock_is_lost(store: MemoryStore) -> None:
    lease = RWLock(store, "r", lease=1.0, grace=1.0).write(wait=0)
    store.place(f"locks/r/DEAD.{lease.txn}", b"")
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "renew lock r"]
    thread.join(10)
    assert not thread.is_alive()
    store.forget()
    with pytest.raises(LockLost, match="ended"):
        lease.check()
    assert store.words() == []
    lease.release()


def _slow_down(store: MemoryStore, word: str, seconds: float) -> None:
    def dawdle(request: Request) -> None:
        if request.word == word:
            store.time.sleep(seconds)

    store.after = dawdle
