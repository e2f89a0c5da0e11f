"""The task that keeps a run's lock, by a trigger, until it is given back."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms, set_supervisor_comms

from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import KeepLock, archive_lock
from holdfast_airflow.triggers.keep import KeepLockTrigger
from locking import RWLock
from tests.support.airflow.operators import acquire, execute, release


def having_taken(context: dict[str, Any], taken: Any) -> dict[str, Any]:
    """Return a context where AcquireLock has returned this."""

    def pull(task_ids: str) -> Any:
        return json.loads(json.dumps(taken)) if task_ids == "lock" else None

    return {**context, "ti": SimpleNamespace(dag_id="nightly", run_id="run 1", xcom_pull=pull)}


def go_on(context: dict[str, Any], taken: Any) -> None:
    """Have KeepLock go on after nothing of the run was at work."""
    with DAG("nightly"):
        operator = KeepLock(task_id="keep", acquire="lock")
    operator.execute_ended(having_taken(context, taken), {"state": "idle"})  # type: ignore[arg-type]


def keep(context: dict[str, Any], taken: Any) -> KeepLockTrigger:
    """Run KeepLock in a context where AcquireLock has returned this."""
    with DAG("nightly"), pytest.raises(TaskDeferred) as caught:
        execute(KeepLock(task_id="keep", acquire="lock"), having_taken(context, taken))
    assert caught.value.method_name == "execute_ended"
    assert isinstance(caught.value.trigger, KeepLockTrigger)
    return caught.value.trigger


def test_lock_is_kept_by_a_trigger(store: ObjectStore, context: dict[str, Any]) -> None:
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    trigger = keep(context, taken)
    assert (trigger.url, trigger.max_hold_s) == (store.url, 3600)
    assert json.loads(trigger.handle) == taken["handle"]
    assert (trigger.dag_id, trigger.run_id, trigger.keepers) == ("nightly", "run 1", ["keep"])
    assert trigger.max_idle_s == 3600


def test_in_dag_test_nothing_waits_beside_the_work_and_the_lock_lives_for_its_max_hold(
    store: ObjectStore, context: dict[str, Any]
) -> None:
    comms = InProcessSupervisorComms(supervisor=SimpleNamespace())  # type: ignore[arg-type]
    with set_supervisor_comms(comms):
        taken = execute(acquire(lease=timedelta(minutes=5)), context)
        assert taken["handle"]["lease_s"] == 3600
        execute(KeepLock(task_id="keep", acquire="lock"), having_taken(context, taken))


def test_there_is_nothing_to_keep_where_nothing_was_taken(context: dict[str, Any]) -> None:
    with pytest.raises(JobFailed, match="lock has taken no lock"):
        keep(context, None)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"state": "lost", "message": "Another client ended the lock"}, "Another client ended the lock"),
        ({"state": "failed", "message": "403: check the keys"}, "403: check the keys"),
        ({"state": "too long"}, "has reached its max_hold"),
        (None, "without an answer"),
    ],
)
def test_lock_that_was_not_given_back_fails_the_task_that_keeps_it(
    context: dict[str, Any], event: dict[str, str] | None, said: str
) -> None:
    with pytest.raises(JobFailed, match=said):
        KeepLock(task_id="keep", acquire="lock").execute_ended(context, event)  # type: ignore[arg-type]


def test_lock_that_was_given_back_ends_well(context: dict[str, Any]) -> None:
    KeepLock(task_id="keep", acquire="lock").execute_ended(context, {"state": "released"})  # type: ignore[arg-type]


def test_one_task_keeps_one_lock(context: dict[str, Any]) -> None:
    with pytest.raises(JobFailed, match="lock has taken 2 locks, and one task keeps one: map a task group"):
        keep(context, [{"url": "a"}, {"url": "b"}])


def test_tasks_that_keep_locks_are_no_work(store: ObjectStore, context: dict[str, Any]) -> None:
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    with (
        DAG("nightly") as dag,
        archive_lock("outer", archive="shop", resource="a"),
        archive_lock("inner", archive="shop", resource="b"),
    ):
        EmptyOperator(task_id="work")
    operator: Any = dag.get_task("keep_outer")
    operator.acquire = "lock"
    with pytest.raises(TaskDeferred) as caught:
        execute(operator, having_taken(context, taken))
    assert caught.value.trigger.keepers == ["keep_outer", "keep_inner"]


def test_lock_of_an_idle_run_is_renewed_by_the_task_and_kept_on(store: ObjectStore, context: dict[str, Any]) -> None:
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    path = older(store, taken, seconds=200)
    with pytest.raises(TaskDeferred) as caught:
        go_on(context, taken)
    assert isinstance(caught.value.trigger, KeepLockTrigger)
    assert path.stat().st_ctime - path.stat().st_mtime < 100


def test_lock_that_ended_while_the_dag_was_paused_fails_the_task_with_the_reason(
    store: ObjectStore, context: dict[str, Any]
) -> None:
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    older(store, taken, seconds=400)
    with RWLock(store, "report").write(wait=0), pytest.raises(JobRefused) as caught:
        go_on(context, taken)
    assert "report" in str(caught.value)
    assert "for 60 min, and the scheduler did not start" in str(caught.value)
    assert "Clear the tasks that have still to be done" in str(caught.value)


def test_lock_that_was_given_back_while_the_task_waited_ends_well(store: ObjectStore, context: dict[str, Any]) -> None:
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    release(context, taken)
    go_on(context, taken)


def test_lock_of_an_idle_run_is_kept_on_to_its_max_hold_and_renewed_for_no_longer(
    store: ObjectStore, context: dict[str, Any]
) -> None:
    taken = execute(acquire(max_hold="5 min", lease="5 min"), context)
    path = older(store, taken, seconds=200)
    with pytest.raises(TaskDeferred):
        go_on(context, taken)
    assert path.stat().st_ctime - path.stat().st_mtime >= 200


def older(store: ObjectStore, taken: dict[str, Any], *, seconds: float) -> Path:
    """Make the lock's last renewal so much older; return its file."""
    path = Path(store.url) / f"locks/report/WRIT.{taken['handle']['txn']}"
    os.utime(path, (path.stat().st_mtime - seconds,) * 2)
    return path
