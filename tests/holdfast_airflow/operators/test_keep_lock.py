"""The task that keeps a run's lock, by a trigger, until it is given back."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.operators import KeepLock
from holdfast_airflow.triggers.keep import KeepLockTrigger
from tests.support.airflow.operators import acquire, execute


def keep(context: dict[str, Any], taken: Any) -> KeepLockTrigger:
    """Run KeepLock in a context where AcquireLock has returned this."""
    task = SimpleNamespace(xcom_pull=lambda task_ids: json.loads(json.dumps(taken)) if task_ids == "lock" else None)
    with pytest.raises(TaskDeferred) as caught:
        execute(KeepLock(task_id="keep", acquire="lock"), {**context, "ti": task})
    assert caught.value.method_name == "execute_ended"
    assert isinstance(caught.value.trigger, KeepLockTrigger)
    return caught.value.trigger


def test_lock_is_kept_by_a_trigger(store: ObjectStore, context: dict[str, Any]) -> None:
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    trigger = keep(context, taken)
    assert (trigger.url, trigger.max_hold_s) == (store.url, 3600)
    assert json.loads(trigger.handle) == taken["handle"]


def test_there_is_nothing_to_keep_where_nothing_was_taken(context: dict[str, Any]) -> None:
    with pytest.raises(JobFailed, match="lock has taken no lock"):
        keep(context, None)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"state": "lost", "message": "Somebody ended the lock"}, "Somebody ended the lock"),
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
