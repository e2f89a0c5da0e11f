"""DAGs of compactions."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_airflow.assets import record_of
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_a_compaction_updates_the_archives_record_through_the_first_replica(read: Read) -> None:
    for name in ("big", "twice"):
        task: Any
        [task] = dag(read(TWO), f"compaction_{name}").tasks
        assert (task.task_id, task.replica, task.outlets) == ("compact", None, [record_of(name)])
