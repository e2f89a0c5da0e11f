"""A process that is ready is given one job, or ended; its job runs as that of any other process."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.operations import ready_process
from holdfast.operations.job_process import await_end, submit

APPLICATION = "vacuum"
ARGUMENTS = ["--archive", "/nowhere", "--run", "r"]
MORE = {"HOLDFAST_JOB_EXECUTOR": "inline", "PGPASSWORD": "geheim"}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    ready_process.discard()


def begun() -> int:
    ready_process.begin(APPLICATION)
    return ready_process._ready[APPLICATION].pid


def test_the_process_that_is_ready_does_the_job_and_writes_into_its_log(tmp_path: Path) -> None:
    (log := tmp_path / "log").touch()
    pid = begun()
    process = ready_process.take(APPLICATION, ARGUMENTS, MORE, log)
    assert process is not None
    assert process.pid == pid
    told = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
    assert b"geheim" not in told
    code = await_end(process, lambda: None)
    assert (code, "vacuum" in log.read_text()) == (2, True)


def test_a_job_runs_the_same_with_a_process_that_is_ready_and_without(tmp_path: Path) -> None:
    ends = []
    for is_ready in (True, False):
        (log := tmp_path / "log").write_text("")
        if is_ready:
            begun()
        ends.append((submit(APPLICATION, ARGUMENTS, MORE, log=log), log.read_text()))
    assert ends[0] == ends[1]


def test_a_process_that_has_ended_gets_no_job(tmp_path: Path) -> None:
    begun()
    process = ready_process._ready[APPLICATION]
    process.kill()
    process.wait()
    assert ready_process.take(APPLICATION, ["--run", "r" * 100_000], {}, tmp_path / "log") is None


def test_a_job_that_goes_to_spark_leaves_no_process_that_is_ready() -> None:
    pid = begun()
    ready_process.discard()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("end", ["pass", "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"])
def test_a_command_that_ends_without_a_job_leaves_no_process(end: str) -> None:
    code = f"""
from holdfast.operations import ready_process
ready_process.begin({APPLICATION!r})
print(ready_process._ready[{APPLICATION!r}].pid, flush=True)
{end}
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    try:
        process = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return
    try:
        assert select.select([process], [], [], 30)[0]
    finally:
        os.close(process)


def test_who_wants_spark_gets_no_process_that_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_EXECUTOR", "spark")
    ready_process.begin(APPLICATION)
    assert not ready_process._ready
