"""Processes of jobs: run to their end beside their task, and ended as someone's children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.operations.job_process import process_start
from holdfast_airflow.jobs.processes import RUN_VARIABLE, end_processes, run_inline

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


def python(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


def test_each_line_is_said_and_the_last_ones_are_kept(name: str) -> None:
    said: list[str] = []
    text = (
        "import sys; [print(i) for i in range(12)]; sys.stdout.flush(); print('no room', file=sys.stderr); sys.exit(4)"
    )
    code, last = run_inline(python(text), {RUN_VARIABLE: name}, run=name, say=said.append)
    assert code == 4
    assert said == [*map(str, range(12)), "no room"]
    assert list(last) == [*map(str, range(3, 12)), "no room"]


def test_bytes_that_are_no_text_end_nothing(name: str) -> None:
    text = r"import os; os.write(1, b'caf\xe9\n')"
    code, last = run_inline(python(text), {}, run=name, say=lambda line: None)
    assert (code, list(last)) == (0, ["caf\ufffd"])


def test_it_has_the_tasks_environment_and_its_own_and_reads_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TASK", "a")
    monkeypatch.setenv("OF_BOTH", "a")
    text = "import os, sys; print(os.environ['OF_THE_TASK'], os.environ['OF_BOTH'], os.environ['PYTHONUNBUFFERED'], "
    text += "repr(sys.stdin.read()))"
    _, last = run_inline(python(text), {"OF_BOTH": "b"}, run=name, say=lambda line: None)
    assert list(last) == ["a b 1 ''"]


def test_what_it_has_started_ends_with_it(name: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'], "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
    )
    assert run_inline(python(text), {RUN_VARIABLE: name}, run=name, say=lambda line: None)[0] == 0
    assert process_start(int(pid.read_text())) is None


def test_it_is_in_no_group_of_the_tasks(name: str) -> None:
    _, last = run_inline(python("import os; print(os.getsid(0))"), {}, run=name, say=lambda line: None)
    assert int(last[0]) != os.getsid(0)
