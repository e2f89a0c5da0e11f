"""Renewal of a run's lock while the run is at work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast_airflow.acquisition import acquired_locks
from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.triggers.keep import KeepLockTrigger
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context


class KeepLock(LogsLines, BaseOperator):
    """Operator that renews the lock of an :class:`AcquireLock` until :class:`ReleaseLock` releases it.

    Waits deferred, so it takes no worker slot; its trigger renews the lock up to its `max_hold`. When the run is
    ended, or the triggerer is, nobody renews the lock and it is free when its lease is over. Fails when the lock
    was lost or reached its `max_hold` while the run was at work.

    Make it a teardown of the :class:`AcquireLock` that fails the run, beside the work and not after it, as
    :func:`archive_lock` does: then it is run again where the lock is taken again.

    :param acquire: the task id of the :class:`AcquireLock`, which has a `lease`. (templated)
    """

    template_fields: Sequence[str] = ("acquire",)

    def __init__(self, *, acquire: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.acquire = acquire

    def execute(self, context: Context) -> None:
        """Hand the lock to the trigger."""
        every = acquired_locks(context, self, self.acquire)
        if not every:
            raise JobFailed(f"{self.acquire} has taken no lock, so there is none to keep")
        if len(every) > 1:
            raise JobFailed(
                f"{self.acquire} has taken {len(every)} locks, and one task keeps one: map a task group over "
                "archive_lock instead of the AcquireLock alone"
            )
        (taken,) = every
        self.defer(
            trigger=KeepLockTrigger(
                url=taken["url"], handle=json.dumps(taken["handle"]), max_hold_s=taken["max_hold_s"]
            ),
            method_name="execute_ended",
        )

    def execute_ended(self, context: Context, event: Mapping[str, Any] | None) -> None:
        """Succeed if the lock was released.

        :raises JobFailed: it was lost, or held for too long.
        """
        found = event or {}
        state = found.get("state")
        if state == "too long":
            raise JobFailed(
                "the lock has reached its max_hold and is not renewed any more: the rest of the run works without it. "
                "Give it a longer max_hold"
            )
        if state != "released":
            raise JobFailed(str(found.get("message", "the keeping of the lock ended without an answer")))
        self.log.info("the lock was given back")
