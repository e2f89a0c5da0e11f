"""DAGs of vacuums."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_each_replica_is_vacuumed_by_a_task_of_its_own(read: Read) -> None:
    bag = read(TWO)
    assert dag(bag, "vacuum_big").task_ids == ["vacuum"]
    tasks: Any = dag(bag, "vacuum_twice").tasks
    assert {task.task_id: task.replica for task in tasks} == {
        "vacuum_far": "far",
        "vacuum_near": "near",
    }
