"""Trigger that renews a run's lock until its end."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import HoldfastError
from holdfast_airflow.triggers.pauses import SettledTrigger, next_pause
from locking.errors import LockError, LockLost, LockStateUnknown
from locking.one_line import line_logger
from locking.store import StoreDenied, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from locking import AttachedLease

POLL_S = 10.0
"""Seconds between two looks; a run ends this much later than its last task, at most."""

_RENEWALS = 3
"""In one lease: two may fail before it is over."""


class KeepLockTrigger(SettledTrigger):
    """Trigger that renews a lock until it was released, lost, held too long, or the run is idle.

    Nothing is renewed once the trigger is gone, be it with its task, with its run or with the triggerer: then the lock
    ends with its lease.

    :param handle: the lock, in JSON; holds no secret.
    :param max_hold_s: seconds, by the store's clock, after which it is over: it is not renewed to live longer.
    :param max_idle_s: seconds without anything of the run at work, after which it fires; None: it does not ask.
    :param keepers: ids of the DAG's tasks that keep locks, which are no work.
    """

    stored = ("url", "handle", "max_hold_s", "poll_s", "max_idle_s", "dag_id", "run_id", "keepers")

    def __init__(
        self,
        *,
        url: str,
        handle: str,
        max_hold_s: float,
        poll_s: float = POLL_S,
        max_idle_s: float | None = None,
        dag_id: str = "",
        run_id: str = "",
        keepers: Sequence[str] = (),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.url = url
        self.handle = handle
        self.max_hold_s = max_hold_s
        self.poll_s = poll_s
        self.max_idle_s = max_idle_s
        self.dag_id = dag_id
        self.run_id = run_id
        self.keepers = list(keepers)
        self._idleness = RunIdleness(dag_id=dag_id, run_id=run_id, keepers=keepers)
        self._lease_s = 0.0
        self._renew_at = 0.0

    async def wait(self) -> dict[str, str]:
        """Check the lock, renew it and pause in turns, until that ends. Return how."""
        began = time.monotonic()
        try:
            lease = await asyncio.to_thread(self._attach)
            while not (ended := await asyncio.to_thread(self._turn, lease)):
                await asyncio.sleep(next_pause(time.monotonic() - began, self.poll_s))
        except (LockError, StoreDenied, HoldfastError) as error:
            ended = {"state": "failed", "message": str(error)}
        return ended

    def _attach(self) -> AttachedLease:
        from holdfast.storage import open_store
        from locking import LeaseHandle, attach

        handle = LeaseHandle.from_json(self.handle)
        self._lease_s = handle.lease_s
        return attach(open_store(self.url), handle)

    def _turn(self, lease: AttachedLease) -> dict[str, str]:
        """Check the lock once and renew it when due. Return its end as an event, or nothing."""
        try:
            if time.monotonic() < self._renew_at:
                lease.check()
            elif lease.renew(at_most=self.max_hold_s):
                self._renew_at = time.monotonic() + self._until_next(lease.age)
                if self._is_idle():  # just renewed: who goes on with it has a whole lease for that
                    return {"state": "idle"}
            else:
                self._renew_at = math.inf
        except LockLost as error:
            if lease.was_released():
                return {"state": "released"}
            if self._renew_at == math.inf:
                return {"state": "too long"}
            return {"state": "lost", "message": str(error)}
        except StoreDenied:
            raise
        except (LockStateUnknown, StoreError) as error:
            self.log.warning("the lock could not be renewed, trying again in at most %.0f s: %s", self.poll_s, error)
        return {}

    def _until_next(self, age: float) -> float:
        """Return the seconds to the next renewal: the last one lets the lock end at its `max_hold`."""
        # A look comes up to `poll_s` later.
        until_last = self.max_hold_s - self._lease_s - self.poll_s - age
        interval = self._lease_s / _RENEWALS
        return min(interval, until_last) if until_last > 0 else interval

    def _is_idle(self) -> bool:
        return self.max_idle_s is not None and self._idleness.look() >= self.max_idle_s


log = line_logger(__name__)

AT_WORK: Final = (
    "scheduled",
    "queued",
    "running",
    "restarting",
    "deferred",
    "up_for_reschedule",
    "awaiting_input",
)
"""States of tasks that run, are about to, or wait for what may run elsewhere (airflow.utils.state, 3.3).

A task that is scheduled waits for a slot: a busy Airflow is no idle run.
"""


class RunIdleness:
    """Lookup of how long a run has been idle; tasks that keep locks do not count."""

    def __init__(self, *, dag_id: str, run_id: str, keepers: Sequence[str]) -> None:
        self._dag_id = dag_id
        self._run_id = run_id
        self._keepers = list(keepers)
        self._since: float | None = None

    def look(self) -> float:
        """Ask Airflow, and return the seconds of idleness."""
        now = time.monotonic()
        if self._is_at_work():
            self._since = None
            return 0.0
        if self._since is None:
            self._since = now
        return now - self._since

    def _is_at_work(self) -> bool:
        try:
            return self._count() > self._count(self._keepers)
        except Exception as error:  # noqa: BLE001 - without an answer, the run counts as being at work
            log.warning("Airflow could not be asked what is at work of run %s: %s", self._run_id, error)
            return True

    def _count(self, tasks: list[str] | None = None) -> int:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        return RuntimeTaskInstance.get_ti_count(
            self._dag_id, task_ids=tasks, run_ids=[self._run_id], states=list(AT_WORK)
        )
