"""DAGs of migrations."""

from __future__ import annotations

import pytest

from holdfast.archive.format.versions import FORMAT
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_migration_is_by_hand_alone_and_to_the_newest_format_unless_told(read: Read) -> None:
    found = dag(read(TWO), "migration_big")
    assert found.schedule is None
    assert found.task_ids == ["migrate"]
    assert found.params["to"] == FORMAT


def test_replicas_are_migrated_by_no_dag(read: Read) -> None:
    assert "migration_twice" not in read(TWO).dags
