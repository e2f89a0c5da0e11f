"""Processes of a job on this machine, and their end."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from holdfast.operations.ready_process import PYTHON_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RUN_VARIABLE = "HOLDFAST_RUN"
"""In the environment of every process of a job: its run's name."""

_POLL_S = 0.02


def end_processes(run: str, *, polite_s: float = 1.5, forced_s: float = 1.0) -> None:
    """End every process of a job on this machine: SIGTERM, then SIGKILL for those that stay.

    They are known by their environment. Ending spark-submit alone would leave its Python driver running,
    and where spark-submit is gone already, nothing else leads to the driver. Exit codes are left to who has started
    a process: to wait for one, as `psutil.wait_procs` does with children, would take it, and `Popen` then says 0.

    :param polite_s: seconds between the two signals.
    :param forced_s: seconds to wait for the end after the second.
    """
    running: set[psutil.Process] = set()
    for send, seconds in ((psutil.Process.terminate, polite_s), (psutil.Process.kill, forced_s)):
        deadline = time.monotonic() + seconds
        running = _remaining(running, run)
        for process in running:
            with suppress(psutil.NoSuchProcess):
                send(process)
        while (running := _remaining(running, run)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _remaining(running: set[psutil.Process], run: str) -> set[psutil.Process]:
    """Return the processes of a run that have not ended, new ones included."""
    started = {process for process in psutil.process_iter() if _belongs(process, run)}
    return {process for process in running | started if not _has_ended(process)}


def _belongs(process: psutil.Process, run: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get(RUN_VARIABLE) == run)
    return False


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() == 1)
    except psutil.NoSuchProcess:
        return True


_LAST_LINES = 10

_UNBUFFERED = "PYTHONUNBUFFERED"
"""Else what a job prints comes to the log at its end, behind its errors."""


def run_inline(
    command: Sequence[str], environment: Mapping[str, str], *, run: str, say: Callable[[str], None]
) -> tuple[int, Sequence[str]]:
    """Run a job's process to its end; return its exit code and last lines.

    :param environment: what it has beside that of the task.
    :param say: called with each line that it prints.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **PYTHON_SETTINGS, _UNBUFFERED: "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with process:
        try:
            for line in process.stdout or ():
                last.append(line.rstrip())
                say(last[-1])
        except BaseException:  # such as Airflow's time-out: what leaves this block waits for the process
            end_processes(run)
            raise
    end_processes(run)
    return process.returncode, last
