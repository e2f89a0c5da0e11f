"""Processes of jobs are ended, whoever's children they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.operations.job_process import process_start
from holdfast_airflow.jobs.processes import RUN_VARIABLE, end_processes

SLEEP = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def name() -> str:
    """The name of a run that nobody else on this machine has."""
    return uuid.uuid4().hex


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


def test_who_started_a_process_still_learns_how_it_ended(name: str) -> None:
    with started(name, SLEEP) as (process, _):
        end_processes(name)
        assert process_start(process.pid) is None
        assert process.wait() == -signal.SIGTERM


def test_processes_of_other_runs_go_on(name: str) -> None:
    with started(name, SLEEP) as (mine, _), started(f"{name}0", SLEEP) as (other, _):
        end_processes(name)
        assert mine.wait() == -signal.SIGTERM
        assert other.poll() is None


def test_what_does_not_listen_is_killed_and_so_is_what_it_started(name: str) -> None:
    with started(name, STUBBORN) as (stubborn, _), started(name, CHILD) as (parent, child):
        end_processes(name, polite_s=0.1, forced_s=30)
        assert stubborn.wait() == -signal.SIGKILL
        assert parent.wait() == -signal.SIGTERM
        assert process_start(int(child)) is None


def test_nothing_is_waited_for_once_all_have_ended_though_nobody_has_asked_how(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(name, SLEEP):
        monkeypatch.setattr(time, "monotonic", lambda: 0.0)  # no deadline ever comes
        end_processes(name)
