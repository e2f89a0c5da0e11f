"""Threads that serve a lease while its holder works: one renews it, and one warns where that fails.

The garbage collector may end a lock in any thread at any moment, inside of a method of a thread or an event, too. So
nothing here waits for a lock that such a method holds, nor for a thread by ``join``.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from locking.errors import LockLost
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

log = line_logger(__name__)

STOP_LIMIT = 5.0  # seconds to wait for a renewal that is under way; Airflow gives a killed task about as long
RETRY_FRACTION = 4  # after a failed renewal the next comes this much sooner


class Signal:
    """Event that happens once; unlike those of :mod:`threading`, it may be set inside its methods."""

    def __init__(self) -> None:
        self._not_yet = threading.Lock()
        self._not_yet.acquire()

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is set already
            self._not_yet.release()

    def wait(self, limit: float) -> bool:
        """Wait so many seconds at most, and return whether it has happened."""
        has_happened = self._not_yet.acquire(timeout=min(limit, threading.TIMEOUT_MAX))
        if has_happened:
            self.set()
        return has_happened


class LeaseThread:
    """Daemon thread that takes a step at a time until it is stopped.

    :param step: returns the seconds until the next, or None where it was the last
    :param pause: seconds until the first step
    """

    def __init__(self, step: Callable[[], float | None], pause: float, name: str) -> None:
        self._step = step
        self._pause = pause
        self._is_stopping = False
        self._stopping = Signal()
        self._ended = Signal()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """Stop, and return whether no step is under way any more."""
        self._is_stopping = True
        self._stopping.set()
        if threading.get_ident() == self._thread.ident:
            return False
        # In a process that was forked from ours there is no thread that could say that it has ended.
        return not self._thread.is_alive() or self._ended.wait(STOP_LIMIT)

    def _run(self) -> None:
        try:
            pause: float | None = self._pause
            while pause is not None and not self._stopping.wait(pause):
                pause = self._step()
        finally:
            self._ended.set()


class Renewer(LeaseThread):
    """Thread that calls ``renew`` at each interval until it is stopped or the lock is lost."""

    def __init__(self, renew: Callable[[], None], interval: float, resource: str) -> None:
        self._renew = renew
        self._interval = interval
        super().__init__(self._renew_once, interval, f"renew lock {resource}")

    def _renew_once(self) -> float | None:
        try:
            self._renew()
        except LockLost as error:
            if not self._is_stopping:
                log.error("%s", error)
            return None
        except StoreError as error:
            log.warning("A lock could not be renewed, trying again: %s", error)
            return self._interval / RETRY_FRACTION
        return self._interval
