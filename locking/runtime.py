"""Surroundings of a lock, time, chance and names, which a test can replace."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """The holder's own clock."""

    def monotonic(self) -> float:
        """Return the seconds since some start; they never go back, and count suspended time."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock since boot: ``time.monotonic`` stops while Linux is suspended."""

    _SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        return time.clock_gettime(self._SINCE_BOOT)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _new_txn() -> str:
    return uuid.uuid4().hex


def _at_once(work: Callable[[], None]) -> None:
    work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Clock, jitter and transaction ids.

    :param jitter: the next number, at least 0 and below 1
    :param new_txn: a new id of 32 lower-case hexadecimal digits, never given before
    :param given_up: transactions that are over here and could not be removed from the store: this process, which lives,
        ends them at its next look, and no other does before they expire
    :param courtesy: seconds, at most, for which a writer that finds readers lets in more of them before it insists;
        no guard rests on it, so that a test may leave it out
    :param aside: runs work that no caller waits for; by default at once, so that a test can decide every step
    """

    clock: Clock = field(default_factory=SystemClock)
    jitter: Callable[[], float] = random.random
    new_txn: Callable[[], str] = _new_txn
    aside: Callable[[Callable[[], None]], None] = _at_once
    courtesy: float = 0.0
    given_up: set[str] = field(default_factory=set, compare=False)


_at_work = threading.Lock()


def _in_a_thread(work: Callable[[], None]) -> None:
    """Run work in a thread that an exit does not wait for; not where such work is under way in this process."""

    def run() -> None:
        try:
            work()
        finally:
            _at_work.release()

    if _at_work.acquire(blocking=False):
        threading.Thread(target=run, name="lock sweep", daemon=True).start()


COURTESY = 2.0
"""Seconds. Readers that come and go are soon done; to keep each of them out for each writer takes all longer."""

SYSTEM = Runtime(aside=_in_a_thread, courtesy=COURTESY)
