"""Runs of tests leave nothing behind, however they end: processes, temporary files and shared memory are gone.

Each test here runs pytest on a small project of its own, whose test starts what is hard to end.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from tests.support.jobs.command import until
from tests.support.runs.supervision import PREFIX, SUPERVISOR

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LIMIT_S = 10.0

# A child in a session of its own that ignores what can be ignored, and a folder; then C code that never returns.
STUBBORN = """
import ctypes, json, os, subprocess, tempfile
from pathlib import Path

def say(**what):
    Path("said.part").write_text(json.dumps(what))
    Path("said.part").rename("said")

def never_return():
    lock = ctypes.create_string_buffer(64)
    while True:
        ctypes.CDLL(None).pthread_mutex_lock(lock)

def test_stubborn():
    tempfile.mkdtemp(prefix="left-")
    command = ["sh", "-c", "trap '' TERM INT; echo; exec sleep 600"]
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    say(pids=[os.getpid(), child.pid], above=os.getppid())
    never_return()
"""

# The stopped server cannot end in order, so that it is killed with its shared memory still there.
WITH_A_SERVER = f"""
import signal, sys
from holdfast.postgresql.connection.server import PostgresServer
{STUBBORN.partition("def test_stubborn")[0]}

def test_server():
    server = PostgresServer(settings={{"unix_socket_directories": ""}}).start()
    shared = [line.split(maxsplit=5) for line in Path(f"/proc/{{server.pid}}/maps").read_text().splitlines()]
    memory = [line[4:6] for line in shared if len(line) == 6 and line[5].startswith(("/SYSV", "/dev/shm/PostgreSQL."))]
    if STOPPED:
        os.kill(server.pid, signal.SIGSTOP)
    say(pids=[os.getpid(), server.pid], memory=memory)
    never_return()
"""


HURRIED = """
from tests.support.runs import supervision
supervision.GOODBYE_S = supervision.SUM_UP_S = 0.5
"""
"""A plugin by which a supervisor soon stops waiting for what never ends."""


@dataclass(frozen=True)
class Project:
    """A folder with a test in it, and a place for temporary files of its runs that nobody else uses."""

    folder: Path
    temporary: Path

    def start(self, *options: str, test: str = STUBBORN, patient: bool = False, **more: Any) -> subprocess.Popen[bytes]:
        """Start a run of the test.

        :param patient: it waits for tests that do not end for as long as the project's own runs do.
        """
        (self.folder / "test_it.py").write_text(test)
        (self.folder / "hurried.py").write_text("" if patient else HURRIED)
        (self.folder / "said").unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.runs.supervision", "-p", "xdist.plugin"]
        command += ["-p", "hurried"]
        return subprocess.Popen(
            [*command, *options, "test_it.py"],
            cwd=self.folder,
            env={
                **{name: value for name, value in os.environ.items() if name != SUPERVISOR},
                "PYTHONPATH": str(ROOT),
                "TMPDIR": str(self.temporary),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            start_new_session=True,
            **more,
        )

    def said(self) -> dict[str, Any]:
        """Return what the test has said of itself, once it has."""
        until((self.folder / "said").exists, "the test to start what it starts")
        found = json.loads((self.folder / "said").read_text())
        assert isinstance(found, dict)
        return found

    def left(self) -> list[str]:
        """Return the names of temporary files and folders of all runs."""
        return sorted(path.name for path in self.temporary.iterdir())


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    # Its name is short: paths of sockets may not be long.
    with TemporaryDirectory(prefix="t-") as temporary:
        Path(temporary).chmod(0o711)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        yield Project(tmp_path, Path(temporary))


def interrupt(run: subprocess.Popen[bytes], said: dict[str, Any]) -> None:
    run.send_signal(signal.SIGINT)


def kill_pytest(run: subprocess.Popen[bytes], said: dict[str, Any]) -> None:
    os.kill(said["pids"][0], signal.SIGKILL)


def kill_controller(run: subprocess.Popen[bytes], said: dict[str, Any]) -> None:
    os.kill(said["above"], signal.SIGKILL)


def wait(run: subprocess.Popen[bytes], said: dict[str, Any]) -> None:
    """Do nothing: it ends by itself."""


TIME_OUT = ("-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true")


@pytest.mark.representatives("pytest-killed")
@pytest.mark.parametrize(
    ("end", "options", "patient"),
    [
        pytest.param(interrupt, (), True, id="SIGINT"),
        pytest.param(interrupt, ("-n1",), True, id="SIGINT-beside-workers", marks=pytest.mark.exhaustive),
        pytest.param(kill_pytest, (), False, id="pytest-killed"),
        pytest.param(
            kill_pytest, ("-n1", "--max-worker-restart=0"), False, id="worker-killed", marks=pytest.mark.exhaustive
        ),
        pytest.param(kill_controller, ("-n1",), True, id="pytest-of-workers-killed", marks=pytest.mark.exhaustive),
        pytest.param(wait, TIME_OUT, False, id="time-out"),
    ],
)
def test_nothing_is_left(
    project: Project,
    end: Callable[[subprocess.Popen[bytes], dict[str, Any]], None],
    options: tuple[str, ...],
    patient: bool,
) -> None:
    run = project.start(*options, patient=patient)
    said = project.said()
    began = time.monotonic()
    end(run, said)
    assert run.wait(LIMIT_S) != 0
    assert time.monotonic() - began < LIMIT_S
    assert not any(psutil.pid_exists(pid) for pid in said["pids"])
    assert project.left() == []


@pytest.mark.exhaustive
def test_second_signal_takes_the_time_to_sum_up(project: Project) -> None:
    run = project.start(patient=True)
    project.said()
    began = time.monotonic()
    run.send_signal(signal.SIGTERM)
    run.send_signal(signal.SIGINT)
    assert run.wait(LIMIT_S) != 0
    assert time.monotonic() - began < 4  # pytest has as long to end its fixtures, and some more to sum up
    assert project.left() == []


def test_next_run_sweeps_what_a_killed_supervisor_has_left_and_nothing_else(project: Project) -> None:
    lost = project.start()
    of_lost = project.said()
    going_on = project.start()
    of_going_on = project.said()
    lost.kill()
    lost.wait()
    until(lambda: not psutil.pid_exists(of_lost["pids"][0]), "pytest to die with its supervisor")
    assert psutil.pid_exists(of_lost["pids"][1])
    assert len(project.left()) == 2
    assert project.start(test="def test_nothing(): pass").wait(60) == 0
    until(lambda: not any(psutil.pid_exists(pid) for pid in of_lost["pids"]), "whoever reaps them to do so")
    assert all(psutil.pid_exists(pid) for pid in of_going_on["pids"])
    assert len(project.left()) == 1
    interrupt(going_on, of_going_on)
    going_on.wait(LIMIT_S)
    assert project.left() == []


@pytest.mark.service
@pytest.mark.parametrize("stopped", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_servers_and_their_shared_memory_go(project: Project, stopped: bool) -> None:
    run = project.start(test=f"STOPPED = {stopped}\n{WITH_A_SERVER}", patient=stopped)
    said = project.said()
    assert {name[:5] for _, name in said["memory"]} == {"/SYSV", "/dev/"}
    run.send_signal(signal.SIGINT)
    assert run.wait(LIMIT_S) != 0
    assert not any(psutil.pid_exists(pid) for pid in said["pids"])
    assert not any(is_there(name, number) for number, name in said["memory"])
    assert project.left() == []


def is_there(name: str, number: str) -> bool:
    """Say whether shared memory exists: System V's by its key and number, POSIX's by its name.

    The number alone may be another server's by now, since the kernel gives it anew.
    """
    if name.startswith("/SYSV"):
        key = int(name.removeprefix("/SYSV")[:8], 16)
        found = (line.split()[:2] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
        return any((int(own) % (1 << 32), each) == (key, number) for own, each in found)
    return Path(name).exists()


def test_input_output_and_exit_code_are_those_of_pytest_and_its_folder_is_found_by_its_name(project: Project) -> None:
    asks = (
        "import tempfile\nfrom pathlib import Path\n"
        "def test_it():\n"
        "    Path('where').write_text(tempfile.gettempdir())\n"
        "    print('heard', input())\n"
        "    assert False\n"
    )
    run = project.start("-s", test=asks, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said, _ = run.communicate(b"a word\n", timeout=60)
    assert b"heard a word" in said
    assert b"1 failed" in said
    assert run.returncode == 1
    where = Path((project.folder / "where").read_text())
    assert where.parent == project.temporary
    assert where.name.startswith(PREFIX)


def test_what_a_test_leaves_running_is_told(project: Project) -> None:
    leaves = (
        "import subprocess\ndef test_it(): subprocess.Popen(['sleep', '600'], start_new_session=True).returncode = 0"
    )
    run = project.start(test=leaves, stderr=subprocess.PIPE)
    _, said = run.communicate(timeout=60)
    assert b"supervision: ends what tests left running: sleep (" in said


@pytest.mark.parametrize(
    ("option", "supervised"),
    [("-q", True), ("--pdb", False), pytest.param("--trace", False, marks=pytest.mark.exhaustive)],
)
def test_debugger_has_no_supervisor(project: Project, option: str, supervised: bool) -> None:
    tells = f"import os\ndef test_it(): assert ({SUPERVISOR!r} in os.environ) is {supervised}"
    run = project.start(option, test=tells, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    run.communicate(b"continue\n", timeout=60)
    assert run.returncode == 0


def own_terminal() -> None:
    """Make standard input the terminal that controls this session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.exhaustive
def test_ctrl_c_at_a_terminal_reaches_pytest_once(project: Project) -> None:
    counts = f"{STUBBORN.partition('def test_stubborn')[0]}" + (
        "import signal, time\n"
        "def test_it():\n"
        "    times = []\n"
        "    signal.signal(signal.SIGINT, lambda *_: times.append(1))\n"
        "    say()\n"
        "    while not times:\n"
        "        time.sleep(0.05)\n"
        "    time.sleep(2)\n"
        "    assert len(times) == 1\n"
    )
    master, slave = os.openpty()
    run = project.start(test=counts, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_terminal, patient=True)
    project.said()
    os.write(master, b"\x03")
    assert run.wait(LIMIT_S) == 128 + signal.SIGINT
    assert b"1 passed" in os.read(master, 1 << 16)
    os.close(master)
    os.close(slave)
