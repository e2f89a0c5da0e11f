"""A lock over the tasks of a block."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from holdfast_airflow.operators import archive_lock


def test_tasks_of_a_block_run_between_taking_and_giving_back() -> None:
    with DAG("load") as dag:
        before = EmptyOperator(task_id="before")
        with archive_lock("load", archive="shop", resource="report", mode="read", wait=timedelta(0)) as lock:
            first, second = EmptyOperator(task_id="first"), EmptyOperator(task_id="second")
            first >> second
        before >> lock >> EmptyOperator(task_id="after")
    assert (lock.task_id, lock.archive, lock.mode, lock.lease) == (
        "acquire_load",
        "shop",
        "read",
        timedelta(minutes=10),
    )
    ups = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    assert ups == {
        "before": set(),
        "acquire_load": {"before"},
        "keep_load": {"acquire_load"},
        "first": {"acquire_load"},
        "second": {"first"},
        "release_load": {"acquire_load", "second"},
        "after": {"acquire_load"},
    }
    assert [task.task_id for task in dag.tasks if task.is_setup] == ["acquire_load"]
    assert {task.task_id for task in dag.tasks if task.is_teardown} == {"keep_load", "release_load"}
    assert dag.get_task("keep_load").on_failure_fail_dagrun
