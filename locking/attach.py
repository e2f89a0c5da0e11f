"""A lock in the hands of another process than the one that took it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from locking.errors import LockError, LockLost, LockStateUnknown
from locking.folder import LockFolder
from locking.names import WORDS, Mode, check_resource, check_root, is_txn
from locking.reaper import put_marker
from locking.runtime import SYSTEM, Runtime
from locking.standing import must_stand
from locking.store import LockStore, StoreUnavailable
from locking.terms import CLOCK_STEP, Terms


class InvalidHandle(LockError, ValueError):  # noqa: N818 - named after the situation, like its siblings
    """These words are no handle of a lock."""


@dataclass(frozen=True, slots=True)
class LeaseHandle:
    """What another process needs to work under a lock, or to release it. Holds no secret."""

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
        """The handle that :meth:`to_json` wrote; raises :class:`InvalidHandle`."""
        try:
            handle = cls(**json.loads(text))
            check_root(handle.root)
            check_resource(handle.resource)
            Terms(handle.lease_s, handle.grace_s)
        except (TypeError, ValueError) as error:
            raise InvalidHandle(f"This is no handle of a lock: {error}") from error
        if handle.mode not in WORDS or not is_txn(str(handle.txn)):
            raise InvalidHandle("This is no handle of a lock: its mode or transaction is not one.")
        return handle


class AttachedLease:
    """A lock that another process holds and renews for us; we only look whether it still stands."""

    def __init__(self, store: LockStore, handle: LeaseHandle, runtime: Runtime) -> None:
        self._folder = LockFolder(store, handle.root, handle.resource)
        self._handle = handle
        self._clock = runtime.clock
        self._lost: str | None = None

    def check(self) -> None:
        """Look whether the lock is still held, by the store's clock alone.

        It is trusted until the start of the listing, plus the lease, less the target's age.

        :raises LockLost: it is not, and never will be again
        :raises LockStateUnknown: the store did not answer; try again, but do not rely on the lock
        """
        if self._lost is not None:
            raise LockLost(self._lost)
        try:
            look = self._folder.look(self._clock)
        except StoreUnavailable as error:
            raise LockStateUnknown(
                f"Whether {self._handle.resource} is still locked cannot be seen: {error}"
            ) from error
        handle = self._handle
        try:
            age = must_stand(look, self._folder, mode=handle.mode, txn=handle.txn, lease=handle.lease_s)
            trusted_until = look.started + handle.lease_s - age - CLOCK_STEP
            if self._clock.monotonic() >= trusted_until:
                raise LockLost(f"The lease of {handle.resource} is over: its holder does not renew it.")
        except LockLost as error:
            self._lost = str(error)
            raise


def attach(store: LockStore, handle: LeaseHandle, *, runtime: Runtime = SYSTEM) -> AttachedLease:
    """Work under a lock that another process took, for example the one that started us.

    No request is made until the first ``check()``.
    """
    return AttachedLease(store, handle, runtime)


def release_handle(store: LockStore, handle: LeaseHandle) -> None:
    """Release a lock that another process took: two requests.

    The marker comes first, because that process or another may have a renewal under way.

    :raises StoreError: it could not be released for certain; it may be tried again, or left to expire
    """
    folder = LockFolder(store, handle.root, handle.resource)
    put_marker(folder, handle.txn, "it was released", Terms(handle.lease_s, handle.grace_s))
    store.delete(folder.target(handle.mode, handle.txn))
