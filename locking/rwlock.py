"""The locks people use: many readers or one writer, or simply one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locking.errors import LockBusy, LockStateUnknown
from locking.folder import LockFolder
from locking.info import Records
from locking.lease import Lease
from locking.names import WORDS, Mode, check_resource, check_root
from locking.owner import Owner
from locking.record import LockRecord, encode_record
from locking.rules import View, reader_may_enter, writer_may_enter
from locking.runtime import SYSTEM, Runtime
from locking.store import LockStore, StoreError, StoreOutcomeUnknown, StoreUnavailable
from locking.terms import Terms
from locking.transaction import FIRST_PAUSE, Blocked, Commit, ExclusiveWrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from locking.folder import Look
    from locking.rules import Ruling

DEFAULT_WAIT = 30.0
"""Seconds."""

LONGEST_PAUSE = 2.0
"""Seconds between two tries, at most, unless an attempt itself took longer."""

TROUBLE = 10.0
"""Seconds for which a store that fails is tried again, at least, however short the wait for others is."""


_COURTEOUS = 4
"""A writer is courteous for this part of the time that it may wait, at most."""


class _Lock:
    """Base of both locks, with repeated attempts within a time."""

    def __init__(
        self,
        store: LockStore,
        resource: str,
        *,
        owner: Owner | None = None,
        lease: float = 120.0,
        grace: float = 60.0,
        root: str = "locks",
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._store = store
        self._resource = check_resource(resource)
        self._root = check_root(root)
        self._owner = owner or Owner()
        self._terms = Terms(lease, grace)
        self._runtime = runtime

    def _acquire(self, mode: Mode, *, purpose: str, wait: float, renew: bool, seen: Look | None = None) -> Lease:
        owner = self._owner.here()
        write = ExclusiveWrite(
            target=f"{self._root}/{self._resource}/{WORDS[mode]}",
            content=self._content(mode, owner, purpose),
            verify=_RULES[mode],
        )
        commit = self._repeat(write, wait, seen)
        return Lease(commit, terms=self._terms, runtime=self._runtime, outlives=owner.scope == "run", renew=renew)

    def _repeat(self, write: ExclusiveWrite, wait: float, seen: Look | None) -> Commit:
        """Attempt until one succeeds or the time is over, each as a new transaction.

        Who does not want to wait for others waits for a store that is busy all the same: one refused request is no
        reason to give up the work.
        """
        clock = self._runtime.clock
        asked = clock.monotonic()
        deadline = asked + wait
        insists = asked + min(self._runtime.courtesy, wait / _COURTEOUS)
        records = Records(LockFolder(self._store, self._root, self._resource))
        backoff = FIRST_PAUSE
        while True:
            began = clock.monotonic()
            try:
                return write.attempt(
                    self._store,
                    terms=self._terms,
                    patience=max(0.0, deadline - began),
                    insists=began >= insists,
                    runtime=self._runtime,
                    records=records,
                    seen=seen,
                )
            except (Blocked, LockBusy, StoreUnavailable, StoreOutcomeUnknown) as error:
                until, least = deadline, 0.0
                if isinstance(error, StoreError):
                    until, least = asked + max(wait, TROUBLE), error.retry_after
                now = clock.monotonic()
                if now + least >= until:
                    raise _final(error, self._resource) from error
            seen = None
            # Who kept others out while it waited lets them in for as long.
            pause = max(least, self._runtime.jitter() * max(backoff, now - began))
            clock.sleep(min(pause, until - now))
            backoff = min(2 * backoff, LONGEST_PAUSE)

    def _content(self, mode: Mode, owner: Owner, purpose: str) -> Callable[[View], bytes]:
        def content(view: View) -> bytes:
            return encode_record(
                LockRecord(
                    txn=view.txn,
                    mode=mode,
                    resource=self._resource,
                    owner=owner,
                    purpose=purpose,
                    since=view.look.now,
                    terms=self._terms,
                )
            )

        return content


class RWLock(_Lock):
    """Lock for many readers or one writer of a resource.

    It holds among all processes that use the same store. A writer that finds readers lets more of them in for two
    seconds (a quarter of the time that it may wait, if that is less). Then it keeps new readers out while it waits for
    those inside, for at most a minute at a time (half the lease, if that is less), and lets others in for a while. That
    is all that is promised: nobody is guaranteed a turn.

    :param store: any :class:`locking.store.LockStore`
    :param resource: what is locked: letters, digits, ``.``, ``_`` and ``-``, at most 128
    :param owner: who the lock belongs to; by default this process
    :param lease: seconds a lock is trusted without renewal
    :param grace: seconds beyond the lease until others may end the lock
    :param root: the folder of all locks in the store
    """

    def read(
        self, *, purpose: str = "", wait: float = DEFAULT_WAIT, renew: bool = True, seen: Look | None = None
    ) -> Lease:
        """Take the lock for reading; other readers may hold it, too.

        Parameters and errors as for :meth:`write`.
        """
        return self._acquire("R", purpose=purpose, wait=wait, renew=renew, seen=seen)

    def write(
        self, *, purpose: str = "", wait: float = DEFAULT_WAIT, renew: bool = True, seen: Look | None = None
    ) -> Lease:
        """Take the lock for writing, alone.

        :param purpose: told to whoever waits
        :param wait: seconds to wait for others; 0: not at all. A store that fails is tried again for `TROUBLE`
        :param renew: keep it renewed from a thread of this process; without, it is trusted for one lease
        :param seen: a look of :func:`locking.look_into`, which spares the first of two
        :raises LockBusy: others hold it still; names them
        :raises LockStateUnknown: the store did not tell whether a request happened; the lock is not held,
            and what may be left of it expires
        :raises StoreUnavailable: the store could not be reached
        :raises StoreDenied: the store refused us
        """
        return self._acquire("W", purpose=purpose, wait=wait, renew=renew, seen=seen)


class Mutex(_Lock):
    """Lock for one holder at a time.

    It is the write lock of its resource, so it excludes an RWLock of that name.

    Parameters as for :class:`RWLock`.
    """

    def acquire(self, *, purpose: str = "", wait: float = DEFAULT_WAIT, renew: bool = True) -> Lease:
        """Take the mutex.

        Parameters and errors as for :meth:`RWLock.write`.
        """
        return self._acquire("W", purpose=purpose, wait=wait, renew=renew)


_RULES: dict[Mode, Callable[[View], Ruling]] = {"R": reader_may_enter, "W": writer_may_enter}


def _final(error: Exception, resource: str) -> Exception:
    if isinstance(error, Blocked):
        return error.busy()
    if isinstance(error, StoreOutcomeUnknown):
        return LockStateUnknown(f"{resource} could not be locked, and a request may still take effect: {error}")
    return error
