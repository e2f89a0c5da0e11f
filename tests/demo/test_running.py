"""What a demo left running is ended later, and nobody else who has its process id by now."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from demo import running
from demo.airflow import AirflowStandalone
from holdfast.operations.job_process import process_start
from holdfast.postgresql.connection.server import PostgresServer


@dataclass
class Left:
    """As much of Airflow and of a server as is left running."""

    pid: int | None
    folder: Path | None = None
    is_let_go: bool = False

    def detach(self) -> None:
        self.is_let_go = True


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield started
    for process in started:
        process.kill()
        process.wait()


def leave(folder: Path, airflow: Left, server: Left) -> None:
    running.leave(folder, cast("AirflowStandalone", airflow), cast("PostgresServer", server))


def test_what_was_left_is_ended_and_its_folder_removed(tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "PG_VERSION").touch()
    airflow, server = Left(sleepers[0].pid), Left(sleepers[1].pid, data)

    leave(tmp_path, airflow, server)
    assert airflow.is_let_go
    assert [process.poll() for process in sleepers] == [None, None]
    assert data.exists()

    running.stop(tmp_path)
    # PostgreSQL shuts down fast at SIGINT; at SIGTERM it would wait for its clients.
    assert [process.poll() for process in sleepers] == [-signal.SIGTERM, -signal.SIGINT]
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_has_the_number_of_one_left_is_not_ended(
    tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    leave(tmp_path, Left(sleepers[0].pid), Left(None))
    (written,) = tmp_path.iterdir()
    left = json.loads(written.read_text())
    assert left["processes"][0][:2] == [sleepers[0].pid, process_start(sleepers[0].pid)]
    left["processes"][0][1] = "1"
    written.write_text(json.dumps(left))

    running.stop(tmp_path)
    # Were it ended already, that signal would be the one it ends by, whether or not it has ended by now.
    sleepers[0].kill()
    assert sleepers[0].wait() == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_what_has_ended_by_itself_is_no_trouble(tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]) -> None:
    leave(tmp_path, Left(sleepers[0].pid), Left(sleepers[1].pid, tmp_path / "gone"))
    for process in sleepers:
        process.kill()
        process.wait()

    running.stop(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_left_is_nothing_to_end(tmp_path: Path) -> None:
    running.stop(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_processes_that_never_started_are_not_written_down(tmp_path: Path) -> None:
    leave(tmp_path, Left(None), Left(None))

    (written,) = tmp_path.iterdir()
    assert json.loads(written.read_text()) == {"processes": [], "folders": []}
