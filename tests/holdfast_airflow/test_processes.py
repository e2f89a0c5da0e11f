"""Processes of jobs are ended, whoever's children they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from holdfast_airflow.processes import RUN_VARIABLE, end_job

SLEEP = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def started(run: str, program: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a program as one of a run; give its process and the first line that it says."""
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, RUN_VARIABLE: run}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def test_who_started_a_process_still_learns_how_it_ended() -> None:
    with started("run-1", SLEEP) as (process, _):
        end_job("run-1")
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
        assert process.wait() == -signal.SIGTERM


def test_processes_of_other_runs_go_on() -> None:
    with started("run-1", SLEEP) as (mine, _), started("run-10", SLEEP) as (other, _):
        end_job("run-1")
        assert mine.wait() == -signal.SIGTERM
        assert other.poll() is None


def test_what_does_not_listen_is_killed_and_so_is_what_it_started() -> None:
    with started("run-1", STUBBORN) as (stubborn, _), started("run-1", CHILD) as (parent, child):
        end_job("run-1", polite_s=0.1, forced_s=30)
        assert stubborn.wait() == -signal.SIGKILL
        assert parent.wait() == -signal.SIGTERM
        assert not psutil.pid_exists(int(child)) or psutil.Process(int(child)).status() == psutil.STATUS_ZOMBIE


def test_nothing_is_waited_for_once_all_have_ended_though_nobody_has_asked_how(monkeypatch: pytest.MonkeyPatch) -> None:
    with started("run-1", SLEEP):
        monkeypatch.setattr(time, "monotonic", lambda: 0.0)  # no deadline ever comes
        end_job("run-1")
