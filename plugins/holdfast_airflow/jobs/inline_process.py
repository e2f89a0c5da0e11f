"""The child process of a task in which a job runs without Spark."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from typing import TYPE_CHECKING

from holdfast.operations.ready_process import PYTHON_SETTINGS
from holdfast_airflow.jobs.processes import end_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LAST_LINES = 10

_UNBUFFERED = "PYTHONUNBUFFERED"
"""Else what a job prints comes to the log at its end, behind its errors."""


def run_inline(
    command: Sequence[str], environment: Mapping[str, str], *, run: str, say: Callable[[str], None]
) -> tuple[int, Sequence[str]]:
    """Run a job's process, and return its exit code and last lines.

    When it returns, no process of the job runs any more.

    :param environment: what it has beside that of the task.
    :param run: name of the job's run, by which its processes are found.
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
