"""The locks people use: many readers or one writer, or simply one at a time."""

from __future__ import annotations

import contextlib
import copy
import math
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from locking.errors import LockBusy, LockStateUnknown
from locking.folder import LockFolder
from locking.info import Records, blockers
from locking.lease import Lease
from locking.names import WORDS, Mode, check_resource, check_root
from locking.owner import Owner, process_is_gone
from locking.record import LockRecord, encode_record
from locking.rules import View, reader_may_enter, writer_may_enter
from locking.runtime import SYSTEM, Clock, Runtime
from locking.store import LockStore, StoreError, StoreOutcomeUnknown, StoreUnavailable
from locking.terms import Terms
from locking.transaction import FIRST_PAUSE, Blocked, Commit, ExclusiveWrite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from locking.folder import Look
    from locking.info import LockInfo
    from locking.rules import Ruling

DEFAULT_WAIT = 30.0  # seconds
LONGEST_PAUSE = 2.0  # seconds between two tries, at most, unless an attempt itself took longer
TROUBLE = 10.0  # seconds for which a store that fails is tried again, at least, however short the wait for others is


NOTICED = 0.5
"""Seconds until a thread that waits for a lock notices that its task was cancelled, at most, beside its requests."""

_COURTEOUS = 4  # a writer is courteous for this part of the time that it may wait, at most


class _Lock:
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

    def locked(self) -> bool:
        """Return whether the lock is held, as one look shows it: for people.

        The answer may be old when it comes: to take a lock is the only way to know. What cannot be read counts as held,
        and what its own process or its lease left behind does not. One check, and one GET for each claim.
        """
        return any(
            info.state != "intent" and not _ended_with_its_process(info)
            for info in blockers(self._store, self._resource, mode="W", root=self._root, runtime=self._runtime)
        )

    def _acquire(
        self,
        mode: Mode,
        *,
        purpose: str,
        wait: float | None,
        renew: bool,
        on_danger: Callable[[Lease], None] | None,
        seen: Look | None = None,
    ) -> Lease:
        owner = self._owner.here()
        write = ExclusiveWrite(
            target=f"{self._root}/{self._resource}/{WORDS[mode]}",
            content=self._content(mode, owner, purpose),
            verify=_RULES[mode],
        )
        commit = self._repeat(write, wait, seen)
        return Lease(
            commit,
            terms=self._terms,
            runtime=self._runtime,
            outlives=owner.scope == "run",
            renew=renew,
            on_danger=on_danger,
        )

    @contextlib.asynccontextmanager
    async def _hold(
        self, mode: Mode, *, purpose: str, wait: float | None, on_danger: Callable[[Lease], None] | None
    ) -> AsyncIterator[Lease]:
        """Hold the lock in an asynchronous block, by a thread of its own.

        The threads of :func:`asyncio.to_thread` are few: if all of them waited for a lock, its holder could not release
        it.
        """
        import asyncio  # takes longer to import than all of this package
        from concurrent.futures import ThreadPoolExecutor

        handover = _Handover(self._runtime.clock)
        waiting = copy.copy(self)
        waiting._runtime = replace(self._runtime, clock=handover)

        def take() -> Lease:
            return handover.give(
                waiting._acquire(mode, purpose=purpose, wait=wait, renew=True, on_danger=on_danger, seen=None)
            )

        loop, executor = asyncio.get_running_loop(), ThreadPoolExecutor(1, f"lock {self._resource}")
        try:
            yield await asyncio.shield(loop.run_in_executor(executor, take))
        finally:
            lease = handover.end()
            if lease is not None:
                await asyncio.shield(loop.run_in_executor(executor, lease.release))
            executor.shutdown(wait=False)

    def _repeat(self, write: ExclusiveWrite, wait: float | None, seen: Look | None) -> Commit:
        """Attempt, each time as a new transaction, until one succeeds or the time is over.

        A store that is busy is waited for, also by an attempt that waits for no other: one refused request is no reason
        to give up the work.
        """
        clock = self._runtime.clock
        asked = clock.monotonic()
        wait = math.inf if wait is None else wait
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
            # A writer that kept others out while it waited lets them in for as long.
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
    is all that is promised: no client is guaranteed a turn.

    :param store: any :class:`locking.store.LockStore`
    :param resource: what is locked: letters, digits, ``.``, ``_`` and ``-``, at most 128
    :param owner: who the lock belongs to; by default this process
    :param lease: seconds a lock is trusted without renewal
    :param grace: seconds beyond the lease until others may end the lock
    :param root: the folder of all locks in the store
    """

    def read(
        self,
        *,
        purpose: str = "",
        wait: float | None = DEFAULT_WAIT,
        renew: bool = True,
        seen: Look | None = None,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> Lease:
        """Take the lock for reading; parameters and errors as for :meth:`write`."""
        return self._acquire("R", purpose=purpose, wait=wait, renew=renew, seen=seen, on_danger=on_danger)

    def write(
        self,
        *,
        purpose: str = "",
        wait: float | None = DEFAULT_WAIT,
        renew: bool = True,
        seen: Look | None = None,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> Lease:
        """Take the lock for writing, alone.

        :param purpose: shown to clients that wait
        :param wait: seconds to wait for others; 0: not at all; None: for ever, also for a store that does not answer.
            A store that fails is tried again for `TROUBLE`, at least
        :param renew: keep it renewed from a thread of this process; without, it is trusted for one lease
        :param seen: a look of :func:`locking.look_into`, which spares the first of two
        :param on_danger: is called with the lease, from another thread, when two thirds of its term went by without a
            renewal, or when it is lost: time to stop, before others may hold the lock. Once for each renewal
        :raises LockBusy: others hold it still; names them
        :raises LockStateUnknown: the store did not say whether a request happened; the lock is not held,
            and what may be left of it expires
        :raises StoreUnavailable: the store could not be reached
        :raises StoreDenied: the store refused us
        """
        return self._acquire("W", purpose=purpose, wait=wait, renew=renew, seen=seen, on_danger=on_danger)

    def read_async(
        self,
        *,
        purpose: str = "",
        wait: float | None = DEFAULT_WAIT,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> AbstractAsyncContextManager[Lease]:
        """Return what ``async with`` takes to hold the lock for reading; see :meth:`write_async`."""
        return self._hold("R", purpose=purpose, wait=wait, on_danger=on_danger)

    def write_async(
        self,
        *,
        purpose: str = "",
        wait: float | None = DEFAULT_WAIT,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> AbstractAsyncContextManager[Lease]:
        """Return what ``async with`` takes to hold the lock for writing, while the event loop goes on.

        A task that is cancelled while it waits leaves nothing behind. The lease's own methods make requests: call them
        by ``await asyncio.to_thread(lease.check)``. Parameters and errors as for :meth:`write`.
        """
        return self._hold("W", purpose=purpose, wait=wait, on_danger=on_danger)


class Mutex(_Lock):
    """Lock for one holder at a time: the write lock of its resource. Parameters as for `RWLock`."""

    def acquire(
        self,
        *,
        purpose: str = "",
        wait: float | None = DEFAULT_WAIT,
        renew: bool = True,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> Lease:
        """Take the mutex; parameters and errors as for :meth:`RWLock.write`."""
        return self._acquire("W", purpose=purpose, wait=wait, renew=renew, on_danger=on_danger)

    def acquire_async(
        self,
        *,
        purpose: str = "",
        wait: float | None = DEFAULT_WAIT,
        on_danger: Callable[[Lease], None] | None = None,
    ) -> AbstractAsyncContextManager[Lease]:
        """Return what ``async with`` takes to hold the mutex; see :meth:`RWLock.write_async`."""
        return self._hold("W", purpose=purpose, wait=wait, on_danger=on_danger)


class _Abandoned(Exception):  # noqa: N818 - named after the situation
    """Attempts that no caller waits for any more."""


class _Handover:
    """Clock of a thread that takes a lock for a task; once that is cancelled, no time passes on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._is_over = False
        self._lease: Lease | None = None

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        while not self._is_over and seconds > 0:
            self._clock.sleep(min(seconds, NOTICED))
            seconds -= NOTICED
        if self._is_over:
            raise _Abandoned

    def give(self, lease: Lease) -> Lease:
        with self._guard:
            if not self._is_over:
                self._lease = lease
                return lease
        lease.release()
        raise _Abandoned

    def end(self) -> Lease | None:
        with self._guard:
            self._is_over = True
            return self._lease


_RULES: dict[Mode, Callable[[View], Ruling]] = {"R": reader_may_enter, "W": writer_may_enter}


def _ended_with_its_process(info: LockInfo) -> bool:
    return info.owner is not None and info.owner.scope != "run" and process_is_gone(info.owner)


def _final(error: Exception, resource: str) -> Exception:
    if isinstance(error, Blocked):
        return error.busy()
    if isinstance(error, StoreOutcomeUnknown):
        return LockStateUnknown(f"{resource} could not be locked, and a request may still take effect: {error}")
    return error
