"""Process that imports a job's application while its command prepares the job.

Half of a small job's time are Python's imports, and these need nothing of what the command finds out. So the process
starts with the command. It is given the job, or ended. Imports nothing that takes time itself.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

READY: Final = "--ready"
"""The option of `sparkjobs.run_inline` by which it waits for its job on standard input."""

PYTHON_SETTINGS: Final = {
    # By itself glibc gives the memory of each of numpy's arrays back at once, and takes it anew for the next one.
    "MALLOC_MMAP_THRESHOLD_": str(8 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
"""Variables of each Python process that does a job's work; they are read when it starts."""

_ready: dict[str, subprocess.Popen[bytes]] = {}


def begin(application: str) -> None:
    """Start the process of an application that will probably run inline."""
    if application in _ready or os.environ.get("HOLDFAST_EXECUTOR", "").strip().lower() == "spark":
        return
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sparkjobs.run_inline", READY, application],
        env={**os.environ, **PYTHON_SETTINGS},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _ready[application] = process
    atexit.register(discard)


def take(
    application: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes] | None:
    """Give its job to the process that is ready, and return the process.

    None: there is none, or it has ended.

    :param environment: more variables than the process was started with; secrets go this way, too, by its input.
    :param log: where its words go.
    """
    process = _ready.pop(application, None)
    if process is None or process.stdin is None:
        return None
    job = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
    try:
        with process.stdin as given:
            given.write(json.dumps(job).encode() + b"\n")
    except BrokenPipeError:
        process.wait()
        return None
    return process


def discard() -> None:
    """End all processes that are ready: their jobs go to Spark, or the command has none."""
    while _ready:
        _end(_ready.popitem()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
