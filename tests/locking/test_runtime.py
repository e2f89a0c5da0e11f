"""The surroundings of a lock in a process: its clock, its names, and work that nobody waits for."""

from __future__ import annotations

import threading
import time

import pytest

from locking import Runtime
from locking.names import is_txn
from locking.runtime import COURTESY, SYSTEM, SystemClock

LONG_S = 30.0
"""Until a test that hangs fails."""


def test_the_clock_goes_on_and_counts_what_it_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    slept: list[float] = []
    first = clock.monotonic()
    assert first <= clock.monotonic()
    monkeypatch.setattr(time, "sleep", slept.append)
    clock.sleep(1.5)
    assert slept == [1.5]


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that counts a suspension")
def test_the_clock_counts_the_time_a_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda which: which)
    assert SystemClock().monotonic() == time.CLOCK_BOOTTIME


def test_ids_are_ids_of_transactions_and_never_given_twice() -> None:
    found = [Runtime().new_txn() for _ in range(1000)]
    assert all(map(is_txn, found))
    assert len(set(found)) == len(found)


def test_a_runtime_of_ones_own_does_everything_at_once_and_is_not_courteous() -> None:
    threads: list[threading.Thread] = []
    Runtime().aside(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    assert (Runtime().courtesy, SYSTEM.courtesy) == (0, COURTESY)


@pytest.fixture
def idle() -> None:
    """Nothing of the system's is at work aside any more."""
    wait_for_work()


def wait_for_work() -> None:
    for thread in threading.enumerate():
        if thread.name == "lock sweep":
            thread.join(LONG_S)


@pytest.mark.usefixtures("idle")
def test_the_systems_work_aside_is_in_a_thread_that_an_exit_does_not_wait_for_one_at_a_time() -> None:
    began, end = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    done: list[str] = []

    def work() -> None:
        threads.append(threading.current_thread())
        began.set()
        end.wait(LONG_S)

    SYSTEM.aside(work)
    assert began.wait(LONG_S)
    SYSTEM.aside(lambda: done.append("while another was at work"))
    (thread,) = threads
    assert (thread.daemon, thread.is_alive(), thread is threading.current_thread()) == (True, True, False)
    end.set()
    wait_for_work()
    SYSTEM.aside(lambda: done.append("afterwards"))
    wait_for_work()
    assert done == ["afterwards"]


@pytest.mark.usefixtures("idle")
def test_work_aside_that_fails_keeps_no_later_one_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    done: list[str] = []

    def work() -> None:
        raise ZeroDivisionError

    SYSTEM.aside(work)
    wait_for_work()
    SYSTEM.aside(lambda: done.append("afterwards"))
    wait_for_work()
    assert done == ["afterwards"]
