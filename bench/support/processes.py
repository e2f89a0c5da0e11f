"""Run a program, take its time, and leave nothing of it behind whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo.supervisor import descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

TIMEOUT_S = 900.0
_LOOK_S = 0.1
_PATIENCE_S = 15.0


class ProgramError(Exception):
    """A program that is measured failed, or took longer than it may; with its last words."""


@dataclass(frozen=True)
class Done:
    """A program that ended well.

    :param seconds: from its start to its end.
    :param output: what it wrote to standard output.
    """

    seconds: float
    output: str


def run(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    watch: Callable[[int], None] | None = None,
) -> Done:
    """Run one program and wait for it.

    :param environment: added to ours.
    :param watch: called with its process id ten times a second while it runs.
    :raises ProgramError: it failed.
    """
    return run_together([command], environment, watch=watch)[0]


def run_together(
    commands: Sequence[Sequence[str | Path]],
    environment: Mapping[str, str],
    *,
    watch: Callable[[int], None] | None = None,
) -> list[Done]:
    """Run programs at the same time; the time of each is from the common start to its own end."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        started = time.monotonic()
        running = [_Running(command, environment, f"{folder}/{number}") for number, command in enumerate(commands)]
        try:
            return [each.wait(started, watch) for each in running]
        finally:
            end([each.process for each in running])


class _Running:
    """One program under way, with its words in files, so that no pipe can fill up."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], stem: str) -> None:
        self._command = [str(part) for part in command]
        self._stem = stem
        with open(f"{stem}.out", "wb") as out, open(f"{stem}.err", "wb") as err:  # noqa: PTH123 - a name, not a path
            self.process = subprocess.Popen(
                self._command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait(self, started: float, watch: Callable[[int], None] | None) -> Done:
        """Return when it has ended."""
        while True:
            try:
                code = self.process.wait(TIMEOUT_S if watch is None else _LOOK_S)
                break
            except subprocess.TimeoutExpired as error:
                if time.monotonic() - started > TIMEOUT_S:
                    raise ProgramError(f"{self._command[0]} did not end in {TIMEOUT_S:.0f} s") from error
            if watch is not None:
                watch(self.process.pid)
        seconds = time.monotonic() - started
        if code:
            raise ProgramError(f"{' '.join(self._command)[:300]} ended with {code}: {self._read('err')[-2000:]}")
        return Done(seconds, self._read("out"))

    def _read(self, what: str) -> str:
        with open(f"{self._stem}.{what}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End programs that still run, with everything that they started."""
    alive = [process for process in processes if process.poll() is None]
    if not alive:
        return
    pids = {process.pid for process in alive}.union(*(descendants(process.pid) for process in alive))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while (pids := {pid for pid in pids if _runs(pid, alive)}) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)


def _runs(pid: int, children: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Say whether a process still runs; children of ours are reaped by asking."""
    for child in children:
        if child.pid == pid:
            return child.poll() is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def check_rows(name: str, rows: int, wanted: int) -> None:
    """Make sure that a way brought every row.

    :raises ProgramError: it did not.
    """
    if rows != wanted:
        raise ProgramError(f"{name} brought {rows:,} rows instead of {wanted:,}")
