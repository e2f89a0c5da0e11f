"""What each step of an uncontended lock takes, in requests of the store it is in."""

from __future__ import annotations

import statistics
import time
import uuid
from typing import TYPE_CHECKING

from bench.locks.slow_store import SlowStore
from locking import RWLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from locking.store import LockStore

LATENCIES = (0.0, 0.02, 0.1)
"""Seconds that are added to each request."""

TIMES = 5
"""How often each is done in a round; the median counts."""

REQUEST = "request"
STEPS = ("acquire", "check", "renew", "release")

Times = dict[str, float]


def measure(store: LockStore, latency: float, *, ordered: bool) -> Times:
    """Return the seconds that a request of the store and each step of a lock take.

    A request is the mean of those an acquisition makes: two listings, two writes, one delete, of a folder
    that is as empty as a lock's.
    """
    slow = SlowStore(store, latency, ordered=ordered)
    samples = [_once(slow) for _ in range(TIMES)]
    return {name: statistics.median(each[name] for each in samples) for name in samples[0]}


def _once(store: SlowStore) -> Times:
    taken: Times = {REQUEST: _timed(lambda: _requests(store)) / 5}
    lock = RWLock(store, "measured")
    began = time.perf_counter()
    lease = lock.write(purpose="bench", wait=0, renew=False)
    taken["acquire"] = time.perf_counter() - began
    taken["check"] = _timed(lease.check)
    taken["renew"] = _timed(lease.renew)
    taken["release"] = _timed(lease.release)
    return taken


def _requests(store: SlowStore) -> None:
    folder = f"raw/{uuid.uuid4().hex}/"
    body = b"x" * 500
    store.list(folder)
    store.put(f"{folder}a", body)
    store.list(folder)
    store.put(f"{folder}b", body)
    store.delete(f"{folder}a")


def _timed(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
