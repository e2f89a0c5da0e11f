"""Renewal of a run's lock while the run is at work."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast.common.words import human_span
from holdfast_airflow.acquisition import FIRST_OF_ALL, acquired_locks, is_test
from holdfast_airflow.arguments import Span, check_spans, span
from holdfast_airflow.exceptions import JobFailed, JobRefused, in_airflow_terms
from holdfast_airflow.triggers.keep import KeepLockTrigger
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context


MAX_IDLE = timedelta(hours=1)
"""How long nothing of a run may be at work before its lock depends on whether the scheduler still starts its tasks."""


class KeepLockOperator(LogsLines, BaseOperator):
    """Operator that renews the lock of an :class:`AcquireLockOperator` until :class:`ReleaseLockOperator` releases it.

    Waits deferred, so it takes no worker slot; its trigger renews the lock up to its `max_hold`. When the run is
    ended, or the triggerer is, the lock is not renewed and it is free when its lease is over. Fails when the lock
    was lost or reached its `max_hold` while the run was at work.

    Where nothing of the run was at work for `max_idle`, the trigger hands the lock to this task, which renews it and
    defers again. It is the scheduler that starts the task: where the DAG is paused, or there is no scheduler, it does
    not begin, the lock is not renewed, and it is free when its lease is over. A DAG that is unpaused before that loses
    nothing; after it the task fails, and says why.

    Make it a teardown of the :class:`AcquireLockOperator` that fails the run, beside the work and not after it, as
    :func:`archive_lock` does: then it is run again where the lock is taken again.

    :param acquire: the task id of the :class:`AcquireLockOperator`, which has a `lease`. (templated)
    :param max_idle: how long nothing of the run may be at work: a timedelta, seconds, or words such as `90 min`. A task
        that runs, waits for a slot, is deferred, or is a sensor between two looks, is at work; one that waits for its
        next try is not.
    """

    template_fields = ("acquire",)

    def __init__(self, *, acquire: str, max_idle: Span = MAX_IDLE, **kwargs: Any) -> None:
        kwargs.setdefault("weight_rule", FIRST_OF_ALL)
        super().__init__(**kwargs)
        self.acquire = acquire
        check_spans(max_idle=max_idle)
        self.max_idle = span(max_idle)

    def execute(self, context: Context) -> None:
        """Hand the lock to the trigger. In `dag.test()`, where no task runs beside it, leave it alone."""
        if is_test():
            self.log.info("this is a test: the lock is not renewed, and lives for its max_hold")
            return
        self._hand_over(context, self._taken(context))

    def execute_ended(self, context: Context, event: Mapping[str, Any] | None) -> None:
        """Succeed if the lock was released. Go on where nothing of the run was at work."""
        answer = event or {}
        state = answer.get("state")
        if state == "idle":
            self._go_on(context)
        elif state == "too long":
            raise JobFailed(
                "the lock has reached its max_hold and is over: what is at work goes on without it, and a task that "
                "begins later fails at once. Give it a longer max_hold"
            )
        elif state != "released":
            raise JobFailed(str(answer.get("message", "the keeping of the lock ended without an answer")))
        self.log.info("the lock was given back")

    def _taken(self, context: Context) -> dict[str, Any]:
        every = acquired_locks(context, self, self.acquire)
        if not every:
            raise JobFailed(f"{self.acquire} has taken no lock, so there is none to keep")
        if len(every) > 1:
            raise JobFailed(
                f"{self.acquire} has taken {len(every)} locks, and one task keeps one: map a task group over "
                "archive_lock instead of the AcquireLockOperator alone"
            )
        return every[0]

    def _hand_over(self, context: Context, taken: Mapping[str, Any]) -> None:
        task = context["ti"]
        self.defer(
            trigger=KeepLockTrigger(
                url=taken["url"],
                handle=json.dumps(taken["handle"]),
                max_hold_s=taken["max_hold_s"],
                max_idle_s=self.max_idle.total_seconds(),
                dag_id=task.dag_id,
                run_id=task.run_id,
                keepers=self._keepers(),
            ),
            method_name="execute_ended",
        )

    def _keepers(self) -> list[str]:
        return [task.task_id for task in self.dag.tasks if isinstance(task, KeepLockOperator)]

    def _go_on(self, context: Context) -> None:
        from holdfast.storage import open_store
        from locking import LeaseHandle, LockLost, attach

        taken = self._taken(context)
        with in_airflow_terms():
            handle = LeaseHandle.from_json(json.dumps(taken["handle"]))
            lease = attach(open_store(taken["url"]), handle)
            try:
                lease.renew(at_most=taken["max_hold_s"])
            except LockLost as error:
                if lease.was_released():
                    return
                raise JobRefused(
                    f"{error} Nothing of this run was at work for {human_span(self.max_idle)}, and the scheduler did "
                    "not start the task that keeps the lock in time: its DAG was paused, or the scheduler was down. "
                    "Clear the tasks that have still to be done: they take a new lock"
                ) from None
        self.log.info("nothing of this run was at work for %s; the lock is still held", human_span(self.max_idle))
        self._hand_over(context, taken)
