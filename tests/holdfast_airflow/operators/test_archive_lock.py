"""A lock over the tasks of a block."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Context, task
from airflow.serialization.serialized_objects import DagSerialization

from holdfast_airflow.acquisition import HeldLock
from holdfast_airflow.operators import archive_lock


def test_tasks_of_a_block_run_between_taking_and_giving_back() -> None:
    with DAG("load") as dag:
        before = EmptyOperator(task_id="before")
        with archive_lock("load", archive="shop", resource="report", mode="read", lock_wait="0s") as lock:
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


def test_a_lock_is_kept_and_given_back_before_any_other_task_gets_a_slot() -> None:
    defaults = {"priority_weight": 7, "weight_rule": "upstream"}
    with DAG("load", default_args=defaults) as dag, archive_lock(archive="shop", resource="report"):
        EmptyOperator(task_id="first") >> EmptyOperator(task_id="second")
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    weights = {
        each.task_id: each.weight_rule.get_weight(cast("Any", SimpleNamespace(task=each))) for each in stored.tasks
    }
    assert weights["keep_lock"] == weights["release_lock"] == 2**31 - 1
    # The work before it is lifted by none of that.
    assert (weights["acquire_lock"], weights["first"], weights["second"]) == (7, 14, 21)


def own_hook(context: Context) -> None:
    """Do nothing before a task."""


@task(pre_execute=own_hook)
def work(number: int) -> None:
    """Do nothing."""


def test_mapped_tasks_of_a_block_run_between_taking_and_giving_back_too() -> None:
    with DAG("load") as dag, archive_lock(archive="shop", resource="report") as lock:
        alone, behind = work.expand(number=[1, 2]), work.override(task_id="behind").expand(number=[1, 2])
        lock >> EmptyOperator(task_id="first") >> behind
        assert alone
    assert dag.get_task("work").upstream_task_ids == {"acquire_lock"}
    assert dag.get_task("behind").upstream_task_ids == {"acquire_lock", "first"}
    assert {"work", "behind"} < dag.get_task("release_lock").upstream_task_ids


def test_tasks_of_a_block_look_first_whether_their_lock_is_held() -> None:
    with DAG("load") as dag:
        with archive_lock(archive="shop", resource="report", max_idle="20 min"):
            work(1)
            work.override(task_id="mapped").expand(number=[1, 2])
            EmptyOperator(task_id="clean").as_teardown()
        EmptyOperator(task_id="outside")
    tasks: dict[str, Any] = {each.task_id: each for each in dag.tasks}
    for hook in (tasks["work"]._pre_execute_hook, tasks["mapped"].partial_kwargs["pre_execute"]):
        assert isinstance(hook, HeldLock)
        assert (hook.acquire, hook.then) == ("acquire_lock", own_hook)
    for other in ("clean", "outside", "keep_lock", "release_lock", "acquire_lock"):
        assert tasks[other]._pre_execute_hook is None
    assert tasks["keep_lock"].max_idle == timedelta(minutes=20)
