"""AcquireLock and ReleaseLock: a lock of the run, over the tasks between them."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, BaseOperator, TaskGroup, task_group
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import TaskDeferred

import locking
from holdfast.common.errors import UsageError
from holdfast.storage import ObjectStore
from holdfast_airflow.acquisition import acquired_locks
from holdfast_airflow.decorators import locked
from holdfast_airflow.exceptions import JobFailed, JobRefused, LockWaitExpired
from holdfast_airflow.operators import AcquireLock, KeepLock, ReleaseLock, archive_lock
from holdfast_airflow.triggers.keep import KeepLockTrigger
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
    assert set(handle) == {"url", "handle", "max_hold_s"}
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


@pytest.mark.parametrize(("lease", "lives"), [(None, 7200), (timedelta(minutes=5), 300), (timedelta(hours=3), 7200)])
def test_lock_lives_as_long_as_its_lease_and_no_longer_than_may_be(
    store: ObjectStore, context: dict[str, Any], lease: timedelta | None, lives: int
) -> None:
    taken = run(acquire(max_hold=timedelta(hours=2), lease=lease), context)
    assert (taken["handle"]["lease_s"], taken["max_hold_s"]) == (lives, 7200)


def keep(context: dict[str, Any], taken: Any) -> KeepLockTrigger:
    """Run KeepLock in a context where AcquireLock has returned this."""
    task = SimpleNamespace(xcom_pull=lambda task_ids: json.loads(json.dumps(taken)) if task_ids == "lock" else None)
    with pytest.raises(TaskDeferred) as caught:
        run(KeepLock(task_id="keep", acquire="lock"), {**context, "ti": task})
    assert caught.value.method_name == "execute_ended"
    assert isinstance(caught.value.trigger, KeepLockTrigger)
    return caught.value.trigger


def test_lock_is_kept_by_a_trigger(store: ObjectStore, context: dict[str, Any]) -> None:
    taken = run(acquire(lease=timedelta(minutes=5)), context)
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


def instance(task: Any, *, index: int, returned: Any) -> list[Any]:
    """Return the locks that a task's instance finds of an AcquireLock whose instances have returned this, by index."""

    def pull(*, task_ids: str, map_indexes: int | None = None) -> Any:
        assert task_ids == task.acquire
        found = list(returned.values()) if map_indexes is None else returned.get(map_indexes)
        return found[0] if map_indexes is None and list(returned) == [-1] else found

    return acquired_locks({"ti": SimpleNamespace(map_index=index, xcom_pull=pull)}, task, task.acquire)  # type: ignore[typeddict-item]


def test_in_a_mapped_group_each_has_the_lock_of_its_own_instance() -> None:
    with DAG("load") as dag:

        @task_group
        def load(resource: Any) -> None:
            with TaskGroup("inner"), archive_lock(archive="shop", resource=resource):
                EmptyOperator(task_id="work")

        load.expand(resource=["a", "b", "c"])
    keep, release = (dag.get_task(f"load.inner.{name}_lock") for name in ("keep", "release"))
    for task in (keep, release):
        assert instance(task, index=1, returned={0: {"of": 0}, 1: {"of": 1}}) == [{"of": 1}]
        # Its own took none: those of others are not its to release.
        assert instance(task, index=2, returned={0: {"of": 0}, 1: {"of": 1}}) == []


def test_behind_a_mapped_lock_there_are_all_of_them() -> None:
    with DAG("load"):
        AcquireLock.partial(task_id="lock", archive="shop").expand(resource=["a", "b"])
        unlock = ReleaseLock(task_id="unlock", acquire="lock")
    assert instance(unlock, index=-1, returned={0: {"of": 0}, 1: {"of": 1}}) == [{"of": 0}, {"of": 1}]


def test_in_a_mapped_group_a_lock_from_outside_is_the_one_that_all_have() -> None:
    with DAG("load") as dag:
        AcquireLock(task_id="lock", archive="shop", resource="a")

        @task_group
        def work(number: int) -> None:
            ReleaseLock(task_id="unlock", acquire="lock")

        work.expand(number=[1, 2])
    assert instance(dag.get_task("work.unlock"), index=1, returned={-1: {"of": -1}}) == [{"of": -1}]


def test_one_task_keeps_one_lock(context: dict[str, Any]) -> None:
    with pytest.raises(JobFailed, match="lock has taken 2 locks, and one task keeps one: map a task group"):
        keep(context, [{"url": "a"}, {"url": "b"}])


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
