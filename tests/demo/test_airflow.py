"""The standalone Airflow of the demo: it says why it cannot start."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from demo.airflow import AirflowStandalone, AirflowStartError
from holdfast.common.errors import UsageError

pytestmark = pytest.mark.slow


def test_taken_port_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        airflow = AirflowStandalone(home=tmp_path, plugins=tmp_path, port=port)
        with pytest.raises(UsageError, match=f"port {port} is taken"):
            airflow.start()
    airflow.stop()


def test_airflow_that_ends_while_starting_says_why(tmp_path: Path) -> None:
    """It ends for the first thing it looks at: later ones end it in the same way, and take its CPU time."""
    airflow = AirflowStandalone(
        home=tmp_path,
        plugins=tmp_path,
        env={"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:///relative.db"},
    )
    with pytest.raises(AirflowStartError, match=r"ended while starting; its log ends with:\n(.|\n)*relative path"):
        airflow.__enter__()
    assert airflow.pid is None
    with closing(sqlite3.connect(tmp_path / "airflow.db")) as database:
        # A look into it waits for nobody who writes: on a slow disk, requests failed by that, and tasks with them.
        assert database.execute("pragma journal_mode").fetchone() == ("wal",)


START = """
import httpx
from airflow.sdk.api.client import Client

waits = []
Client.request.retry.sleep = waits.append
try:
    Client(base_url="http://127.0.0.1:9", token="").get("task")
except httpx.ConnectError:
    print(sum(waits))
"""


def test_a_task_is_started_though_the_api_server_listens_a_minute_late(tmp_path: Path) -> None:
    airflow = AirflowStandalone(home=tmp_path, plugins=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", START], env=airflow._environment(0), capture_output=True, text=True, check=True
    )
    assert float(done.stdout.split()[-1]) > 60
