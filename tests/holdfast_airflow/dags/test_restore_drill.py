"""DAGs of restore drills."""

from __future__ import annotations

import pytest

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_drills_are_of_every_source_one_at_a_time(read: Read) -> None:
    bag = read(TWO)
    assert sorted(dag(bag, "restore_drill_big").task_ids) == ["drill_a", "drill_b"]
    assert dag(bag, "restore_drill_kept").task_ids == ["drill"]
    drills = dag(bag, "restore_drill_big")
    assert (str(drills.schedule), drills.catchup, drills.max_active_tasks) == ("@weekly", False, 1)
    # Each is a leaf, so that any that fails is a run that has failed.
    assert {task.task_id for task in drills.leaves} == set(drills.task_ids)
    assert drills.params.get_param("at").resolve() is None
