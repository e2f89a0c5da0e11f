"""Runs many workers at once, and kills and suspends them at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.storage import open_store
from locking import LockInfo, RWLock, inspect
from locking.runtime import SystemClock
from tests.support.hammer.worker import Job, Log, nanoseconds, start_command

ROOT = Path(__file__).resolve().parents[3]

PATIENCE = 60.0
"""Seconds, beyond what it has to take, that a busy machine may need for what comes at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to hammer.

    :param url: the store
    :param folder: for the workers' histories
    :param seconds: for how long
    :param lease: of all locks, in seconds, as ``grace``
    :param mutant: the guard the locks lack, or ""
    """

    url: str
    folder: Path
    seed: int
    seconds: float
    lease: float
    grace: float
    processes: int = 16
    mutant: str = ""


@dataclass(slots=True)
class Tally:
    """What was done to the workers."""

    kills: int = 0
    short_pauses: int = 0
    long_pauses: int = 0


class WorkerFailed(Exception):  # noqa: N818 - named after the situation
    """A worker ended that nobody had killed."""


def hammer(plan: Plan) -> Tally:
    """Let the workers do their work, disturbed, until the time is over and the last one has ended."""
    crew = _Crew(plan)
    try:
        crew.start()
        crew.disturb()
        crew.finish()
    finally:
        crew.stop()
    return crew.tally


def clear(plan: Plan, resources: list[str]) -> list[LockInfo]:
    """Take each lock for writing as whoever comes next, let it go, and return what is left in the store.

    :raises LockBusy: it could not be had although everybody's lease and grace are over
    """
    store = open_store(plan.url)
    for resource in resources:
        lock = RWLock(store, resource, lease=plan.lease, grace=plan.grace)
        with lock.write(wait=plan.lease + plan.grace + PATIENCE):
            pass
    return inspect(store)


class _Crew:
    def __init__(self, plan: Plan) -> None:
        self.tally = Tally()
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._clock = SystemClock()
        self._stop = plan.folder / "stop"
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._resume: dict[int, float] = {}
        self._started = 0
        plan.folder.mkdir(parents=True)

    def start(self) -> None:
        for _ in range(self._plan.processes):
            self._start_one()
        while len(self._at_work()) < len(self._running):
            for number in self._running:
                self._must_be_well(number)
            time.sleep(0.05)

    def disturb(self) -> None:
        next_act = self._clock.monotonic()
        until = next_act + self._plan.seconds
        while (now := self._clock.monotonic()) < until:
            for number in [number for number, due in self._resume.items() if due <= now]:
                self._continue(number)
            if now >= next_act and (at_work := self._at_work()):
                self._act(self._random.choice(at_work), now)
                next_act = now + self._random.uniform(0.05, 0.5)
            time.sleep(0.02)

    def finish(self) -> None:
        self._stop.touch()
        for number in list(self._resume):
            self._continue(number)
        for number, process in self._running.items():
            process.wait(PATIENCE)
            self._must_be_well(number)

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def _start_one(self) -> None:
        number = self._started
        self._started += 1
        plan = self._plan
        job = Job(
            url=plan.url,
            log=str(self._log(number)),
            stop=str(self._stop),
            seed=f"{plan.seed}/{number}",
            elsewhere=number % 2 == 1,
            lease=plan.lease,
            grace=plan.grace,
            mutant=plan.mutant,
        )
        with self._errors(number).open("wb") as errors:
            self._running[number] = subprocess.Popen(
                start_command(job), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=errors
            )

    def _at_work(self) -> list[int]:
        """Those that have begun; on a busy machine the others would hardly ever come to it."""
        return [number for number in self._running if self._log(number).exists()]

    def _act(self, number: int, now: float) -> None:
        chance, expiry = self._random.random(), self._plan.lease + self._plan.grace
        if chance < 0.35:
            self._kill(number)
            self._start_one()
        elif chance < 0.75:
            self.tally.short_pauses += 1
            self._pause(number, now + self._random.uniform(0.05, 0.9) * self._plan.lease)
        else:
            self.tally.long_pauses += 1
            self._pause(number, now + expiry + self._random.uniform(0, 2))

    def _kill(self, number: int) -> None:
        self._must_be_well(number)
        log = Log(self._log(number))
        log.write("gone", nanoseconds(self._clock.monotonic()))
        log.close()
        process = self._running.pop(number)
        self._resume.pop(number, None)
        process.kill()
        process.wait()
        self.tally.kills += 1

    def _pause(self, number: int, until: float) -> None:
        self._running[number].send_signal(signal.SIGSTOP)
        self._resume[number] = until

    def _continue(self, number: int) -> None:
        self._running[number].send_signal(signal.SIGCONT)
        del self._resume[number]

    def _must_be_well(self, number: int) -> None:
        if self._running[number].poll():
            raise WorkerFailed(self._errors(number).read_text(errors="replace")[-2000:])

    def _log(self, number: int) -> Path:
        return self._plan.folder / f"{number:04}.jsonl"

    def _errors(self, number: int) -> Path:
        return self._plan.folder / f"{number:04}.stderr"
