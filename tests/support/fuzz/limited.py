"""A process that runs commands of holdfast in forked children of limited memory and time.

    python -m tests.support.fuzz.limited

It reads a line of JSON for each case and writes one about what became of it. It has no threads, so that it may fork;
what takes long to import it imports once.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.cli.commands import COMMANDS
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here

MEMORY = 4 << 30
"""Bytes of address space that a child may take beside those of what is imported."""

WRITTEN = 64 << 20
"""Bytes of a file that it may write."""

_KEPT = 4000
"""Characters of what a command says that are kept."""


def serve() -> None:
    """Run cases until there are no more."""
    for name in COMMANDS:
        importlib.import_module(f"holdfast.cli.{COMMANDS[name].module or name}")
    for name in ("duckdb", "pyarrow.parquet", "pyarrow.compute", "sparkjobs.compaction", "sparkjobs.truncation"):
        importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_case(json.loads(line))) + "\n")
        sys.stdout.flush()


def _case(case: dict[str, Any]) -> dict[str, Any]:
    """Run commands one after the other in a child; says what became of each, and how the child ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _limit()
            for command in case["commands"]:
                os.write(writing, json.dumps(_run(command, case["environment"])).encode() + b"\n")
            os._exit(0)
        finally:
            os._exit(1)  # never back into the loop
    os.close(writing)
    text, in_time = _read(reading, time.monotonic() + case["seconds"] * len(case["commands"]), case["seconds"])
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return {
        "done": [json.loads(line) for line in text.decode().splitlines()],
        "ended": "took too long" if not in_time else os.waitstatus_to_exitcode(status),
        "resident": usage.ru_maxrss * 1024,
    }


def _read(source: int, until: float, each: float) -> tuple[bytes, bool]:
    """Read to the end, unless nothing comes for too long; returns whether the end came."""
    text = b""
    try:
        while ready := select.select([source], [], [], min(each, max(0.0, until - time.monotonic())))[0]:
            more = os.read(ready[0], 1 << 16)
            if not more:
                return text, True
            text += more
        return text.rpartition(b"\n")[0], False
    finally:
        os.close(source)


def _limit() -> None:
    """Limit this process for the rest of its life, and let it say nothing."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)


def _run(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    began = time.monotonic()
    try:
        done = run_here(*command, more=environment)
    except BaseException as error:  # noqa: BLE001 - it is told, whatever it is
        done = Finished(-1, "", repr(error))
    return {
        "command": command,
        "code": done.code,
        "out": done.out if done.code == 0 else done.out[-_KEPT:],
        "err": done.err[-_KEPT:],
        "seconds": time.monotonic() - began,
    }


if __name__ == "__main__":
    serve()
