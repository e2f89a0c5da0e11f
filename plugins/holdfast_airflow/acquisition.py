"""Locks that Airflow tasks acquire in an archive.

A trigger takes over the wait for a lock, and later tasks find the lock again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.common.errors import UsageError
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.owners import owner_of
from holdfast_airflow.waiting import deferred_until_free

if TYPE_CHECKING:
    from datetime import datetime

    from airflow.sdk import BaseOperator, Context

    from locking import Lease

Mode = Literal["read", "write"]

_MODES = {"read": "R", "write": "W"}


def check_mode(mode: str) -> None:
    """Refuse a mode that no lock has.

    :raises UsageError: it is neither `read` nor `write`.
    """
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

    :param deadline: until when to wait for it.
    :param scope: a `task`'s lock is renewed until it is released; of a `run`'s, somebody else sees to that.
    :param lease_s: seconds that it lives without being renewed; None for what locks have by default.
    :raises TaskDeferred: another one has it; the operator goes on in `execute_when_free`.
    :raises LockWaitExpired: there is no time left to wait.
    """
    from holdfast.storage import open_store
    from locking import LockBusy, RWLock

    url = find_archive_or_connection(archive).place()
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


def acquired_locks(context: Context, operator: BaseOperator, acquire: str) -> list[dict[str, Any]]:
    """Return the locks that an :class:`AcquireLock` has acquired, each with its `url`, `handle` and `max_hold_s`.

    In a mapped task group, each instance of a task has the lock of its own instance of the group, and no other one's.
    Behind an AcquireLock that is mapped itself, or in a group that the operator is not in, it has all of them.

    :param operator: the one that asks.
    :param acquire: the task id of the AcquireLock.
    """
    task = context["ti"]
    group = operator.get_closest_mapped_task_group()
    if group is not None and _is_within(operator, acquire, group):
        found = task.xcom_pull(task_ids=acquire, map_indexes=task.map_index)
    else:
        found = task.xcom_pull(task_ids=acquire)
    return [found] if isinstance(found, dict) else [each for each in found or () if each]


def _is_within(operator: BaseOperator, acquire: str, group: Any) -> bool:
    return operator.dag.get_task(acquire).get_closest_mapped_task_group() is group
