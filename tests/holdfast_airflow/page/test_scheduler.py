"""What Airflow's own tables say of the runs and tasks that own locks."""

from __future__ import annotations

import pytest

from holdfast_airflow.page.scheduler import DatabaseScheduler
from tests.support.airflow.database import AirflowRows


@pytest.fixture
def scheduler(airflow: AirflowRows) -> DatabaseScheduler:
    airflow.dag("paused", paused=True)
    airflow.dag("nightly")
    airflow.run("nightly", "r1", "running")
    airflow.task("nightly", "r1", "save", "deferred", map_index=2)
    airflow.task("nightly", "r1", "waits", None)
    return DatabaseScheduler(airflow.session)


@pytest.mark.parametrize(
    ("dag", "run", "state"), [("nightly", "r1", "running"), ("nightly", "r2", None), ("x", "r1", None)]
)
def test_a_run_has_its_state_and_one_that_is_not_there_has_none(
    scheduler: DatabaseScheduler, dag: str, run: str, state: str | None
) -> None:
    assert scheduler.run_state(dag, run) == state


@pytest.mark.parametrize(
    ("task", "index", "state"), [("save", 2, "deferred"), ("save", -1, None), ("waits", -1, None), ("gone", 2, None)]
)
def test_a_task_is_known_by_its_place_in_its_run(
    scheduler: DatabaseScheduler, task: str, index: int, state: str | None
) -> None:
    assert scheduler.task_state("nightly", "r1", task, index) == state
    assert scheduler.task_state("nightly", "r2", task, index) is None


@pytest.mark.parametrize(("dag", "paused"), [("paused", True), ("nightly", False), ("gone", False)])
def test_only_a_dag_that_is_there_can_be_paused(scheduler: DatabaseScheduler, dag: str, paused: bool) -> None:
    assert scheduler.is_paused(dag) is paused
