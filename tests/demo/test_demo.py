"""The demo on small data, start to end, as a user sees it."""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from demo.__main__ import ROOT, tell
from demo.screen import Screen
from holdfast.archive import Archive
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import open_store
from tests.support.jobs.leftovers import check_demo_archive, files_with, processes_of

pytestmark = pytest.mark.e2e


@pytest.mark.exhaustive
def test_everything_holds_and_nothing_is_left_running_or_told(tmp_path: Path) -> None:
    """In `make test`, tests/in_airflow/test_demo.py does so in its Airflow, which is dear to start."""
    folder = tmp_path / "demo"
    words = io.StringIO()
    server = PostgresServer()
    held = tell(Screen(Console(file=words, width=200)), server, folder, 0.05)
    said = words.getvalue()
    assert held, said
    assert "Everything held" in said
    assert "reading tables" in said
    assert processes_of(folder) == []
    assert server.pid is None

    check_demo_archive(folder / "archive")
    # Neither the archive nor any log, XCom or rendered field of Airflow's database tells the password.
    assert files_with(server.password, folder) == []


@pytest.mark.parametrize("at", ["Airflow is starting", pytest.param("starting ·", marks=pytest.mark.exhaustive)])
def test_ctrl_c_stops_everything_that_was_started(tmp_path: Path, at: str) -> None:
    """At the second moment, Spark works for a task of Airflow's: tests of tasks that are killed have that, too."""
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "demo", "--folder", str(folder), "--scale", "0.02"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if at in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 130
    assert "everything that was started has ended" in rest
    assert processes_of(folder) == []
    if at != "Airflow is starting":
        assert Archive.open(open_store(str(folder / "archive"))).state.sequence <= 1


def test_a_taken_port_is_said_in_one_sentence(tmp_path: Path) -> None:

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "demo", "--folder", str(tmp_path / "demo"), "--port", str(port)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"port {port} is taken" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
