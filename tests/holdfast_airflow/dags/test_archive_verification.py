"""DAGs of verifications."""

from __future__ import annotations

import pytest

from holdfast_airflow.assets import record_of, verifications_of
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_each_place_is_verified_as_deep_as_archives_yaml_says(read: Read) -> None:
    bag = read(TWO)
    assert dag(bag, "archive_verification_shop").task_ids == ["verify"]
    for name, ends in (("big", [""]), ("twice", ["_far", "_near"])):
        tasks = dag(bag, f"archive_verification_{name}").tasks
        assert sorted(task.task_id for task in tasks) == [f"verify{end}" for end in ends]
        assert all(task.outlets == [verifications_of(name), record_of(name)] for task in tasks)
    assert "all within 10d" in str(dag(bag, "archive_verification_big").doc_md)
