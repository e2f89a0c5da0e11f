"""Which processes are Spark's workers, and what they held."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support.memory import DriverMemory, is_worker, peak_bytes


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with Spark's JVM 1, its Python daemon 2, and the daemon's worker 3."""
    for pid, parent, command in (
        (1, 0, "java\0"),
        (2, 1, "python\0-m\0sparkjobs.executors.daemon\0"),
        (3, 2, "python\0-m\0sparkjobs.executors.daemon\0"),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_text(command)
        (folder / "status").write_text(f"Name:\tx\nPPid:\t{parent}\nVmHWM:\t    {pid * 1000} kB\nVmRSS:\t 10 kB\n")
    return tmp_path


def test_a_worker_is_a_child_of_the_daemon_and_looks_like_it(proc: Path) -> None:
    assert [pid for pid in (1, 2, 3) if is_worker(pid, proc)] == [3]


def test_the_peak_is_the_high_water_mark_in_bytes(proc: Path) -> None:
    assert peak_bytes(3, proc) == 3000 * 1024


def test_a_process_that_is_gone_has_no_peak_and_is_no_worker(proc: Path) -> None:
    assert peak_bytes(4, proc) is None
    assert not is_worker(4, proc)


def test_the_driver_is_the_python_that_runs_the_application(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (proc / "1" / "cmdline").write_text("java\0SparkSubmit\0/x/backup.py\0")
    (proc / "2" / "cmdline").write_text("/venv/bin/python\0/x/backup.py\0--run\0r\0")
    monkeypatch.setattr("bench.support.memory.descendants", lambda pid: {1, 2, 3})
    driver = DriverMemory("backup.py", proc)
    driver(0)
    assert driver.most == 2000 * 1024
