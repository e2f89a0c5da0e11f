"""DAGs that end abandoned locks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_reaper_comes_by_every_ten_minutes_and_never_catches_up(read: Read) -> None:
    reaper = dag(read(TWO), "lock_reaper_kept")
    assert reaper.task_ids == ["reap"]
    assert reaper.schedule == reaper.dagrun_timeout == timedelta(minutes=10)
    assert not reaper.catchup


def test_reapers_of_many_archives_come_by_less_often(read: Read) -> None:
    many = "archives: {" + ", ".join(f"a{number}: {{url: /srv/a{number}}}" for number in range(30)) + "}"
    reaper: Any = dag(read(many), "lock_reaper_a7")
    assert (reaper.schedule, reaper.dagrun_timeout) == (timedelta(hours=1), timedelta(minutes=10))


def test_each_replica_has_locks_of_its_own(read: Read) -> None:
    tasks: Any = dag(read(TWO), "lock_reaper_twice").tasks
    assert {task.task_id: task.replica for task in tasks} == {
        "reap_far": "far",
        "reap_near": "near",
    }
