"""One process of the hammer: takes locks, checks them, lets them go or does not, and writes down what it saw.

Each observation is one line, appended with one write: a process that is killed loses at most what it had not seen
the end of. All times are nanoseconds of the clock that the locks themselves use; the processes of a machine share it.

``attempt`` before the first request of a transaction; ``acquired`` after; ``held`` for a ``check()`` that succeeded,
at its last look at the clock; ``lost`` for one that did not, from ``since`` to ``at``; ``renewed`` for an acknowledged
``renew()``, at its call; ``release`` before it; ``gone`` before the process ends, or is killed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

from holdfast.storage import StoreError, StoreUnavailable, open_store
from locking import Lease, LockBusy, LockLost, LockStateUnknown, Runtime, RWLock, owner
from locking.runtime import SYSTEM, SystemClock

SHIFT = 30.0
"""Seconds until the workers move on to other resources: many short histories are searched faster than a long one."""

RESOURCES = 3
"""Among which the workers choose."""

NAP = 0.2
"""Seconds after which who pauses looks whether it is to stop."""

WRITERS = 0.4
RENEWED_BY_THREAD = 0.5
RENEWED_BY_HAND = 0.3
HELD_TOO_LONG = 0.005
FORGOTTEN = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker does.

    :param log: the file of its history
    :param stop: when this file appears, it lets go of what it holds and ends
    :param elsewhere: it pretends to run on a machine of its own, so that nobody can see when it is gone
    :param lease: of its locks, in seconds, as ``grace``
    :param mutant: the guard the locks lack, one of tests/support/explorer/mutants.py, or ""
    """

    url: str
    log: str
    stop: str
    seed: str
    elsewhere: bool
    lease: float
    grace: float
    mutant: str = ""


class Watch(SystemClock):
    """The locks' own clock; remembers what it showed last to the thread that asks."""

    def __init__(self) -> None:
        self._seen = threading.local()

    def monotonic(self) -> float:
        self._seen.last = super().monotonic()
        return float(self._seen.last)

    def now(self) -> int:
        return nanoseconds(self.monotonic())

    @property
    def last(self) -> int:
        return nanoseconds(self._seen.last)


class Log:
    """A worker's history, to which lines are appended."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, what: str, at: int, **more: object) -> None:
        self._file.write(f"{json.dumps({'what': what, 'at': at, **more})}\n".encode())

    def close(self) -> None:
        self._file.close()


class Worker:
    """Takes one lock after the other until it is stopped."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store = open_store(job.url)
        self._random = random.Random(job.seed)
        self._clock = Watch()
        self._log = Log(Path(job.log))
        self._stop = Path(job.stop)
        self._parent = os.getppid()
        self._runtime = Runtime(clock=self._clock, jitter=self._random.random, new_txn=self._new_txn)
        self._asked: dict[str, str] = {}

    def run(self) -> None:
        self._log.write("start", self._clock.now(), elsewhere=self._job.elsewhere)
        while not self._over():
            renew = self._may(RENEWED_BY_THREAD)
            lease = self._take(renew)
            if lease is not None:
                self._work(lease, renew)
                self._leave(lease, renew)
            self._pause(0.02)
        self._log.write("gone", self._clock.now())
        self._log.close()

    def _over(self) -> bool:
        return self._stop.exists() or os.getppid() != self._parent

    def _new_txn(self) -> str:
        txn = SYSTEM.new_txn()
        self._log.write("attempt", self._clock.now(), txn=txn, **self._asked)
        return txn

    def _take(self, renew: bool) -> Lease | None:
        shift = int(self._clock.monotonic() / SHIFT)
        self._asked = {
            "resource": f"{shift}-{self._random.randrange(RESOURCES)}",
            "mode": "W" if self._may(WRITERS) else "R",
        }
        lock = RWLock(
            self._store,
            self._asked["resource"],
            lease=self._job.lease,
            grace=self._job.grace,
            runtime=self._runtime,
        )
        take = lock.write if self._asked["mode"] == "W" else lock.read
        try:
            lease = take(wait=self._random.random(), renew=renew)
        except (LockBusy, LockStateUnknown, StoreUnavailable):
            return None
        self._log.write("acquired", self._clock.now(), txn=lease.txn)
        return lease

    def _work(self, lease: Lease, renew: bool) -> None:
        for _ in range(self._random.randint(1, 4)):
            self._pause(0.01)
            if self._may(HELD_TOO_LONG):
                self._pause(2 * (self._job.lease + self._job.grace))
            if not renew and self._may(RENEWED_BY_HAND):
                self._renew(lease)
            self._check(lease)

    def _check(self, lease: Lease) -> None:
        since = self._clock.now()
        try:
            lease.check()
        except LockStateUnknown:
            return
        except LockLost:
            self._log.write("lost", self._clock.now(), txn=lease.txn, since=since)
        else:
            self._log.write("held", self._clock.last, txn=lease.txn)

    def _renew(self, lease: Lease) -> None:
        at = self._clock.now()
        try:
            lease.renew()
        except (LockLost, StoreError):
            return
        self._log.write("renewed", at, txn=lease.txn)

    def _leave(self, lease: Lease, renew: bool) -> None:
        if renew or not self._may(FORGOTTEN):
            self._log.write("release", self._clock.now(), txn=lease.txn)
            lease.release()

    def _may(self, probability: float) -> bool:
        return self._random.random() < probability

    def _pause(self, longest: float) -> None:
        left = self._random.uniform(0, longest)
        while left > 0 and not self._over():
            self._clock.sleep(min(left, NAP))
            left -= NAP


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def main(job: Job) -> None:
    with ExitStack() as stack:
        if job.elsewhere:
            stack.enter_context(patch.object(owner, "boot_id", return_value=job.seed))
        if job.mutant:
            from tests.support.explorer.mutants import MUTANTS

            stack.enter_context(next(each for each in MUTANTS if each.guard == job.mutant).applied())
        Worker(job).run()


def start_command(job: Job) -> list[str]:
    """The command line of this program."""
    return [sys.executable, "-m", "tests.support.hammer.worker", json.dumps(asdict(job))]


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
