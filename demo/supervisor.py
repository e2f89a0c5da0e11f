"""Runs one command and, whatever happens, leaves none of its processes behind.

    python -P supervisor.py COMMAND [ARGUMENT...]

Everything the command starts is ended when standard input closes (so also when whoever started this was
killed), when this process gets SIGTERM, SIGINT or SIGHUP, and when the command ends by itself. First with
SIGTERM; after a while, or at the second signal, with SIGKILL. A byte on standard input lets go of it: from
then on only signals count.

It is a subreaper (prctl(2), Linux): a process that loses its parent becomes a child of this one, so all
descendants are found and reaped, whatever group or session they moved to. It imports nothing but the
standard library, and nothing of this folder.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TERM_S = 12.0
KILL_S = 10.0
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """Runs the command; `run` returns its exit code, 128 + n when it was ended by signal n."""

    ends_on: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._signals = 0
        self._code = 0
        self._child = 0
        self._child_runs = True

    def run(self) -> int:
        """Run the command until it ends or is to be ended, then end what is left of it."""
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot become a subreaper")
        for number in self.ends_on:
            signal.signal(number, self._count)
        self._child = self._start()
        self._wait()
        self._end()
        return self._code

    def _count(self, *_: object) -> None:
        self._signals += 1

    def _start(self) -> int:
        # posix_spawn and not subprocess, which would reap the child itself when it finds it ended.
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        ignored_by_python = [signal.SIGPIPE, signal.SIGXFSZ]
        return os.posix_spawnp(
            self._command[0], self._command, os.environ, file_actions=[nothing], setsigdef=ignored_by_python
        )

    def _wait(self) -> None:
        watched = [sys.stdin.fileno()]
        while self._child_runs and not self._signals:
            readable, _, _ = select.select(watched, [], [], 0.2)
            if readable:
                if not os.read(watched[0], 1):
                    return
                watched = []
            self._reap()

    def _end(self) -> None:
        signals_before = self._signals
        end_all(self._running, signal.SIGTERM, TERM_S, lambda: self._signals > signals_before)
        end_all(self._running, signal.SIGKILL, KILL_S)
        self._reap()

    def _running(self) -> set[int]:
        self._reap()
        return descendants(os.getpid())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._child_runs = False
                return
            if pid == 0:
                return
            if pid == self._child:
                self._child_runs = False
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code


def end_all(
    find: Callable[[], set[int]],
    number: signal.Signals,
    seconds: float,
    is_enough: Callable[[], bool] = lambda: False,
) -> None:
    """Send a signal once to each process that is found, until none is, or time is up, or it is enough."""
    deadline = time.monotonic() + seconds
    told: set[int] = set()
    while running := find():
        for pid in running - told:
            told.add(pid)
            # A descendant's id cannot be another process's yet: only its parent's reaping frees it,
            # and a parent that does so between these two lines is the race every kill(2) has.
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if time.monotonic() > deadline or is_enough():
            return
        time.sleep(0.05)


def descendants(ancestor: int) -> set[int]:
    """Return the ids of all processes below one that still run, as /proc tells (proc(5))."""
    children: dict[int, list[int]] = {}
    ended = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name, in parentheses, may hold anything: fields are counted behind it.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has just ended
        children.setdefault(int(parent), []).append(int(entry.name))
        if state in "ZX":
            ended.add(int(entry.name))
    found: set[int] = set()
    open_ends = [ancestor]
    while open_ends:
        below = children.get(open_ends.pop(), [])
        found.update(below)
        open_ends += below
    return found - ended


if __name__ == "__main__":
    sys.exit(Supervisor(sys.argv[1:]).run())
