"""Triggers that wait until a lock is free, and take none."""

from __future__ import annotations

import asyncio
import random
import time
from abc import abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.common.errors import HoldfastError
from holdfast_airflow.triggers.pauses import SettledTrigger, event, next_pause
from locking.errors import LockError
from locking.store import StoreDenied, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.storage import ObjectStore
    from locking import LockInfo

DEFAULT_POLL_S = 5.0

_SAME_HOLDER_S = 600.0
"""One holder is logged so often."""

_random = random.SystemRandom()


class LockFreeTrigger(SettledTrigger):
    """Trigger that fires when a lock is free, time is up, or that cannot be found out.

    :param deadline: ISO 8601 with offset; the event then names the holders.
    :param poll_s: seconds between two looks, at most, on average; each pause is 0.5 to 1.5 times what it would be, so
        that tasks waiting for one lock do not all come at once.
    """

    stored: ClassVar[tuple[str, ...]] = ("url", "deadline", "poll_s")

    def __init__(self, *, url: str, deadline: str, poll_s: float = DEFAULT_POLL_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.url = url
        self.deadline = deadline
        self.poll_s = poll_s

    @abstractmethod
    def blockers(self, store: ObjectStore) -> Sequence[LockInfo]:
        """Return the locks that are in the way now. Called in a thread."""

    async def wait(self) -> dict[str, str]:
        """Check the lock and pause in turns; log when the holder changes, else now and then."""
        before, logged, began = "", -_SAME_HOLDER_S, time.monotonic()
        while True:
            holders = ""
            try:
                holders, message = await asyncio.to_thread(self._look)
            except (StoreDenied, HoldfastError) as error:
                return event("failed", str(error))
            except (StoreError, LockError) as error:
                message = f"the archive's locks could not be read: {error}"
            if not message:
                return event("free")
            if datetime.now(UTC) >= datetime.fromisoformat(self.deadline):
                return event("expired", message)
            if holders != before or time.monotonic() - logged >= _SAME_HOLDER_S:
                self.log.info("waiting: %s", message)
                before, logged = holders, time.monotonic()
            await asyncio.sleep(next_pause(time.monotonic() - began, self.poll_s) * _random.uniform(0.5, 1.5))

    def _look(self) -> tuple[str, str]:
        """Return the holders that are in the way, and a sentence about them; "" for none."""
        from holdfast.storage import open_store

        holders = self.blockers(open_store(self.url))
        return " ".join(sorted(info.txn for info in holders)), "; ".join(info.describe() for info in holders)


class PlanFreeTrigger(LockFreeTrigger):
    """Trigger that waits for all locks of an operation, as in the table of locks."""

    stored: ClassVar[tuple[str, ...]] = (*LockFreeTrigger.stored, "operation", "sources")

    def __init__(self, *, operation: str, sources: Sequence[str] = (), **more: Any) -> None:
        super().__init__(**more)
        self.operation = operation
        self.sources = list(sources)

    def blockers(self, store: ObjectStore) -> Sequence[LockInfo]:
        from holdfast.archive import locks

        return locks.blockers(store, self.operation, sources=self.sources)


class ResourceFreeTrigger(LockFreeTrigger):
    """Trigger that waits for one resource, to share it (`R`) or to have it alone (`W`)."""

    stored: ClassVar[tuple[str, ...]] = (*LockFreeTrigger.stored, "resource", "mode")

    def __init__(self, *, resource: str, mode: str, **more: Any) -> None:
        super().__init__(**more)
        self.resource = resource
        self.mode = mode

    def blockers(self, store: ObjectStore) -> Sequence[LockInfo]:
        from locking import blockers

        return blockers(store, self.resource, mode="W" if self.mode == "W" else "R")
