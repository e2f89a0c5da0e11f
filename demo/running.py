"""What `make demo KEEP=1` leaves running, and how it is ended later."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.operations.job_process import process_start

if TYPE_CHECKING:
    from demo.airflow import AirflowStandalone
    from holdfast.postgresql.connection.server import PostgresServer

_FILE = "running.json"
_PATIENCE_S = 40.0


def leave(folder: Path, airflow: AirflowStandalone, server: PostgresServer) -> None:
    """Let go of both, and write down how to end them."""
    ends = [(airflow.pid, signal.SIGTERM), (server.pid, signal.SIGINT)]
    processes = [[pid, process_start(pid), int(number)] for pid, number in ends if pid is not None]
    folders = [str(server.folder)] if server.folder else []
    (folder / _FILE).write_text(json.dumps({"processes": processes, "folders": folders}))
    airflow.detach()


def stop(folder: Path) -> None:
    """End what an earlier demo in this folder left running, and wait until it is gone."""
    try:
        left = json.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        return
    for pid, start, number in left["processes"]:
        deadline = time.monotonic() + _PATIENCE_S
        if process_start(pid) == start:
            os.kill(pid, number)
        while process_start(pid) == start and time.monotonic() < deadline:
            time.sleep(0.1)
    for each in left["folders"]:
        shutil.rmtree(each, ignore_errors=True)
    (folder / _FILE).unlink()
