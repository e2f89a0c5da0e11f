"""DAGs that judge objectives."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_objectives_are_judged_as_often_as_they_need(read: Read) -> None:
    judge = dag(read(TWO), "objectives_shop")
    assert judge.task_ids == ["judge"]
    assert judge.schedule == judge.dagrun_timeout == timedelta(minutes=10)
    daily = dag(read(TWO.replace("rpo: 1h", "rpo: 30h")), "objectives_shop")
    assert daily.schedule == timedelta(hours=3)
    assert daily.dagrun_timeout == timedelta(minutes=10)


def test_only_an_archive_with_objectives_is_judged(read: Read) -> None:
    assert [name for name in read(TWO).dags if name.startswith("objectives_")] == ["objectives_shop"]
