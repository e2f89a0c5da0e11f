"""Take a lock of an archive for a task, or hand the wait for it to a trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.archives_yaml import find_archive
from holdfast.errors import UsageError
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


def take_or_defer(
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
    """Take a lock, and return where it is and its lease.

    :param deadline: until when to wait for it.
    :param scope: a `task`'s lock is renewed until it is released; of a `run`'s, somebody else sees to that.
    :param lease_s: seconds that it lives without being renewed; None for what locks have by default.
    :raises TaskDeferred: another one has it; the operator goes on in `execute_when_free`.
    :raises LockWaitExpired: there is no time left to wait.
    """
    from holdfast.storage import open_store
    from locking import LockBusy, RWLock

    url = find_archive(archive).place()
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
