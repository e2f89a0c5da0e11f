"""The end of an Airflow: nothing of it stays, and no file has a password. It is that of this folder's tests."""

from __future__ import annotations

import time
from datetime import timedelta

import psutil
import pytest

from bench.support.versitygw import SECRET_KEY
from demo.supervisor import descendants
from locking import RWLock
from tests.support.airflow.stage import Stage
from tests.support.jobs.command import all_gone
from tests.support.jobs.leftovers import files_with, processes_of

pytestmark = [pytest.mark.service, pytest.mark.together]


def test_stop_leaves_no_process_even_with_a_task_running_and_no_file_with_a_password(stage: Stage) -> None:
    airflow = stage.airflow
    with RWLock(stage.locked, "report").write():
        airflow.api.trigger("report")
        supervisor = airflow.pid
        assert supervisor is not None
        below = tuple(psutil.Process(pid) for pid in descendants(supervisor))
        assert len(below) > 5
        began = time.monotonic()
        airflow.stop()
    assert timedelta(seconds=time.monotonic() - began) < timedelta(seconds=30)
    assert all_gone(below)
    assert not psutil.pid_exists(supervisor)
    assert airflow.pid is None
    # Neither the demo's archive nor any log, XCom or rendered field of Airflow's database has it.
    assert files_with(SECRET_KEY, stage.cluster.folder) + files_with(SECRET_KEY, airflow.home) == []
    server = stage.story.server
    stage.stack.close()
    assert processes_of(stage.folder) == []
    assert files_with(str(server.password), stage.folder) == []
