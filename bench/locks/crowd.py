"""A thousand readers at once: what listings of so full a folder cost."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.locks.slow_store import SlowStore
from bench.support.forked import run_forked
from holdfast.storage import open_store
from locking import RWLock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from locking import Lease
    from locking.store import LockStore

READERS = 1000
PROCESSES = 8
LATENCY = 0.02
"""Seconds added to each request, and to each page of a listing."""

CHECKING = 5
"""Readers of each process that check their lock when all are in."""


@dataclass(frozen=True)
class Crowd:
    """What readers went through, who came at once and stayed.

    :param seconds: until the last was in.
    :param waits: seconds each took to get in.
    :param pages: of listings that each needed to get in.
    :param check_pages: that each needed for one check, when all were in; `checks` the seconds.
    """

    seconds: float
    waits: Sequence[float]
    pages: Sequence[int]
    checks: Sequence[float]
    check_pages: Sequence[int]

    @property
    def within_three(self) -> float:
        """The part of the readers that needed no more than three pages."""
        return sum(pages <= 3 for pages in self.pages) / len(self.pages)

    @property
    def median_wait(self) -> float:
        """Seconds of the one in the middle."""
        return statistics.median(self.waits)

    @property
    def median_check(self) -> float:
        """Seconds of the check in the middle."""
        return statistics.median(self.checks)


def run(url: str, readers: int = READERS) -> Crowd:
    """Let them all come at once from several processes; they take the store's listings as ordered.

    No writer comes, so nothing rests on that order.
    """
    share = partial(_come, url, readers // PROCESSES)
    found = [told for each in run_forked([share] * PROCESSES) for told in each]
    return Crowd(
        seconds=max(each.came + each.wait for each in found) - min(each.came for each in found),
        waits=[each.wait for each in found],
        pages=[each.pages for each in found],
        checks=[each.check for each in found if each.check_pages],
        check_pages=[each.check_pages for each in found if each.check_pages],
    )


@dataclass
class _Told:
    came: float = 0.0
    wait: float = 0.0
    pages: int = 0
    check: float = 0.0
    check_pages: int = 0


class _Reader:
    def __init__(self, store: LockStore) -> None:
        self._store = SlowStore(store, LATENCY, ordered=True)
        self._lease: Lease | None = None
        self.told = _Told()

    def come(self) -> None:
        self.told.came = time.monotonic()
        self._lease = RWLock(self._store, "crowded", lease=900.0).read(purpose="bench", wait=0, renew=False)
        self.told.wait = time.monotonic() - self.told.came
        self.told.pages = self._store.pages

    def check(self) -> None:
        if self._lease is None:
            raise RuntimeError("a reader did not get in")
        began = time.monotonic()
        self._lease.check()
        self.told.check = time.monotonic() - began
        self.told.check_pages = self._store.pages - self.told.pages


def _come(url: str, number: int, meet: Callable[[], None]) -> list[_Told]:
    store = open_store(url)
    store.list("locks/")  # the connection is not measured
    readers = [_Reader(store) for _ in range(number)]
    threads = [threading.Thread(target=reader.come) for reader in readers]
    meet()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meet()
    for reader in readers[:CHECKING]:
        reader.check()
    return [reader.told for reader in readers]
