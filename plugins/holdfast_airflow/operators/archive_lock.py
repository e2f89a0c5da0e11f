"""Tasks that run under a lock, in one `with` block."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.mappedoperator import MappedOperator

from holdfast_airflow.acquisition import check_first
from holdfast_airflow.operators.acquire_lock import AcquireLockOperator
from holdfast_airflow.operators.keep_lock import MAX_IDLE, KeepLockOperator
from holdfast_airflow.operators.release_lock import ReleaseLockOperator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast_airflow.arguments import Span

LEASE = timedelta(minutes=10)
"""How long a lock outlives its run where it is not given back; the time a worker may take to begin to renew it."""


@contextmanager
def archive_lock(
    name: str = "lock", *, lease: Span = LEASE, max_idle: Span = MAX_IDLE, **acquire: Any
) -> Iterator[AcquireLockOperator]:
    """Run the tasks of the block under a lock of an archive.

    The lock is renewed until the last of them has ended.

        with archive_lock(archive="shop", resource="warehouse-load"):
            extract() >> load()

    Makes three tasks: `acquire_<name>` (a setup), `keep_<name>` and `release_<name>` (teardowns). Clearing a task of
    the block takes a new lock. Each task of the block, but its setups and teardowns, looks first whether the lock is
    still held, which is one listing; where it is not, the task fails before it begins.

    :param name: the end of the tasks' ids.
    :param lease: how long the lock stays when its run was ended without giving it back.
    :param max_idle: how long nothing of the run may be at work, as :class:`KeepLockOperator` takes it; where the DAG is
        paused then, the lock ends with its lease.
    :param acquire: what else :class:`AcquireLockOperator` takes: `archive`, `resource`, `mode`, `purpose`, `max_hold`,
        `lock_wait`.
    """
    take = AcquireLockOperator(task_id=f"acquire_{name}", lease=lease, **acquire)
    keep = KeepLockOperator(task_id=f"keep_{name}", acquire=take.task_id, max_idle=max_idle)
    keep.as_teardown(setups=take, on_failure_fail_dagrun=True)
    release = ReleaseLockOperator(task_id=f"release_{name}", acquire=take.task_id)
    outside = set(take.dag.task_ids)
    with release.as_teardown(setups=take):
        yield take
    for task in take.dag.tasks:
        if task.task_id not in outside:
            _put_between(take, task, release)
            check_first(task, take.task_id)


def _put_between(take: AcquireLockOperator, task: Any, release: ReleaseLockOperator) -> None:
    """Have a mapped task of the block run between taking and releasing: Airflow 3.3 sees to the others only."""
    if isinstance(task, MappedOperator):
        if take.task_id not in task.upstream_task_ids:
            take >> task
        if release.task_id not in task.downstream_task_ids:
            task >> release
