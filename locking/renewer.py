"""The thread that renews a lease while its holder works."""

from __future__ import annotations

import threading
from collections.abc import Callable

from locking.errors import LockLost
from locking.one_line import line_logger
from locking.store import StoreError

log = line_logger(__name__)

STOP_LIMIT = 5.0
"""Seconds to wait for a renewal that is under way; Airflow gives a killed task about as long."""

RETRY_FRACTION = 4
"""After a failed renewal the next comes this much sooner."""


class Renewer:
    """Thread that renews a lease at each interval.

    It calls ``renew`` until it is stopped or the lock is lost. A daemon thread: a process that ends does not wait for
    it, and its lock then expires.
    """

    def __init__(self, renew: Callable[[], None], interval: float, resource: str) -> None:
        self._renew = renew
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"renew lock {resource}", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """Stop renewing, and return whether no renewal is under way any more."""
        self._stopping.set()
        self._thread.join(STOP_LIMIT)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = self._interval
        while not self._stopping.wait(pause):
            try:
                self._renew()
                pause = self._interval
            except LockLost as error:
                if not self._stopping.is_set():
                    log.error("%s", error)
                return
            except StoreError as error:
                log.warning("A lock could not be renewed, trying again: %s", error)
                pause = self._interval / RETRY_FRACTION
