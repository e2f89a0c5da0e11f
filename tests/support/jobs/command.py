"""The `holdfast` command as people start it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from holdfast.archive.format import last_seen
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.postgresql.connection.address import Address

PROGRAM = Path(sys.executable).parent / "holdfast"
SURROUNDINGS: dict[str, str] = {}
"""Environment variables of every command."""

NOTHING: Mapping[str, str] = MappingProxyType({})
ON_SPARK: Mapping[str, str] = MappingProxyType({FORCED_VARIABLE: "spark"})
LIMIT_S = 120.0
"""No command of the tests takes nearly as long, even on a busy machine."""


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> dict[str, Any]:
        """Return the one JSON object on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


RunCommand = Callable[..., Finished]
"""Runs the command with these arguments, in whichever process."""


def environment(address: Address | None, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: none of our settings but these, and the address's password.

    Its jobs run without Spark unless `more` says otherwise: by Spark, each takes five seconds of a processor.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "HOLDFAST_", "AWS_"))}
    password = {"PGPASSWORD": address.password} if address and address.password else {}
    nothing_seen = {last_seen.VARIABLE: "off"}
    return {**kept, **nothing_seen, FORCED_VARIABLE: "inline", **SURROUNDINGS, **password, **more}


def start(*arguments: str, address: Address | None = None, more: Mapping[str, str] = NOTHING) -> subprocess.Popen[str]:
    """Start the command and return at once.

    :param more: environment variables.
    """
    return subprocess.Popen(
        [PROGRAM, *arguments],
        env=environment(address, more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(command: subprocess.Popen[str]) -> Finished:
    """Wait for a command to end."""
    try:
        out, err = command.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        command.kill()
        raise
    return Finished(command.returncode, out, err)


def run(*arguments: str, address: Address | None = None, more: Mapping[str, str] = NOTHING) -> Finished:
    """Run the command to its end."""
    return finish(start(*arguments, address=address, more=more))


def until(seen: Callable[[], Any], what: str, limit_s: float = 60.0, *, pause_s: float = 0.05) -> Any:
    """Return what `seen` returns once that is true; fails after a while, saying what was waited for."""
    deadline = time.monotonic() + limit_s
    while not (found := seen()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain for {what}"
        time.sleep(pause_s)
    return found


@dataclass(frozen=True)
class Job:
    """The processes of a command's job.

    :param java: None: it runs inline.
    """

    java: psutil.Process | None
    driver: psutil.Process
    workers: tuple[psutil.Process, ...]
    all: tuple[psutil.Process, ...]


def job_of(command: subprocess.Popen[str]) -> Job:
    """Return the processes of a job that is at work."""
    every = tuple(psutil.Process(command.pid).children(recursive=True))
    if inline := [process for process in every if "sparkjobs.run_inline" in _words(process)]:
        return Job(None, inline[0], (), every)
    (java,) = [process for process in every if _name(process) == "java"]
    daemons = [process for process in every if "sparkjobs.executors.daemon" in _words(process)]
    (driver,) = [process for process in java.children() if any(word.endswith(".py") for word in _words(process))]
    workers = tuple(process for process in daemons if _parent(process) in daemons)
    return Job(java, driver, workers, every)


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):  # it has just ended
        return process.cmdline()
    return []


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.name()
    return ""


def _parent(process: psutil.Process) -> psutil.Process | None:
    with suppress(psutil.Error):
        return process.parent()
    return None


def all_gone(processes: tuple[psutil.Process, ...]) -> bool:
    """Say whether every process has ended."""
    return all(_gone(process) for process in processes)


def _gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
