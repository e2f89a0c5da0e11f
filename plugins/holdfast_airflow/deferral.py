"""Deferred wait for a lock, with a deadline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import TaskDeferred

from holdfast.common.errors import BusyError
from holdfast_airflow.exceptions import JobFailed, LockWaitExpired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import BaseOperator

    from holdfast_airflow.triggers.lock import LockFreeTrigger

RESUME = "execute_when_free"
"""The method a deferred operator goes on with: `(context, event, deadline)`."""

_MARGIN = timedelta(minutes=2)


def deadline_in(wait: timedelta) -> datetime:
    """Return the end of a wait in wall-clock time, which holds in other processes, too."""
    return datetime.now(UTC) + wait


def deferred_until_free(
    operator: BaseOperator, trigger: LockFreeTrigger, *, busy: str, deadline: datetime
) -> TaskDeferred:
    """Return the exception that defers the wait for a lock, until `execute_when_free`.

    :param busy: the holders in words.
    :raises LockWaitExpired: there is no time left to wait.
    """
    remaining = deadline - datetime.now(UTC)
    if remaining <= timedelta(0):
        raise LockWaitExpired(busy, BusyError.exit_code)
    operator.log.info("waiting until %s for: %s", deadline.isoformat(timespec="seconds"), busy)
    return TaskDeferred(
        trigger=trigger,
        method_name=RESUME,
        kwargs={"deadline": deadline.isoformat()},
        # The trigger itself ends the wait, and says who was in the way; Airflow's own time-out does not.
        timeout=remaining + _MARGIN,
    )


def check_event(event: Mapping[str, Any] | None, deadline: str) -> datetime:
    """Return the deadline if a trigger says that the lock is free.

    :raises LockWaitExpired: it was not free in time.
    :raises JobFailed: the trigger could not find out.
    """
    answer = event or {}
    if answer.get("state") == "expired":
        raise LockWaitExpired(str(answer["message"]), BusyError.exit_code)
    if answer.get("state") != "free":
        raise JobFailed(str(answer.get("message", "the wait for a lock ended without an answer")))
    return datetime.fromisoformat(deadline)
