"""A lock that is held: trusted for a while, renewed, checked, released."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from locking.attach import LeaseHandle
from locking.errors import LockLost, LockStateUnknown
from locking.folder import must_stand
from locking.one_line import line_logger
from locking.reaper import put_marker
from locking.renewer import LeaseThread, Renewer
from locking.store import ObjectNotFound, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from locking.folder import Look
    from locking.names import Mode
    from locking.runtime import Runtime
    from locking.terms import Terms
    from locking.transaction import Commit

log = line_logger(__name__)

RELEASE_ATTEMPTS = 3

WATCHED_PARTS = 12
"""A watched lease is looked at so many times in its term, at least: its machine may be suspended meanwhile."""

TICK_LIMIT = 10.0  # seconds to wait for the store's clock to move on
FIRST_PAUSE = 0.01  # seconds, at most, before the clock is looked at again; doubles from one look to the next
LONGEST_PAUSE = 0.25

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Lease:
    """A held lock; leaving its ``with`` block releases it.

    It is trusted only while, on the holder's own clock, the start of its last acknowledged renewal is
    younger than the lease. Once that is over it is over for good. Nothing stops a holder that was suspended
    right after a check, so what must not go wrong has to be guarded by what it writes, too: :meth:`token`.

    It belongs to the process that took it. A child that is forked from that holds nothing, and releases nothing.

    :param on_danger: see :meth:`locking.RWLock.write`
    """

    def __init__(
        self,
        commit: Commit,
        *,
        terms: Terms,
        runtime: Runtime,
        outlives: bool,
        renew: bool,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> None:
        self._commit = commit
        self._folder = commit.folder
        self._target = commit.folder.target(commit.mode, commit.txn)
        self._terms = terms
        self._clock = runtime.clock
        self._given_up = runtime.given_up
        self._pid = os.getpid()
        # The garbage collector may release it in a thread that is just here.
        self._guard = threading.RLock()
        self._trusted_since = commit.target_started
        self._over: str | None = None
        # Whether a PUT of the target may still come, from here or from another process.
        self._may_come_late = outlives
        self._token: int | None = None
        self._on_danger = on_danger
        self._warned_of: float | None = None
        self._renewer = Renewer(self.renew, terms.renewal_interval, self.resource) if renew else None
        self._watcher = None
        if on_danger is not None:
            self._watcher = LeaseThread(self._watch, terms.lease / WATCHED_PARTS, f"watch lock {self.resource}")

    @property
    def txn(self) -> str:
        """Return the transaction's id, unique for every acquisition, in no order."""
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
        """Check by our clock and one listing that the lock is held.

        :raises LockLost: it is not, and never will be again
        :raises LockStateUnknown: the store did not answer; try again, but do not rely on the lock
        :raises StoreError: the store refused us, or its folder is gone; do not rely on the lock either
        """
        self._look()

    def token(self) -> int:
        """Return a fencing number that rises with each exclusive holder.

        It is a time of the store's clock, in microseconds since 1970: later than the token of every exclusive holder
        before, and earlier than that of every one after; readers between two writers are between their tokens. What is
        written to may refuse a token that is smaller than one it has seen, and so stop a holder that was suspended past
        its lease. It holds as long as the store's clock never goes back; where the servers of one store have clocks of
        their own, it holds between holders that are further apart than these.

        The first call takes three checks or more, until the store's clock has moved on: up to a second where that
        counts whole seconds. Later calls return the same.

        :raises LockLost, LockStateUnknown, StoreError: as :meth:`check`
        :raises LockStateUnknown: the store's clock stands still, too
        """
        self._must_be_ours()
        if self._token is None:
            self._token = self._take_token()
        return self._token

    def renew(self) -> None:
        """Renew the lease once: one listing and one write.

        :raises LockLost: there is nothing to renew
        :raises StoreError: it could not be renewed now; the lease goes on as it was
        """
        self._must_be_ours()
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
        """Release the lock, as a rule by one DELETE; nothing in a process that did not take it.

        No error of the store is raised: a lock left behind expires, and is in the way of others until then. Not of this
        process, which ends it when it meets it.
        """
        if os.getpid() != self._pid:
            return
        with self._guard:
            if self._over == _RELEASED:
                return
            self._over = _RELEASED
        if self._watcher is not None:
            self._watcher.stop()
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

    def _look(self) -> Look:
        self._must_be_trusted()
        try:
            look = self._folder.look(self._clock)
        except StoreUnavailable as error:
            raise LockStateUnknown(f"Whether {self.resource} is still locked cannot be seen: {error}") from error
        self._must_stand(look)
        self._must_be_trusted()
        return look

    def _take_token(self) -> int:
        began = self._look()  # every earlier holder has its token by now, if it ever has one
        until = self._clock.monotonic() + TICK_LIMIT
        pause = FIRST_PAUSE
        while (ticked := self._look()).now <= began.now:
            if self._clock.monotonic() >= until:
                raise LockStateUnknown(f"The store's clock stands at {began.now}, and {self.resource} has no token.")
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        self._look()  # no other can have begun before that time was read
        return (ticked.now - _EPOCH) // timedelta(microseconds=1)

    def _watch(self) -> float | None:
        """Warn once of each renewal that two thirds of the term went by without a next one, or of the loss."""
        with self._guard:
            since, over = self._trusted_since, self._over
        if over == _RELEASED:
            return None
        safe = since + self._terms.lease * 2 / 3 - self._clock.monotonic()
        often = self._terms.lease / WATCHED_PARTS
        if over is None and safe > 0:
            return min(safe, often)
        if self._on_danger is not None and self._warned_of != since:
            self._warned_of = since
            try:
                self._on_danger(self)
            except Exception:
                log.exception("The callback for the lock of %s in danger failed.", self.resource)
        return None if over is not None else often

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

    def _must_be_ours(self) -> None:
        # Its guard may have been held by a thread that is not in this process.
        if os.getpid() != self._pid:
            raise LockLost(f"{self.resource} is locked by process {self._pid}, not by this one (txn {self.txn}).")

    def _must_be_trusted(self) -> None:
        self._must_be_ours()
        with self._guard:
            self._expire()
            if self._over is not None:
                raise LockLost(self._over)

    def _acknowledge(self, started: float) -> None:
        """Count the lease from the start of the renewal, unless it was over before the answer came."""
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
