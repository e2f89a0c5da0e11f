"""Whatever ends the supervisor or its command, nothing that the command started is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from demo.supervisor import descendants

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SUPERVISOR = ROOT / "demo" / "supervisor.py"


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether a condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_running(pid: int) -> bool:
    return bool(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def supervised(script: str, tmp_path: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start a shell script under the supervisor; it writes ids of its processes into `pids`, one a line."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(SUPERVISOR), "/bin/sh", "-c", script],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    wanted = script.count(">> pids")
    pids = tmp_path / "pids"
    assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == wanted)
    return process, [int(pid) for pid in pids.read_text().split()]


# One that moved to a session of its own, whose parent has ended: neither group nor parent leads to it.
STRAY = "setsid sh -c 'echo $$ >> pids; exec sleep 600' & "


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.parametrize("how", ["close", "term", "int", "kill the command"])
def test_everything_is_ended_however_it_is_told(tmp_path: Path, how: str) -> None:
    process, pids = supervised(f"echo $$ > command; {STRAY} ({STRAY}) ; echo $$ >> pids; exec sleep 600", tmp_path)
    if how == "kill the command":
        os.kill(int((tmp_path / "command").read_text()), signal.SIGKILL)
    elif how != "close":
        process.send_signal({"term": signal.SIGTERM, "int": signal.SIGINT}[how])
    if how == "close":
        end(process)
    code = process.wait(20)
    assert len(pids) == 3
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert code == 128 + (9 if how == "kill the command" else 15)
    end(process)


def test_supervisor_ends_everything_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-P', {str(SUPERVISOR)!r}, 'sleep', '600'], stdin=subprocess.PIPE)\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    with starter.stdout:
        supervisor = int(starter.stdout.readline())
    assert wait_until(lambda: len(descendants(supervisor)) == 1)
    (sleeper,) = descendants(supervisor)
    starter.kill()
    starter.wait()
    assert wait_until(lambda: not is_running(supervisor) and not is_running(sleeper))


def test_supervisor_forces_those_that_ignore_the_polite_signal_at_the_second_one(tmp_path: Path) -> None:
    process, pids = supervised("trap '' TERM; echo $$ >> pids; while true; do sleep 1; done", tmp_path)
    began = time.monotonic()
    process.terminate()
    time.sleep(0.5)
    process.terminate()
    process.wait(20)
    assert time.monotonic() - began < 8  # the polite wait alone is longer
    assert not psutil.pid_exists(pids[0])
    end(process)


def test_supervisor_ends_with_its_command(tmp_path: Path) -> None:
    process, _ = supervised("echo $$ >> pids; exit 3", tmp_path)
    assert process.wait(20) == 3
    end(process)


def test_supervisor_that_is_let_go_outlives_its_starter_until_a_signal(tmp_path: Path) -> None:
    process, pids = supervised("echo $$ >> pids; exec sleep 600", tmp_path)
    assert process.stdin is not None
    process.stdin.write(b"d")
    end(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    assert is_running(pids[0])
    process.terminate()
    process.wait(20)
    assert not psutil.pid_exists(pids[0])


def test_descendants_are_those_that_run_at_any_depth() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    with subprocess.Popen(
        ["/bin/sh", "-c", "(sleep 600 & echo $!; wait) & wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        grandchild = int(shell.stdout.readline())
        found = descendants(os.getpid())
        below = descendants(shell.pid)
        os.killpg(shell.pid, signal.SIGKILL)
    ended.wait()

    assert {shell.pid, grandchild} <= found
    assert ended.pid not in found
    assert grandchild in below
    assert shell.pid not in below
