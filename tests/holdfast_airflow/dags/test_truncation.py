"""DAGs of truncations, each with the vacuum that follows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_truncation_is_followed_by_a_vacuum_and_a_dry_run_is_one_of_both(read: Read) -> None:
    truncation = dag(read(TWO), "truncation_big")
    assert truncation.task_dict["truncate"].downstream_task_ids == {"vacuum"}
    assert truncation.params["dry_run"] is False
    plans: Any = [truncation.get_task(name) for name in ("truncate", "vacuum")]
    assert {task.only_plan._name for task in plans} == {"dry_run"}


def test_replicas_are_compacted_and_truncated_through_the_first_and_each_is_vacuumed(read: Read) -> None:
    bag = read(TWO)
    assert dag(bag, "compaction_twice").task_ids == ["compact"]
    vacuums = {"vacuum_near", "vacuum_far"}
    assert set(dag(bag, "vacuum_twice").task_ids) == vacuums
    truncation = dag(bag, "truncation_twice")
    assert truncation.task_dict["truncate"].downstream_task_ids == vacuums
    through: Any = {task.task_id: task for task in truncation.tasks}
    assert {name: task.replica for name, task in through.items()} == {
        "truncate": None,
        "vacuum_near": "near",
        "vacuum_far": "far",
    }
