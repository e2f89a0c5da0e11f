"""DAGs that bring replicas to the head of their log."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_airflow.assets import backups_of
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_each_replica_follows_each_backup_and_every_five_minutes(read: Read) -> None:
    bag = read(TWO)
    assert [name for name in bag.dags if name.startswith("replica_sync")] == ["replica_sync_twice"]
    found: Any = dag(bag, "replica_sync_twice")
    assert {task.task_id: task.replica for task in found.tasks} == {"sync_far": "far", "sync_near": "near"}
    # None waits for another: one that fails keeps no other from following.
    assert all(not task.upstream_task_ids for task in found.tasks)
    assert [asset.uri for asset in found.timetable.asset_condition.objects] == [backups_of("twice").uri]
    assert found.params["spark"] is False
