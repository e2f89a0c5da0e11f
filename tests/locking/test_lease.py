"""How long a lock is trusted, how it is renewed, lost and released."""

from __future__ import annotations

import logging
import os
import threading
from datetime import datetime

import pytest

from locking import Lease, LockLost, LockStateUnknown, Runtime, RWLock, end
from locking.store import ObjectNotFound, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.locks.lockstore import FakeTime, MemoryStore, Request


@pytest.fixture
def lease(store: MemoryStore, runtime: Runtime) -> Lease:
    return RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)


def test_a_lease_is_trusted_until_it_is_over(store: MemoryStore, lease: Lease) -> None:
    store.time.sleep(119)
    lease.check()
    store.time.sleep(1)
    with pytest.raises(LockLost, match="could not be renewed in time"):
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


def test_a_lock_that_goes_between_listing_and_touching_is_lost(store: MemoryStore, lease: Lease) -> None:
    def gone(request: Request) -> None:
        if request.word == "touch":
            raise ObjectNotFound("gone")

    store.before = gone
    with pytest.raises(LockLost, match="gone"):
        lease.renew()


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
    for thread in [thread for thread in threading.enumerate() if thread.name == "renew lock r"]:
        thread.join(10)
        assert not thread.is_alive()
    assert store.objects == {}


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


# A process that was forked.


@pytest.mark.forks
def test_a_forked_child_holds_nothing_and_asks_nothing_of_a_lease_that_another_thread_was_in() -> None:
    store = MemoryStore()
    store.after = lambda request: store.time.sleep(0.001)
    with RWLock(store, "r").write(wait=0) as lease:
        lease.token()
        inside, leave = threading.Event(), threading.Event()

        def hold_guard() -> None:
            with lease._guard:
                inside.set()
                leave.wait(10)

        thread = threading.Thread(target=hold_guard)
        thread.start()
        assert inside.wait(10)
        child = os.fork()
        if child == 0:
            store.forget()
            refused = 0
            for ask in (lease.check, lease.renew, lease.token):
                try:
                    ask()
                except LockLost as error:
                    refused += f"locked by process {os.getppid()}" in str(error)
            lease.release()  # as leaving its block would
            os._exit(0 if refused == 3 and store.requests == [] else 1)
        leave.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
        lease.check()


# The warning of a holder.


class Warnings:
    """The calls of a holder's ``on_danger``."""

    def __init__(self, wanted: int = 1) -> None:
        self.leases: list[Lease] = []
        self._wanted = wanted
        self._reached = threading.Event()

    def __call__(self, lease: Lease) -> None:
        self.leases.append(lease)
        if len(self.leases) >= self._wanted:
            self._reached.set()

    def reached(self) -> bool:
        return self._reached.wait(10)


def test_a_holder_is_warned_when_its_lease_is_not_renewed_by_two_thirds_of_its_term(store: MemoryStore) -> None:
    warnings, runtime = Warnings(), store.time.runtime()
    lease = RWLock(store, "r", lease=1.2, grace=1.0, runtime=runtime).write(wait=0, renew=False, on_danger=warnings)
    store.time.sleep(0.79)
    assert lease._watch() == pytest.approx(0.01)
    assert warnings.leases == []
    store.time.sleep(0.01)
    assert warnings.reached()
    lease.check()  # it is not lost yet
    lease.renew()
    lease._watch()
    assert warnings.leases == [lease]  # once for each renewal
    lease.release()


def test_a_holder_is_warned_again_after_a_renewal_that_was_the_last(store: MemoryStore) -> None:
    warnings, runtime = Warnings(wanted=2), store.time.runtime()
    lease = RWLock(store, "r", lease=1.2, grace=1.0, runtime=runtime).write(wait=0, renew=False, on_danger=warnings)
    store.time.sleep(0.9)
    lease._watch()
    lease.renew()
    store.time.sleep(0.9)
    assert warnings.reached()
    lease.release()


def test_a_holder_is_warned_while_a_renewal_hangs(store: MemoryStore) -> None:
    answer = threading.Event()

    def hang(request: Request) -> None:
        if request.word == "touch":
            answer.wait(10)

    warnings = Warnings()
    store.before = hang
    with RWLock(store, "r", lease=1.0, grace=1.0).write(wait=0, on_danger=warnings):
        assert warnings.reached()
        answer.set()


def test_a_holder_is_warned_once_of_a_lock_that_is_lost(store: MemoryStore) -> None:
    warnings, runtime = Warnings(), store.time.runtime()
    lease = RWLock(store, "r", lease=1.2, grace=1.0, runtime=runtime).write(wait=0, renew=False, on_danger=warnings)
    store.place(f"locks/r/DEAD.{lease.txn}", b"")
    with pytest.raises(LockLost):
        lease.check()
    assert warnings.reached()
    assert lease._watch() is None
    assert warnings.leases == [lease]


def test_a_warning_that_fails_is_said_and_a_release_inside_of_one_does_not_wait_for_itself(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(lease: Lease) -> None:
        lease.release()
        raise ValueError("no pager")

    runtime = store.time.runtime()
    lease = RWLock(store, "r", lease=1.2, grace=1.0, runtime=runtime).write(wait=0, renew=False, on_danger=fail)
    store.time.sleep(1)
    (watcher,) = [thread for thread in threading.enumerate() if thread.name == "watch lock r"]
    watcher.join(4)  # less than a thread waits for another
    assert not watcher.is_alive()
    assert store.objects == {}
    assert "in danger failed" in caplog.text
    assert "no pager" in caplog.text
    lease.release()


# Tokens.


class WholeSeconds(FakeTime):
    """A store's clock that shows whole seconds."""

    def date(self) -> datetime:
        return super().date().replace(microsecond=0)


@pytest.mark.parametrize("time", [FakeTime(), WholeSeconds()])
@pytest.mark.parametrize("ordered", [True, False])
def test_tokens_rise_with_each_holder_however_short_each_holds(time: FakeTime, ordered: bool) -> None:
    store, runtime = MemoryStore(time, listing_is_ordered=ordered), time.runtime()
    store.after = lambda request: time.sleep(0.001)
    tokens = []
    for _ in range(5):
        with RWLock(store, "r", runtime=runtime).write(wait=0, renew=False) as lease:
            tokens.append(lease.token())
            assert lease.token() == tokens[-1]
    assert tokens == sorted(set(tokens))


def test_a_reader_is_between_the_writers(store: MemoryStore, runtime: Runtime) -> None:
    tokens = []
    for take in ("write", "read", "write"):
        with getattr(RWLock(store, "r", runtime=runtime), take)(wait=0, renew=False) as lease:
            tokens.append(lease.token())
    assert tokens == sorted(set(tokens))


def test_a_token_takes_three_checks_where_the_clock_is_fine(store: MemoryStore, lease: Lease) -> None:
    store.after = lambda request: store.time.sleep(0.001)
    store.forget()
    assert lease.token() == 1_767_225_600_001_000
    assert store.words() == ["list", "list", "list"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_lock_that_somebody_ends_while_its_token_is_taken_has_none(
    store: MemoryStore, runtime: Runtime, lease: Lease, number: int
) -> None:
    """Whoever holds it then has a larger one, whatever the time of the answer that came last."""
    seen = []

    def break_it(request: Request) -> None:
        seen.append(request)
        if len(seen) == number:
            store.before = lambda request: None
            end(store, "r", lease.txn, reason="broken", runtime=runtime)
            store.time.sleep(60)  # and the answer comes late

    store.before = break_it
    store.after = lambda request: store.time.sleep(0.001)
    with pytest.raises(LockLost):
        lease.token()


def test_a_store_whose_clock_stands_still_gives_no_token(
    store: MemoryStore, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = store.time.date()
    monkeypatch.setattr(store.time, "date", lambda: now)
    with pytest.raises(LockStateUnknown, match="clock stands at"):
        lease.token()
    assert store.time.now < 11


def _slow_down(store: MemoryStore, word: str, seconds: float) -> None:
    def dawdle(request: Request) -> None:
        if request.word == word:
            store.time.sleep(seconds)

    store.after = dawdle
