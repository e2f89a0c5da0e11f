"""Many processes that want one lock, by our locks and by a plain port of the paper's."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from bench.locks import paper
from bench.support.forked import run_forked
from locking import LockBusy, RWLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.locks.slow_store import SlowStore
    from locking.names import Mode

Way = Literal["ours", "paper"]
WAYS: tuple[Way, Way] = ("ours", "paper")

WAIT = 180.0
"""Seconds each contender tries for one turn."""


@dataclass(frozen=True)
class Contest:
    """Who wants what.

    :param modes: one contender each.
    :param turns: that each wants.
    :param hold: seconds each holds the lock.
    """

    name: str
    modes: Sequence[Mode]
    turns: int
    hold: float


@dataclass
class Told:
    """What one contender, or all together, went through.

    :param waits: seconds from asking to having, one for each turn that was had; `writers_waits` those of writers.
    :param refused: turns that were not had in time.
    :param met: times somebody was inside who must not be.
    """

    waits: list[float] = field(default_factory=list)
    writers_waits: list[float] = field(default_factory=list)
    refused: int = 0
    met: int = 0
    requests: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Turns per second, all contenders together."""
        return len(self.waits) / self.seconds

    @property
    def unfairness(self) -> float:
        """How much longer the longest wait was than the one in the middle."""
        return max(self.waits) / statistics.median(self.waits)


def run(contest: Contest, way: Way, connect: Callable[[], SlowStore], folder: Path) -> Told:
    """Let all contenders have their turns; returns what they told together.

    :param connect: called in each process: a way to one and the same empty store.
    :param folder: for notes of who is inside; removed afterwards.
    :raises ForkedError: not all had their turns.
    """
    folder.mkdir()
    try:
        return _together(run_forked([partial(_contend, contest, way, mode, connect, folder) for mode in contest.modes]))
    finally:
        shutil.rmtree(folder)


def _together(found: Sequence[tuple[float, float, Told]]) -> Told:
    all_told = Told(seconds=max(ended for _, ended, _ in found) - min(began for began, _, _ in found))
    for _, _, each in found:
        all_told.waits += each.waits
        all_told.writers_waits += each.writers_waits
        all_told.refused += each.refused
        all_told.met += each.met
        all_told.requests += each.requests
    return all_told


def _contend(
    contest: Contest,
    way: Way,
    mode: Mode,
    connect: Callable[[], SlowStore],
    folder: Path,
    meet: Callable[[], None],
) -> tuple[float, float, Told]:
    """Have one's turns; when they began and ended, and what they were like."""
    store = connect()
    store.list("locks/")  # the connection is not measured
    store.requests = 0
    told = Told()
    meet()
    began = time.monotonic()
    for _ in range(contest.turns):
        asked = time.monotonic()
        try:
            release = _TAKE[way](store, mode, len(set(contest.modes)) > 1)
        except (LockBusy, paper.Conflict):
            told.refused += 1
            continue
        told.waits.append(time.monotonic() - asked)
        with _inside(folder, mode) as met:
            told.met += met
            time.sleep(contest.hold)
        release()
    told.requests = store.requests
    told.writers_waits = told.waits if mode == "W" else []
    return began, time.monotonic(), told


def _ours(store: SlowStore, mode: Mode, shared: bool) -> Callable[[], None]:
    del shared
    lock = RWLock(store, "contested")
    return (lock.write if mode == "W" else lock.read)(purpose="bench", wait=WAIT).release


def _papers(store: SlowStore, mode: Mode, shared: bool) -> Callable[[], None]:
    """The paper's mutex, or its read-write lock where there are readers, too."""
    take = {"R": paper.try_lock_read, "W": paper.try_lock_write}[mode] if shared else paper.try_lock
    held = paper.lock(take, store, "locks/contested", WAIT)
    return lambda: store.delete(held)


_TAKE: dict[Way, Callable[[SlowStore, Mode, bool], Callable[[], None]]] = {"ours": _ours, "paper": _papers}


@contextmanager
def _inside(folder: Path, mode: Mode) -> Iterator[bool]:
    """Note that we are inside; whether somebody is who must not be."""
    note = folder / f"{mode}.{os.getpid()}"
    note.touch()
    others = {path.name for path in folder.iterdir()} - {note.name}
    yield any(mode == "W" or name.startswith("W") for name in others)
    note.unlink()
