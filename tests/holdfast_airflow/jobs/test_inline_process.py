"""A job's process runs to its end beside its task, says its lines at once, and leaves nothing of its own."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import pytest

from holdfast.operations.job_process import process_start
from holdfast_airflow.jobs.inline_process import run_inline
from holdfast_airflow.jobs.processes import RUN_VARIABLE


@pytest.fixture
def run() -> str:
    """The name of a run that nobody else on this machine has."""
    return uuid.uuid4().hex


def python(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


def test_each_line_is_said_and_the_last_ones_are_kept(run: str) -> None:
    said: list[str] = []
    text = (
        "import sys; [print(i) for i in range(12)]; sys.stdout.flush(); print('no room', file=sys.stderr); sys.exit(4)"
    )
    code, last = run_inline(python(text), {RUN_VARIABLE: run}, run=run, say=said.append)
    assert code == 4
    assert said == [*map(str, range(12)), "no room"]
    assert list(last) == [*map(str, range(3, 12)), "no room"]


def test_bytes_that_are_no_text_end_nothing(run: str) -> None:
    text = r"import os; os.write(1, b'caf\xe9\n')"
    code, last = run_inline(python(text), {}, run=run, say=lambda line: None)
    assert (code, list(last)) == (0, ["caf\ufffd"])


def test_it_has_the_tasks_environment_and_its_own_and_reads_nothing(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TASK", "a")
    monkeypatch.setenv("OF_BOTH", "a")
    text = "import os, sys; print(os.environ['OF_THE_TASK'], os.environ['OF_BOTH'], os.environ['PYTHONUNBUFFERED'], "
    text += "repr(sys.stdin.read()))"
    _, last = run_inline(python(text), {"OF_BOTH": "b"}, run=run, say=lambda line: None)
    assert list(last) == ["a b 1 ''"]


def test_what_it_has_started_ends_with_it(run: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'], "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
    )
    assert run_inline(python(text), {RUN_VARIABLE: run}, run=run, say=lambda line: None)[0] == 0
    assert process_start(int(pid.read_text())) is None


def test_an_interrupted_task_ends_it(run: str) -> None:
    pids: list[int] = []

    def stop(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    text = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        run_inline(python(text), {RUN_VARIABLE: run}, run=run, say=stop)
    assert process_start(pids[0]) is None


def test_it_is_in_no_group_of_the_tasks(run: str) -> None:
    _, last = run_inline(python("import os; print(os.getsid(0))"), {}, run=run, say=lambda line: None)
    assert int(last[0]) != os.getsid(0)


def test_a_program_that_is_not_there_is_the_callers_error(run: str) -> None:
    with pytest.raises(FileNotFoundError):
        run_inline(["/nowhere/python"], {}, run=run, say=lambda line: None)
