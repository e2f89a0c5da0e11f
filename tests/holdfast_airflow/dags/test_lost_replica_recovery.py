"""DAGs that rebuild lost replicas."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_lost_replicas_are_recovered_every_quarter_of_an_hour_and_read_deep_unless_told(read: Read) -> None:
    bag = read(TWO)
    assert [name for name in bag.dags if name.startswith("lost_replica_recovery")] == ["lost_replica_recovery_twice"]
    found: Any = dag(bag, "lost_replica_recovery_twice")
    assert (found.schedule, found.task_ids, found.params["deep"]) == (timedelta(minutes=15), ["recover"], True)
