"""Which lock of a run a later task finds, and that none begins where it is lost."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, task_group

from holdfast.storage import ObjectStore
from holdfast.storage.folder import FolderStore
from holdfast_airflow.acquisition import HeldLock, acquired_locks, check_first
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import AcquireLock, ReleaseLock, archive_lock
from locking import end
from locking.store import StoreUnavailable
from tests.support.airflow.operators import acquire, execute


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


@pytest.fixture
def task_context(store: ObjectStore, context: dict[str, Any]) -> dict[str, Any]:
    """The context of a task under a lock that was just taken."""
    taken = execute(acquire(lease=timedelta(minutes=5)), context)
    with DAG("nightly"):
        task = EmptyOperator(task_id="work")
    instance = SimpleNamespace(map_index=-1, xcom_pull=lambda task_ids: taken)
    return {**context, "task": task, "ti": instance, "txn": taken["handle"]["txn"]}


def test_a_task_begins_under_its_lock(task_context: dict[str, Any]) -> None:
    called: list[Any] = []
    HeldLock("lock", called.append)(task_context)  # type: ignore[arg-type]
    assert called == [task_context]


def test_a_task_does_not_begin_where_its_lock_was_ended(store: ObjectStore, task_context: dict[str, Any]) -> None:
    end(store, "report", task_context["txn"], reason="a person did it")
    called: list[Any] = []
    with pytest.raises(
        JobRefused, match=r"Another client ended the lock of report .* So this task was not begun. Clear it"
    ):
        HeldLock("lock", called.append)(task_context)  # type: ignore[arg-type]
    assert called == []


def test_where_the_store_does_not_answer_the_task_may_be_tried_again(
    task_context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: FolderStore, prefix: str, *, start_after: str = "", most: int | None = None) -> None:
        raise StoreUnavailable("later")

    monkeypatch.setattr(FolderStore, "list", fail)
    with pytest.raises(JobFailed, match="cannot be seen: later") as caught:
        HeldLock("lock")(task_context)  # type: ignore[arg-type]
    assert not isinstance(caught.value, JobRefused)


def test_a_task_that_may_run_whatever_became_of_the_lock_is_left_as_it_is() -> None:
    with DAG("nightly"):
        task = EmptyOperator(task_id="clean")
        task.is_teardown = True
    check_first(task, "lock")
    assert task._pre_execute_hook is None
