"""A function as a task that runs under a lock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import TaskDeferred

import locking
from holdfast.storage import ObjectStore
from holdfast_airflow.decorators import locked
from holdfast_airflow.exceptions import JobFailed, LockWaitExpired
from locking import RWLock


def of_function(function: Any, **more: Any) -> Any:
    """Return the operator that a function with `@task.locked` becomes."""
    with DAG("alone") as dag:
        locked(archive="shop", resource="report", **more)(function)()
    return dag.get_task(function.__name__)


def test_a_function_runs_under_its_lock(store: ObjectStore, context: dict[str, Any]) -> None:
    def work() -> list[Any]:
        (info,) = locking.inspect(store)
        assert info.owner is not None
        return [info.resource, info.mode, info.state, info.owner.scope]

    assert execute_decorated(of_function(work, mode="read"), context) == ["report", "R", "held", "task"]
    assert locking.inspect(store) == []


def test_a_function_that_fails_gives_its_lock_back(store: ObjectStore, context: dict[str, Any]) -> None:
    def work() -> None:
        raise ValueError("asked to fail")

    with pytest.raises(ValueError, match="asked to fail"):
        execute_decorated(of_function(work), context)
    assert locking.inspect(store) == []


def test_a_function_waits_for_its_lock_without_a_worker(store: ObjectStore, context: dict[str, Any]) -> None:
    def work() -> str:
        return "done"

    operator = of_function(work)
    with RWLock(store, "report").write(purpose="the other one"):
        with pytest.raises(TaskDeferred) as caught:
            execute_decorated(operator, context)
        with pytest.raises(LockWaitExpired, match="the other one"):
            operator.execute_when_free(context, {"state": "free"}, datetime.now(UTC).isoformat())
    assert caught.value.method_name == "execute_when_free"
    assert operator.execute_when_free(context, {"state": "free"}, **caught.value.kwargs or {}) == "done"


def test_a_function_whose_lock_is_lost_fails(store: ObjectStore, context: dict[str, Any]) -> None:
    def work() -> None:
        (info,) = locking.inspect(store)
        locking.end(store, info.resource, info.txn, reason="somebody ended it")

    with pytest.raises(JobFailed, match="lock"):
        execute_decorated(of_function(work), context)


def execute_decorated(operator: Any, context: dict[str, Any]) -> Any:
    """Execute as the task runner does."""
    token = ExecutorSafeguard.tracker.set(operator)
    try:
        return operator.execute(context)
    finally:
        ExecutorSafeguard.tracker.reset(token)
