"""Processes that take the locks of an archive's operations when they are told to.

Run as a program with the URL of an archive, it reads one JSON object a line and answers with one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.storage import ObjectStore, open_store
from locking import LockBusy, Owner, RWLock
from tests.support.jobs.steps import SteppedStore, Steps

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Work:
    """An operation at work.

    :param source: the one it writes to, or whose leftovers it looks at.
    :param part: the part of its work that it is at, where it takes a lock for that part only.
    """

    operation: str
    source: str = ""
    part: str = ""

    @classmethod
    def named(cls, name: str) -> Work:
        """Return what a name such as `vacuum of shop: leftovers` stands for."""
        found = re.fullmatch(r"([\w-]+)(?: of (\w+))?(?:: (\w+))?", name)
        assert found is not None
        return cls(*found.groups(""))


@dataclass(frozen=True)
class Answer:
    """How an attempt to take locks ended.

    :param resource: the lock that was busy; "" where all were taken.
    :param by: process ids of those who are in the way.
    :param said: what people would be told.
    """

    resource: str
    by: tuple[int, ...]
    said: str


class LockTaker:
    """Another process, which takes locks and gives them back."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def take(self, work: Work) -> Answer:
        """Take the locks of an operation, or none."""
        told = self._ask(do="take", operation=work.operation, source=work.source, part=work.part)
        return Answer(told["resource"], tuple(told["by"]), told["said"])

    def give_back(self) -> None:
        """Release what was taken."""
        self._ask(do="give back")

    def vacuum(self, step: str) -> dict[str, Any]:
        """Begin a vacuum that deletes what was left behind, and keep it right before a step.

        :returns: the step under `at`; where it ended before, what it says of itself.
        """
        return self._ask(do="vacuum", step=step)

    def go_on(self) -> dict[str, Any]:
        """Let the vacuum go on to its end, and return what it says."""
        return self._ask(do="go on")

    def _ask(self, **told: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(told)}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert isinstance(answer, dict)
        return answer


@contextmanager
def lock_taker(url: str, environment: Mapping[str, str]) -> Iterator[LockTaker]:
    """Start a process that takes locks in an archive, and end it with the block.

    :param environment: variables that lead to the archive.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.locks.lock_takers", url],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment, "PYTHONPATH": str(_ROOT)},
    )
    try:
        yield LockTaker(process)
    finally:
        process.kill()
        process.communicate()


def _answer(**told: Any) -> None:
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()


def _told() -> dict[str, str]:
    told = json.loads(sys.stdin.readline())
    assert isinstance(told, dict)
    return told


class _Gate(Steps):
    """Keeps this process before a step until it is told to go on."""

    def __init__(self, step: str) -> None:
        super().__init__(0, "before", self._stay)
        self._wanted = step

    def _stay(self, name: str) -> None:
        if self._wanted and name.startswith(self._wanted):
            self._wanted = ""
            _answer(at=name)
            _told()


def _leftovers(store: ObjectStore, source: str) -> AbstractContextManager[Any]:
    return RWLock(store, f"ingest-{source}", owner=Owner()).write(purpose="vacuum", wait=0)


def _deleting(store: ObjectStore, source: str) -> AbstractContextManager[Any]:
    return RWLock(store, "history", owner=Owner()).write(purpose="vacuum", wait=0, renew=False)


def _reading(store: ObjectStore, source: str) -> AbstractContextManager[Any]:
    return locks.HistoryReader(store, owner=Owner(), purpose="verification", wait=0)()


_PARTS: Mapping[str, Callable[[ObjectStore, str], AbstractContextManager[Any]]] = {
    "leftovers": _leftovers,
    "deleting": _deleting,
    "reading": _reading,
}


def _take(store: ObjectStore, told: Mapping[str, str]) -> ExitStack:
    sources = [told["source"]] if told["source"] else []
    with ExitStack() as stack:
        stack.enter_context(
            locks.acquire(store, told["operation"], sources=sources, owner=Owner(), purpose=told["operation"], wait=0)
        )
        if told["part"]:
            stack.enter_context(_PARTS[told["part"]](store, told["source"]))
        return stack.pop_all()


def _vacuum(store: ObjectStore, step: str) -> dict[str, Any]:
    stepped = SteppedStore(store, _Gate(step))
    with locks.acquire(store, "vacuum", owner=Owner(), purpose="vacuum", wait=0) as held:
        archive = Archive.open(stepped)
        return vacuum(archive, check=held.check, fence=held.fence, grace=timedelta(0), wait=0).describe()


def main(url: str) -> None:
    """Do what is told, until nobody tells anything any more."""
    store = open_store(url)
    held = ExitStack()
    for line in iter(sys.stdin.readline, ""):
        told = json.loads(line)
        try:
            match told["do"]:
                case "take":
                    held = _take(store, told)
                    _answer(resource="", by=[], said="")
                case "give back":
                    held.close()
                    _answer()
                case "vacuum":
                    _answer(**_vacuum(store, told["step"]))
        except LockBusy as error:
            pids = [info.owner.pid for info in error.blockers if info.owner]
            _answer(resource=error.blockers[0].resource, by=pids, said=str(error))


if __name__ == "__main__":
    main(sys.argv[1])
