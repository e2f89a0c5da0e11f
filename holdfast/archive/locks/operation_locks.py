"""Locks of an operation: all of them are taken, held and handed over, or none.

Locks give order; commits give safety. A job started by the holder in another process works under the same locks through
`attach`, while the holder renews them.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from holdfast.archive.locks.lock_table import plan
from holdfast.common.errors import UsageError
from locking import LeaseHandle, RWLock, look_into
from locking import attach as attach_lease
from locking import blockers as lease_blockers
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.archive.locks.lock_table import PlannedLock
    from locking import Lease, LockInfo, Look, Owner
    from locking.store import LockStore


class HeldLocks:
    """Locks of one operation, renewed until released; a context manager."""

    def __init__(self, leases: Sequence[Lease]) -> None:
        self._leases = tuple(leases)

    @property
    def fence(self) -> str | None:
        """Return the transaction id of the write lock, which the commit records."""
        return next((lease.txn for lease in self._leases if lease.mode == "W"), None)

    def check(self) -> None:
        """Raise LockLost unless every lock is still held."""
        for lease in self._leases:
            lease.check()

    def handles(self) -> str:
        """Return the handles for another process to work under these locks; they hold no secret."""
        return json.dumps([json.loads(lease.handle().to_json()) for lease in self._leases])

    def release(self) -> None:
        """Release the locks, the last taken first; it goes on when one fails, and raises that error."""
        with ExitStack() as stack:
            for lease in self._leases:
                stack.callback(lease.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class AttachedLocks:
    """Locks of the process that started this one, which can be checked, not released."""

    def __init__(self, store: LockStore, handles: Sequence[LeaseHandle]) -> None:
        self._leases = [attach_lease(store, handle) for handle in handles]
        self.fence = next((handle.txn for handle in handles if handle.mode == "W"), None)
        """The transaction id of the write lock, which the commit records."""

    def check(self) -> None:
        """Raise LockLost unless every lock is still held and was renewed in time."""
        for lease in self._leases:
            lease.check()


def acquire(
    store: LockStore, operation: str, *, sources: Sequence[str] = (), owner: Owner, purpose: str, wait: float
) -> HeldLocks:
    """Take every lock of an operation in order, or none, within `wait` seconds; LockBusy names those in the way."""
    deadline = time.monotonic() + wait
    wanted = plan(operation, sources)
    seen = _look_into(store, wanted)
    taken: list[Lease] = []
    try:
        for planned in wanted:
            lock = RWLock(store, planned.resource, owner=owner)
            take = lock.write if planned.mode == "W" else lock.read
            left = max(0.0, deadline - time.monotonic())
            taken.append(take(purpose=purpose, wait=left, seen=seen.get(planned.resource)))
    except BaseException:
        HeldLocks(taken).release()
        raise
    return HeldLocks(taken)


def _look_into(store: LockStore, wanted: Sequence[PlannedLock]) -> dict[str, Look]:
    """Look at several locks at once: a first look only spares hopeless attempts, so one serves all."""
    if len(wanted) > 1:
        with suppress(StoreError):  # each lock then looks for itself, and waits or gives up as it should
            return look_into(store, [planned.resource for planned in wanted])
    return {}


class HistoryReader:
    """Guard against deletion of files while they are read.

    Call it for each chunk of files, and use what it returns. A vacuum that waits comes in between two chunks. The first
    chunk waits for one at work as long as its caller says, the others until it lets go of the lock, which it does after
    half a minute.
    """

    def __init__(self, store: LockStore, *, owner: Owner, purpose: str, wait: float) -> None:
        self._lock = RWLock(store, "history", owner=owner)
        self._purpose = purpose
        self._wait = wait

    def __call__(self) -> Lease:
        wait, self._wait = self._wait, max(self._wait, _CHUNK_WAIT_S)
        return self._lock.read(purpose=self._purpose, wait=wait)


_CHUNK_WAIT_S = 300.0


def attach(store: LockStore, handles: str) -> AttachedLocks:
    """Work under the locks of another process, by what its `HeldLocks.handles()` returned."""
    try:
        documents = json.loads(handles)
        leases = [LeaseHandle.from_json(json.dumps(document)) for document in documents]
    except (TypeError, ValueError):
        leases = []
    if not leases:
        raise UsageError("HOLDFAST_LOCKS does not hold the locks of a job: start jobs by command or operator")
    return AttachedLocks(store, leases)


def blockers(store: LockStore, operation: str, *, sources: Sequence[str] = ()) -> list[LockInfo]:
    """Return the locks that would block an operation now, by one check per lock."""
    found: list[LockInfo] = []
    for planned in plan(operation, sources):
        found += lease_blockers(store, planned.resource, mode=planned.mode)
    return found
