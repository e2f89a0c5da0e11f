"""A lock in the hands of another process than the one that took it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from locking.errors import LockError, LockLost, LockStateUnknown, UnreadableRecord
from locking.folder import LockFolder, must_stand
from locking.names import Mode, check_resource, check_root, is_txn
from locking.reaper import put_marker
from locking.record import InvalidDocument, decode_marker, decode_record, parse_document, read_document
from locking.runtime import SYSTEM, Runtime
from locking.store import LockStore, ObjectNotFound, StoreUnavailable
from locking.terms import CLOCK_STEP, Terms

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from locking.folder import Look
    from locking.runtime import Clock


RELEASED = "it was released"  # the reason in the marker of a lock that was given back


class InvalidHandle(LockError, ValueError):  # noqa: N818 - named after the situation, like its siblings
    """Text that is no handle of a lock."""


@dataclass(frozen=True, slots=True)
class LeaseHandle:
    """Handle by which another process uses or releases a lock; it holds no secret."""

    root: str
    resource: str
    mode: Mode
    txn: str
    lease_s: float
    grace_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LeaseHandle:
        """Return the handle that :meth:`to_json` wrote; raises :class:`InvalidHandle`."""
        try:
            handle = read_document(cls, parse_document(text))
            check_root(handle.root)
            check_resource(handle.resource)
            Terms(handle.lease_s, handle.grace_s)
        except InvalidDocument as error:
            look_at = ", ".join(error.fields) or "its JSON"
            raise InvalidHandle(f"This is no handle of a lock; look at: {look_at}.") from error
        except ValueError as error:
            raise InvalidHandle(f"This is no handle of a lock: {error}") from error
        if not is_txn(handle.txn):
            raise InvalidHandle("This is no handle of a lock: its transaction is not one.")
        return handle


class AttachedLease:
    """Lock that another process took; checked here, or kept for a run that outlives that process.

    :ivar age: seconds, by the store's clock, from when the lock was asked for to the last ``renew()``
    """

    def __init__(self, store: LockStore, handle: LeaseHandle, runtime: Runtime) -> None:
        self._folder = LockFolder(store, handle.root, handle.resource)
        self._target = self._folder.target(handle.mode, handle.txn)
        self._handle = handle
        self._clock = runtime.clock
        self._lost: str | None = None
        self._body: bytes | None = None
        self.age = 0.0

    def check(self) -> None:
        """Check by the store's clock that the lock is held: until the listing's start + lease - age.

        :raises LockLost: it is not, and never will be again
        :raises LockStateUnknown: the store did not answer; try again, but do not rely on the lock
        :raises StoreError: the store refused us, or its folder is gone; do not rely on the lock either
        """
        try:
            self._must_stand(self._folder.look)
        except StoreUnavailable as error:
            raise LockStateUnknown(
                f"Whether {self._handle.resource} is still locked cannot be seen: {error}"
            ) from error

    def renew(self, *, at_most: float = math.inf) -> bool:
        """Renew the lease once, by one listing and one write; return whether it was renewed.

        No owner trusts the lock for a write without its answer, so a late one revives nothing: a client that ended the
        lock meanwhile has marked it as dead before.

        :param at_most: seconds, by the store's clock, since the lock was asked for: no renewal that would last longer
        :raises LockLost: there is nothing to renew
        :raises StoreError: it could not be renewed now; the lease goes on as it was
        """
        try:
            body = self._record()
            look = self._must_stand(self._folder.glance)
            self.age = (look.now - self._since(body)).total_seconds()
            if self.age + self._handle.lease_s > at_most:
                return False
            self._folder.store.touch(self._target, body)
        except ObjectNotFound as error:
            raise self._lose(f"The lock of {self._handle.resource} is gone from the store.") from error
        return True

    def was_released(self) -> bool:
        """Return whether the lock was given back, not lost: known for minutes after the release."""
        try:
            marker = decode_marker(self._folder.store.get(self._folder.marker(self._handle.txn)))
        except (ObjectNotFound, UnreadableRecord):
            return False
        return marker.reason == RELEASED

    def _must_stand(self, look_into: Callable[[Clock], Look]) -> Look:
        if self._lost is not None:
            raise LockLost(self._lost)
        handle = self._handle
        look = look_into(self._clock)
        try:
            age = must_stand(look, self._folder, mode=handle.mode, txn=handle.txn, lease=handle.lease_s)
        except LockLost as error:
            raise self._lose(str(error)) from error
        if self._clock.monotonic() >= look.started + handle.lease_s - age - CLOCK_STEP:
            raise self._lose(f"The lease of {handle.resource} is over: it was not renewed in time.")
        return look

    def _record(self) -> bytes:
        if self._body is None:
            self._body = self._folder.store.get(self._target)
        return self._body

    def _since(self, body: bytes) -> datetime:
        handle = self._handle
        return decode_record(body, resource=handle.resource, mode=handle.mode, txn=handle.txn).since

    def _lose(self, why: str) -> LockLost:
        self._lost = why
        return LockLost(why)


def attach(store: LockStore, handle: LeaseHandle, *, runtime: Runtime = SYSTEM) -> AttachedLease:
    """Attach to a lock that another process took; the first request is that of ``check()``."""
    return AttachedLease(store, handle, runtime)


def release_handle(store: LockStore, handle: LeaseHandle) -> None:
    """Release a lock that another process took: two requests.

    The marker comes first, because another process may have a renewal under way.

    :raises StoreError: it could not be released for certain; it may be tried again, or left to expire
    """
    folder = LockFolder(store, handle.root, handle.resource)
    put_marker(folder, handle.txn, RELEASED, Terms(handle.lease_s, handle.grace_s))
    store.delete(folder.target(handle.mode, handle.txn))
