"""The thread that renews a lease: until it is stopped or the lock is lost, and sooner where a renewal failed."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

import pytest

from locking import LockLost, renewer
from locking.renewer import Renewer, Signal
from locking.store import StoreUnavailable

LONG_S = 30.0
"""Until a test that hangs fails."""


class Renewals:
    """What is renewed: counted, and failing as told."""

    def __init__(self, wanted: int = 1, fail: Callable[[int], None] = lambda count: None) -> None:
        self.count = 0
        self.threads: set[threading.Thread] = set()
        self._wanted = wanted
        self._fail = fail
        self._reached = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self.threads.add(threading.current_thread())
        if self.count >= self._wanted:
            self._reached.set()
        self._fail(self.count)

    def reached(self) -> bool:
        """Wait until there were as many as are wanted."""
        return self._reached.wait(LONG_S)


def test_a_lease_is_renewed_until_it_is_stopped_by_a_thread_that_no_exit_waits_for() -> None:
    renewals = Renewals(wanted=3)
    renewing = Renewer(renewals, 0.001, "history")
    assert renewals.reached()
    assert renewing.stop()
    count = renewals.count
    (thread,) = renewals.threads
    thread.join(LONG_S)
    assert (thread.daemon, thread.name, thread.is_alive()) == (True, "renew lock history", False)
    assert renewals.count == count


def test_who_is_stopped_in_time_renews_nothing() -> None:
    renewals = Renewals()
    assert Renewer(renewals, LONG_S, "history").stop()
    assert renewals.count == 0


def test_a_lock_that_is_lost_is_said_to_be_and_not_renewed_again(caplog: pytest.LogCaptureFixture) -> None:
    def lose(count: int) -> None:
        raise LockLost("the lock is gone")

    renewals = Renewals(fail=lose)
    renewing = Renewer(renewals, 0.001, "history")
    assert renewals.reached()
    (thread,) = renewals.threads
    thread.join(LONG_S)
    assert renewing.stop()
    assert renewals.count == 1
    assert [(record.levelno, record.message) for record in caplog.records] == [(logging.ERROR, "the lock is gone")]


def test_a_renewal_that_failed_is_tried_again_sooner(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of them, which would take twice as long as is waited for at the usual interval."""
    monkeypatch.setattr(renewer, "RETRY_FRACTION", 1_000_000)

    def fail(count: int) -> None:
        raise StoreUnavailable("no answer")

    renewals = Renewals(wanted=1000, fail=fail)
    renewing = Renewer(renewals, 2 * LONG_S / 1000, "history")
    assert renewals.reached()
    assert renewing.stop()
    assert caplog.records[0].message == "A lock could not be renewed, trying again: no answer"
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_renewal_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewer, "STOP_LIMIT", 0.01)
    end = threading.Event()

    def hang(count: int) -> None:
        end.wait(LONG_S)

    renewals = Renewals(fail=hang)
    renewing = Renewer(renewals, 0.001, "history")
    assert renewals.reached()
    assert renewing.stop() is False
    end.set()
    monkeypatch.setattr(renewer, "STOP_LIMIT", LONG_S)
    assert renewing.stop() is True


def test_a_loss_that_comes_of_the_release_itself_is_not_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewer, "STOP_LIMIT", 0.01)
    end = threading.Event()

    def lose(count: int) -> None:
        end.wait(LONG_S)
        raise LockLost("it was released")

    renewals = Renewals(fail=lose)
    renewing = Renewer(renewals, 0.001, "history")
    assert renewals.reached()
    assert renewing.stop() is False
    end.set()
    (thread,) = renewals.threads
    thread.join(LONG_S)
    assert caplog.records == []


def test_a_thread_that_stops_itself_does_not_wait_for_its_own_end() -> None:
    """The garbage collector may release a lock in the very thread that renews it."""
    answers: list[bool] = []
    stopped = threading.Event()
    begun = threading.Event()
    renewing: list[Renewer] = []

    def stop(count: int) -> None:
        begun.wait(LONG_S)
        answers.append(renewing[0].stop())
        stopped.set()

    renewals = Renewals(fail=stop)
    renewing.append(Renewer(renewals, 0.001, "history"))
    begun.set()
    assert stopped.wait(LONG_S)
    assert answers == [False]  # that renewal is under way
    assert renewing[0].stop()
    assert renewals.count == 1


def test_the_end_of_a_thread_is_known_while_another_holds_what_join_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: threading.Thread, timeout: float | None = None) -> None:
        raise AssertionError("joined")

    monkeypatch.setattr(threading.Thread, "join", never)
    assert Renewer(Renewals(), LONG_S, "history").stop()


@pytest.mark.forks
def test_a_forked_child_does_not_wait_for_a_thread_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewer, "STOP_LIMIT", 1000 * LONG_S)
    renewing = Renewer(Renewals(), LONG_S, "history")
    child = os.fork()
    if child == 0:
        os._exit(0 if renewing.stop() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert renewing.stop()


def test_a_signal_that_was_given_stays_and_may_be_given_again() -> None:
    signal = Signal()
    assert not signal.wait(0)
    signal.set()
    signal.set()
    assert signal.wait(0)
    assert signal.wait(LONG_S)
