"""AcquireLock and ReleaseLock: a lock of the run, over the tasks between them."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferred

import locking
from holdfast.errors import UsageError
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused, LockWaitExpired
from holdfast_airflow.operators import AcquireLock, ReleaseLock
from holdfast_airflow.triggers.lock import ResourceFreeTrigger
from locking import RWLock


def run(operator: BaseOperator, context: dict[str, Any]) -> Any:
    return inspect.unwrap(type(operator).execute)(operator, context)


def acquire(**more: Any) -> AcquireLock:
    return AcquireLock(task_id="lock", archive="shop", resource="report", **more)


def release(context: dict[str, Any], handle: Any) -> None:
    """Run ReleaseLock in a context where AcquireLock has returned this."""
    pulled: list[str] = []

    def pull(*, task_ids: str) -> Any:
        pulled.append(task_ids)
        return json.loads(json.dumps(handle))

    task = SimpleNamespace(**vars(context["ti"]), xcom_pull=pull)
    run(ReleaseLock(task_id="unlock", acquire="lock"), {"ti": task})
    assert pulled == ["lock"]


def test_lock_outlives_its_task_and_belongs_to_the_run(store: ObjectStore, context: dict[str, Any]) -> None:
    run(acquire(purpose="monthly report", max_hold=timedelta(hours=2)), context)
    (info,) = locking.inspect(store)
    assert (info.resource, info.mode, info.state, info.purpose) == ("report", "W", "held", "monthly report")
    assert info.owner is not None
    assert (info.owner.scope, info.owner.dag_id, info.owner.run_id) == ("run", "nightly", "run 1")
    assert info.expires_in_s is not None
    assert 7200 < info.expires_in_s < 7400


def test_release_gives_back_the_lock_of_the_run(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = run(acquire(), context)
    release(context, handle)
    assert [info for info in locking.inspect(store) if info.state == "held"] == []
    with RWLock(store, "report").write(wait=0):
        pass


def test_lock_is_given_back_when_its_task_is_killed_before_it_is_done(
    store: ObjectStore, context: dict[str, Any]
) -> None:
    operator = acquire()
    operator.on_kill()
    run(operator, context)
    operator.on_kill()
    with RWLock(store, "report").write(wait=0):
        pass


def test_handle_is_plain_json_without_a_secret(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = run(acquire(), context)
    assert set(handle) == {"url", "handle"}
    assert set(handle["handle"]) == {"root", "resource", "mode", "txn", "lease_s", "grace_s"}


def test_readers_share_the_lock(store: ObjectStore, context: dict[str, Any]) -> None:
    run(acquire(mode="read"), context)
    run(acquire(mode="read"), context)
    assert sorted(info.mode for info in locking.inspect(store)) == ["R", "R"]


def test_busy_lock_defers(store: ObjectStore, context: dict[str, Any]) -> None:
    with RWLock(store, "report").read(purpose="somebody reads"), pytest.raises(TaskDeferred) as caught:
        run(acquire(wait=timedelta(minutes=1)), context)
    trigger = caught.value.trigger
    assert isinstance(trigger, ResourceFreeTrigger)
    assert (trigger.resource, trigger.mode) == ("report", "W")


def test_lock_is_taken_when_the_trigger_says_it_is_free(store: ObjectStore, context: dict[str, Any]) -> None:
    deadline = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    handle = acquire().execute_when_free(context, {"state": "free"}, deadline)  # type: ignore[arg-type]
    assert handle["handle"]["resource"] == "report"


def test_lock_that_stays_busy_fails_with_the_holders_name(store: ObjectStore, context: dict[str, Any]) -> None:
    with (
        RWLock(store, "report").write(purpose="the other one"),
        pytest.raises(LockWaitExpired, match="the other one"),
    ):
        run(acquire(wait=timedelta(0)), context)


def test_trigger_that_could_not_look_fails_the_task(context: dict[str, Any]) -> None:
    event = {"state": "failed", "message": "403: check the keys"}
    with pytest.raises(JobFailed, match="403: check the keys"):
        acquire().execute_when_free(context, event, datetime.now(UTC).isoformat())  # type: ignore[arg-type]


def test_nothing_is_released_where_nothing_was_taken(store: ObjectStore, context: dict[str, Any]) -> None:
    release(context, None)
    assert locking.inspect(store) == []


def test_releasing_twice_is_harmless(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = run(acquire(), context)
    release(context, handle)
    release(context, handle)


def test_name_that_cannot_be_locked_is_refused(store: ObjectStore, context: dict[str, Any]) -> None:
    with pytest.raises(JobRefused):
        run(AcquireLock(task_id="lock", archive="shop", resource="../x"), context)


def test_mode_is_read_or_write() -> None:
    with pytest.raises(UsageError, match="a lock's mode is 'read' or 'write', not 'both'"):
        acquire(mode="both")
