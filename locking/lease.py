"""A lock that is held: trusted for a while, renewed, checked, released."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from locking.attach import LeaseHandle
from locking.errors import LockLost, LockStateUnknown
from locking.one_line import line_logger
from locking.reaper import put_marker
from locking.renewer import Renewer
from locking.standing import must_stand
from locking.store import ObjectNotFound, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from types import TracebackType

    from locking.folder import Look
    from locking.names import Mode
    from locking.runtime import Runtime
    from locking.terms import Terms
    from locking.transaction import Commit

log = line_logger(__name__)

RELEASE_ATTEMPTS = 3


class Lease:
    """A held lock; leaving its ``with`` block releases it.

    It is trusted only while, on the holder's own clock, the start of its last acknowledged renewal is
    younger than the lease. Once that is over it is over for good. Nothing stops a holder that was suspended
    right after a check, so what must not go wrong has to be guarded by what it writes, too.
    """

    def __init__(self, commit: Commit, *, terms: Terms, runtime: Runtime, outlives: bool, renew: bool) -> None:
        self._commit = commit
        self._folder = commit.folder
        self._target = commit.folder.target(commit.mode, commit.txn)
        self._terms = terms
        self._clock = runtime.clock
        self._given_up = runtime.given_up
        self._guard = threading.Lock()
        self._trusted_since = commit.target_started
        self._over: str | None = None
        # Whether a PUT of the target may still come, from here or from another process.
        self._may_come_late = outlives
        self._renewer = Renewer(self.renew, terms.renewal_interval, self.resource) if renew else None

    @property
    def txn(self) -> str:
        """Return the transaction's id, unique for every acquisition.

        It is the fence that commits carry.
        """
        return self._commit.txn

    @property
    def resource(self) -> str:
        return self._folder.resource

    @property
    def mode(self) -> Mode:
        return self._commit.mode

    def handle(self) -> LeaseHandle:
        """Return the handle for another process to check or release this lock."""
        return LeaseHandle(
            root=self._folder.root,
            resource=self.resource,
            mode=self.mode,
            txn=self.txn,
            lease_s=self._terms.lease,
            grace_s=self._terms.grace,
        )

    def check(self) -> None:
        """Check that the lock is still held, by our own clock and one listing.

        :raises LockLost: it is not, and never will be again
        :raises LockStateUnknown: the store did not answer; try again, but do not rely on the lock
        :raises StoreError: the store refused us, or its folder is gone; do not rely on the lock either
        """
        self._must_be_trusted()
        try:
            look = self._folder.look(self._clock)
        except StoreUnavailable as error:
            raise LockStateUnknown(f"Whether {self.resource} is still locked cannot be seen: {error}") from error
        self._must_stand(look)
        self._must_be_trusted()

    def renew(self) -> None:
        """Renew the lease once: one listing and one write.

        :raises LockLost: there is nothing to renew
        :raises StoreError: it could not be renewed now; the lease goes on as it was
        """
        self._must_stand(self._folder.glance(self._clock))
        self._must_be_trusted()
        started = self._clock.monotonic()
        try:
            self._folder.store.touch(self._target, self._commit.body)
        except ObjectNotFound as error:
            raise self._lose(f"The lock of {self.resource} is gone from the store.") from error
        except StoreOutcomeUnknown:
            self._may_come_late = True
            raise
        self._acknowledge(started)

    def release(self) -> None:
        """Release the lock, as a rule by one DELETE.

        No error of the store is raised: a lock left behind expires, and is in the way of others until then. Not of this
        process, which ends it when it meets it.
        """
        with self._guard:
            if self._over == _RELEASED:
                return
            self._over = _RELEASED
        if self._renewer is not None and not self._renewer.stop():
            self._may_come_late = True
        for _ in range(RELEASE_ATTEMPTS):
            try:
                self._remove()
                return
            except StoreError as error:
                log.warning("Releasing %s (txn %s) failed: %s", self.resource, self.txn, error)
        self._given_up.add(self.txn)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Lease({self.resource!r}, {self.mode!r}, txn={self.txn!r})"

    def _remove(self) -> None:
        if self._may_come_late:
            put_marker(self._folder, self.txn, "it was released", self._terms)
        self._folder.store.delete(self._target)
        if self._commit.intent_stays:
            self._folder.store.delete(self._folder.intent(self.mode, self.txn))

    def _must_stand(self, look: Look) -> None:
        try:
            must_stand(look, self._folder, mode=self.mode, txn=self.txn, lease=self._terms.lease)
        except LockLost as error:
            raise self._lose(str(error)) from error

    def _must_be_trusted(self) -> None:
        with self._guard:
            self._expire()
            if self._over is not None:
                raise LockLost(self._over)

    def _acknowledge(self, started: float) -> None:
        """Count the lease from the start of the renewal.

        A lease that was over before the answer came is lost.
        """
        with self._guard:
            self._expire()
            if self._over is not None:
                raise LockLost(self._over)
            self._trusted_since = started

    def _expire(self) -> None:
        if self._over is None and self._clock.monotonic() - self._trusted_since >= self._terms.lease:
            self._over = f"The lease of {self.resource} is over: it could not be renewed in time (txn {self.txn})."

    def _lose(self, why: str) -> LockLost:
        with self._guard:
            self._over = self._over or why
            return LockLost(self._over)


_RELEASED = "The lock has been released."
