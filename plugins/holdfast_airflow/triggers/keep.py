"""Trigger that renews a run's lock until its end."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError
from holdfast_airflow.triggers.idleness import RunIdleness
from holdfast_airflow.triggers.pauses import SettledTrigger, next_pause
from locking.errors import LockError, LockLost, LockStateUnknown
from locking.store import StoreDenied, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from locking import AttachedLease

POLL_S = 10.0
"""Seconds between two looks; a run ends this much later than its last task, at most."""

_RENEWALS = 3
"""In one lease: two may fail before it is over."""


class KeepLockTrigger(SettledTrigger):
    """Trigger that renews a lock.

    It fires when the lock was released, when it was lost, when it was held for too long, or when nothing of the run was
    at work for long. Nothing is renewed once the trigger is gone, be it with its task, with its run or with the
    triggerer: then the lock ends with its lease.

    :param url: where the lock is.
    :param handle: the lock, in JSON; holds no secret.
    :param max_hold_s: seconds, by the store's clock, after which it is over: it is not renewed to live longer.
    :param poll_s: seconds between two looks, at most.
    :param max_idle_s: seconds without anything of the run at work, after which it fires; None: it does not ask.
    :param dag_id: of the run, with `run_id`.
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
        """Check the lock once and renew it when due. Return its end as an event, or nothing.

        After the last renewal the lock is held to the end of its lease.
        """
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
        """Return the seconds to the next renewal: the last one lets the lock end at its `max_hold`, and not later.

        :param age: seconds since the lock was asked for.
        """
        # A look comes up to `poll_s` later.
        until_last = self.max_hold_s - self._lease_s - self.poll_s - age
        interval = self._lease_s / _RENEWALS
        return min(interval, until_last) if until_last > 0 else interval

    def _is_idle(self) -> bool:
        return self.max_idle_s is not None and self._idleness.look() >= self.max_idle_s
