"""Which lock of a run a later task finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, task_group

from holdfast_airflow.acquisition import acquired_locks
from holdfast_airflow.operators import AcquireLock, ReleaseLock, archive_lock


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
