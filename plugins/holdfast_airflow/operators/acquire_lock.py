"""A lock that outlives the task that acquired it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast_airflow.acquisition import Mode, acquire_or_defer, check_mode, is_test
from holdfast_airflow.arguments import Span, check_spans, span
from holdfast_airflow.deferral import check_event, deadline_in
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.links import ArchiveLink
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from locking import Lease


class AcquireLockOperator(LogsLines, BaseOperator):
    """Operator that acquires a lock for the rest of a run.

    Use it as `AcquireLockOperator >> work >> ReleaseLockOperator.as_teardown()`. The lock belongs to the run. It ends
    when :class:`ReleaseLockOperator` gives it back, at the latest `max_hold` after it was taken, also where the run
    fails or hangs: choose it longer than the work can take. Work that needs the lock has to end within it.

    With a `lease`, a :class:`KeepLockOperator` of the same run has to renew it; then it is free soon after its run was
    ended without giving it back. :func:`archive_lock` makes all three.

    Returns a handle for :class:`ReleaseLockOperator` and :class:`KeepLockOperator`; it holds no secret.

    :param archive: a name in archives.yaml, or a URL. (templated)
    :param resource: what to lock; any name that DAGs agree on, or a lock of the archive. (templated)
    :param mode: `write` to have it alone, `read` to share it with other readers.
    :param purpose: shown to those who wait. (templated)
    :param max_hold: the longest the lock lives: a timedelta, seconds, or words such as `90 min`. (templated)
    :param lock_wait: how long to wait for it, deferred, before failing with the holder's name; as `max_hold`.
        (templated)
    :param lease: how long it lives without being renewed, as `max_hold`; by default it is not renewed, and it lives
        `max_hold`. (templated)
    :param wait: the earlier name of `lock_wait`.
    :raises UsageError: an argument makes no sense; the DAG cannot be parsed.
    """

    operator_extra_links = (ArchiveLink(),)

    template_fields = ("archive", "resource", "purpose", "max_hold", "lock_wait", "lease")

    def __init__(
        self,
        *,
        archive: str,
        resource: str,
        mode: Mode = "write",
        purpose: str = "",
        max_hold: Span = timedelta(hours=1),
        lock_wait: Span = timedelta(hours=1),
        lease: Span | None = None,
        wait: Span | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_mode(mode)
        check_spans(max_hold=max_hold, lock_wait=lock_wait, lease=lease, wait=wait)
        self.archive = archive
        self.resource = resource
        self.mode = mode
        self.purpose = purpose
        self.max_hold = max_hold
        self.lock_wait = lock_wait if wait is None else wait
        self.lease = lease
        self._lease: Lease | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        with in_airflow_terms():
            deadline = deadline_in(span(self.lock_wait))
        return self._attempt(context, deadline)

    def execute_when_free(self, context: Context, event: Mapping[str, Any] | None, deadline: str) -> dict[str, Any]:
        return self._attempt(context, check_event(event, deadline))

    def on_kill(self) -> None:
        """Release the lock: no other task has its handle yet."""
        if self._lease is not None:
            self._lease.release()

    def _attempt(self, context: Context, deadline: datetime) -> dict[str, Any]:
        with in_airflow_terms():
            max_hold = span(self.max_hold)
            # In a test the lock is not renewed.
            lease = max_hold if self.lease is None or is_test() else min(span(self.lease), max_hold)
            url, self._lease = acquire_or_defer(
                self,
                context,
                deadline,
                archive=self.archive,
                resource=self.resource,
                mode=self.mode,
                purpose=self.purpose,
                scope="run",
                lease_s=lease.total_seconds(),
            )
        self.log.info("%s is locked for %s, for %s at most", self.resource, self.mode, max_hold)
        handle = json.loads(self._lease.handle().to_json())
        return {"url": url, "handle": handle, "max_hold_s": max_hold.total_seconds()}
