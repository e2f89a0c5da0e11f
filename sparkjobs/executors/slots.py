"""Slots of a cluster, of which there may be more while a job runs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sparkjobs.executors import WATCH_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 256
"""Tasks at a time, each of which a thread of the driver waits for."""


class ClusterSlots:
    """Slots that threads take one of, in no certain order.

    :param count: looks how many there are; is asked once a second at most.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._counted = count()
        self._when = time.monotonic()
        self._taken = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a slot, and keep it for the block.

        :raises CancelledError: the slots were closed.
        """
        with self._changed:
            while not self._is_closed and self._taken >= self._there():
                self._changed.wait(WATCH_S)
            if self._is_closed:
                raise CancelledError
            self._taken += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify()

    def close(self) -> None:
        """Let no thread begin any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _there(self) -> int:
        if time.monotonic() - self._when >= WATCH_S:
            self._counted, self._when = self._count(), time.monotonic()
        return self._counted
