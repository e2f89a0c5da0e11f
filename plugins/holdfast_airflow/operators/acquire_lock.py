"""Take a lock that outlives the task that took it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator

from holdfast.archives_yaml import find_archive
from holdfast.errors import UsageError
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.owners import owner_of
from holdfast_airflow.waiting import check_event, deadline_in, deferred_until_free

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from locking import Lease

_MODES = {"read": "R", "write": "W"}


class AcquireLock(BaseOperator):
    """Take a lock in an archive for the rest of the run: `AcquireLock >> work >> ReleaseLock.as_teardown()`.

    The lock belongs to the run. It ends when :class:`ReleaseLock` gives it back, and at the latest
    `max_hold` after it was taken, whatever becomes of the run: choose it longer than the work can take.
    Work that must not go on without the lock has to end within it.

    With a `lease`, a :class:`KeepLock` of the same run has to renew it; then it is free soon after its run was
    ended without giving it back. :func:`archive_lock` makes all three.

    Returns a handle for :class:`ReleaseLock` and :class:`KeepLock`; it holds no secret.

    :param archive: a name in archives.yaml, or a URL. (templated)
    :param resource: what to lock; any name that DAGs agree on, or a lock of the archive. (templated)
    :param mode: `write` to have it alone, `read` to share it with other readers.
    :param purpose: shown to whoever has to wait. (templated)
    :param max_hold: the longest the lock lives.
    :param wait: how long to wait for it, deferred, before failing with the holder's name.
    :param lease: how long it lives without being renewed; by default nobody renews it, and it lives `max_hold`.
    """

    template_fields: Sequence[str] = ("archive", "resource", "purpose")

    def __init__(
        self,
        *,
        archive: str,
        resource: str,
        mode: Literal["read", "write"] = "write",
        purpose: str = "",
        max_hold: timedelta = timedelta(hours=1),
        wait: timedelta = timedelta(hours=1),
        lease: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if mode not in _MODES:
            raise UsageError(f"a lock's mode is 'read' or 'write', not {mode!r}")
        self.archive = archive
        self.resource = resource
        self.mode = mode
        self.purpose = purpose
        self.max_hold = max_hold
        self.wait = wait
        self.lease = max_hold if lease is None else min(lease, max_hold)
        self._lease: Lease | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the lock and return its handle."""
        return self._attempt(context, deadline_in(self.wait))

    def execute_when_free(self, context: Context, event: Mapping[str, Any] | None, deadline: str) -> dict[str, Any]:
        """Go on after waiting for the lock."""
        return self._attempt(context, check_event(event, deadline))

    def on_kill(self) -> None:
        """Give the lock back: nobody has its handle yet."""
        if self._lease is not None:
            self._lease.release()

    def _attempt(self, context: Context, deadline: datetime) -> dict[str, Any]:
        from holdfast.storage import open_store
        from locking import LockBusy, RWLock

        with in_airflow_terms():
            url = find_archive(self.archive).place()
            owner = owner_of(context, scope="run")
            lock = RWLock(open_store(url), self.resource, owner=owner, lease=self.lease.total_seconds())
            take = lock.write if self.mode == "write" else lock.read
            try:
                self._lease = take(purpose=self.purpose or f"dag {owner.dag_id}", wait=0.0, renew=False)
            except LockBusy as error:
                trigger = self._trigger(url, deadline)
                raise deferred_until_free(self, trigger, busy=str(error), deadline=deadline) from None
        self.log.info("%s is locked for %s, for %s at most", self.resource, self.mode, self.max_hold)
        handle = json.loads(self._lease.handle().to_json())
        return {"url": url, "handle": handle, "max_hold_s": self.max_hold.total_seconds()}

    def _trigger(self, url: str, deadline: datetime) -> Any:
        from holdfast_airflow.triggers.lock import ResourceFreeTrigger

        return ResourceFreeTrigger(
            url=url, deadline=deadline.isoformat(), resource=self.resource, mode=_MODES[self.mode]
        )
