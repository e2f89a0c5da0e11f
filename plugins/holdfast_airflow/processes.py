"""End what a task process has started."""

from __future__ import annotations

from contextlib import suppress

import psutil

RUN_VARIABLE = "HOLDFAST_RUN"
"""In the environment of every process of a job: its run's name."""


def end_job(run: str, *, polite_s: float = 1.5, forced_s: float = 1.0) -> None:
    """End every process of a job on this machine: SIGTERM, then SIGKILL for those that stay.

    They are known by their environment. Ending spark-submit alone would leave its Python driver running,
    and where spark-submit is gone already, nothing else leads to the driver.

    :param run: the run's name, in `HOLDFAST_RUN`.
    :param polite_s: seconds between the two signals.
    :param forced_s: seconds to wait for the end after the second.
    """
    running = [process for process in psutil.process_iter() if _belongs(process, run)]
    for process in running:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(running, timeout=polite_s)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=forced_s)


def _belongs(process: psutil.Process, run: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get(RUN_VARIABLE) == run)
    return False
