"""Locks that tasks acquire: deferred while busy, looked up by later tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from airflow.sdk import BaseOperator

from holdfast.common.errors import UsageError
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.deferral import deferred_until_free
from holdfast_airflow.exceptions import JobFailed, JobRefused, in_airflow_terms
from holdfast_airflow.owners import owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from airflow.sdk import Context

    from locking import Lease

Mode = Literal["read", "write"]

FIRST_OF_ALL: Final = "holdfast_airflow.plugin.FirstOfAll"
"""As a `weight_rule`: a lock that waits for a slot is lost, or keeps others out after the work."""

_MODES = {"read": "R", "write": "W"}


def check_mode(mode: str) -> None:
    """Refuse a mode that is neither `read` nor `write`."""
    if mode not in _MODES:
        raise UsageError(f"a lock's mode is 'read' or 'write', not {mode!r}")


def acquire_or_defer(
    operator: BaseOperator,
    context: Context,
    deadline: datetime,
    *,
    archive: str,
    resource: str,
    mode: Mode,
    purpose: str,
    scope: Literal["task", "run"],
    lease_s: float | None = None,
) -> tuple[str, Lease]:
    """Acquire a lock, and return the archive's URL and the lease.

    :param scope: a `task`'s lock is renewed until it is released; a `run`'s by another task.
    :param lease_s: seconds that it lives without being renewed; None for what locks have by default.
    :raises TaskDeferred: another one has it; the operator goes on in `execute_when_free`.
    :raises LockWaitExpired: there is no time left to wait.
    """
    from holdfast.storage import open_store
    from locking import LockBusy, RWLock

    url = find_archive_or_connection(archive).location()
    owner = owner_of(context, scope=scope)
    more: dict[str, Any] = {} if lease_s is None else {"lease": lease_s}
    lock = RWLock(open_store(url), resource, owner=owner, **more)
    take = lock.write if mode == "write" else lock.read
    try:
        return url, take(purpose=purpose or f"dag {owner.dag_id}", wait=0.0, renew=scope == "task")
    except LockBusy as error:
        from holdfast_airflow.triggers.lock import ResourceFreeTrigger

        trigger = ResourceFreeTrigger(url=url, deadline=deadline.isoformat(), resource=resource, mode=_MODES[mode])
        raise deferred_until_free(operator, trigger, busy=str(error), deadline=deadline) from None


def is_test() -> bool:
    """Return whether this is `dag.test()`, which runs one task after the other."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), InProcessSupervisorComms)


def acquired_locks(context: Context, operator: BaseOperator, acquire: str) -> list[dict[str, Any]]:
    """Return the locks of an :class:`AcquireLockOperator`, each with its `url`, `handle` and `max_hold_s`.

    In a mapped task group, each instance of a task has the lock of its own instance of the group, and no other one's.
    Behind an AcquireLockOperator that is mapped itself, or in a group that the operator is not in, it has all of them.
    """
    task = context["ti"]
    group = operator.get_closest_mapped_task_group()
    if group is not None and _is_within(operator, acquire, group):
        pulled = task.xcom_pull(task_ids=acquire, map_indexes=task.map_index)
    else:
        pulled = task.xcom_pull(task_ids=acquire)
    return [pulled] if isinstance(pulled, dict) else [lock for lock in pulled or () if lock]


def _is_within(operator: BaseOperator, acquire: str, group: Any) -> bool:
    return operator.dag.get_task(acquire).get_closest_mapped_task_group() is group


def check_first(task: Any, acquire: str) -> None:
    """Have a task check its lock before it begins.

    Not setups and teardowns: they must run even where the lock is lost.
    """
    if task.is_setup or task.is_teardown:
        return
    if isinstance(task, BaseOperator):
        task._pre_execute_hook = HeldLock(acquire, task._pre_execute_hook)
    else:
        task.partial_kwargs["pre_execute"] = HeldLock(acquire, task.partial_kwargs.get("pre_execute"))


class HeldLock:
    """Hook that fails a task whose lock is lost, before the task's own hook."""

    def __init__(self, acquire: str, then: Callable[[Context], None] | None = None) -> None:
        self.acquire = acquire
        self.then = then

    def __call__(self, context: Context) -> None:
        for taken in acquired_locks(context, cast("BaseOperator", context["task"]), self.acquire):
            _must_be_held(taken)
        if self.then is not None:
            self.then(context)


def _must_be_held(taken: Mapping[str, Any]) -> None:
    from holdfast.storage import open_store
    from locking import LeaseHandle, LockLost, LockStateUnknown, attach

    with in_airflow_terms():
        handle = LeaseHandle.from_json(json.dumps(taken["handle"]))
        try:
            attach(open_store(taken["url"]), handle).check()
        except LockLost as error:
            raise JobRefused(f"{error} So this task was not begun. Clear it to run it under a new lock") from None
        except LockStateUnknown as error:
            raise JobFailed(f"{error} So this task was not begun.") from None  # nothing was done: it may be tried again
