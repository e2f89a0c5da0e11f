"""Processes of a job on this machine, and their end."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil

RUN_VARIABLE = "HOLDFAST_RUN"
"""In the environment of every process of a job: its run's name."""

_POLL_S = 0.02


def end_processes(run: str, *, polite_s: float = 1.5, forced_s: float = 1.0) -> None:
    """End every process of a job on this machine: SIGTERM, then SIGKILL for those that stay.

    They are known by their environment. Ending spark-submit alone would leave its Python driver running,
    and where spark-submit is gone already, nothing else leads to the driver. Exit codes are left to who has started
    a process: to wait for one, as `psutil.wait_procs` does with children, would take it, and `Popen` then says 0.

    :param run: the run's name, in `HOLDFAST_RUN`.
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
    """Return whether a process is gone, or a zombie without other threads.

    Such a zombie only waits for its exit code to be read.
    """
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() == 1)
    except psutil.NoSuchProcess:
        return True
