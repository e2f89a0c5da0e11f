"""What clients do: programs of calls into the shipped code, and what a client keeps from one call to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from holdfast.archive.archive import Archive
from holdfast.archive.format.model import Identity
from holdfast.archive.format.state import Change, State
from holdfast.common.errors import HoldfastError
from locking import (
    Commit,
    ExclusiveWrite,
    Lease,
    LeaseHandle,
    LockBusy,
    LockLost,
    LockStateUnknown,
    Owner,
    Runtime,
    RWLock,
    Terms,
    attach,
    look_into,
    release_handle,
    rwlock,
)
from locking.ending import end, reap
from locking.errors import LockNotFound
from locking.folder import LockFolder
from locking.names import WORDS, Mode
from locking.record import LockRecord, encode_record
from locking.store import LockStore, StoreError, StoreUnavailable
from tests.support.explorer.replay import (
    START,
    Answer,
    Answers,
    AskingClock,
    AskingStore,
    Question,
    StandingClock,
    Unanswered,
)

if TYPE_CHECKING:
    from holdfast.storage import ObjectStore

RESOURCE = "r"
TERMS = Terms(lease=8.0, grace=4.0)
"""A lease of 8 s: an attempt may take 6 s, a writer waits up to 4 s for readers, others end it after 12 s."""

BLOCK = "block-1"


@dataclass(frozen=True, slots=True)
class Held:
    """All that a :class:`locking.Lease` knows."""

    txn: str
    mode: Mode
    body: bytes
    target_started: float
    intent_stays: bool
    trusted_since: float
    over: str | None
    may_come_late: bool

    @classmethod
    def of(cls, lease: Lease) -> Held:
        commit = lease._commit
        return cls(
            txn=commit.txn,
            mode=commit.mode,
            body=commit.body,
            target_started=commit.target_started,
            intent_stays=commit.intent_stays,
            trusted_since=lease._trusted_since,
            over=lease._over,
            may_come_late=lease._may_come_late,
        )

    def lease(self, store: LockStore, runtime: Runtime) -> Lease:
        commit = Commit(
            folder=LockFolder(store, "locks", RESOURCE),
            txn=self.txn,
            mode=self.mode,
            body=self.body,
            target_started=self.target_started,
            intent_stays=self.intent_stays,
        )
        lease = Lease(commit, terms=TERMS, runtime=runtime, outlives=self.may_come_late, renew=False)
        lease._trusted_since = self.trusted_since
        lease._over = self.over
        return lease


@dataclass(frozen=True, slots=True)
class Memory:
    """What a client keeps between two calls; the answers it got within a finished call are forgotten.

    :param attempts: transactions it has begun, so that each has an id of its own
    """

    held: Held | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Client:
    """One process.

    :param calls: names of the functions below
    :param id: decides who is smaller where ids break ties; also the number of its process
    :param scope: whose the locks are that it takes
    :param wait: seconds it tries to take a lock
    :param host: only on one's own host one sees whether a process is gone; "" is a host of its own
    :param courtesy: seconds for which it lets in readers first; then its first look is of one listing
    :param before: what it has done, undisturbed, before the exploration begins
    :param clock_stands: its machine's clock stands still, as that of a virtual machine that is paused may
    """

    calls: tuple[str, ...]
    id: int
    scope: Literal["process", "run"] = "process"
    wait: float = 0.0
    host: str = ""
    before: tuple[str, ...] = ()
    courtesy: float = 0.0
    clock_stands: bool = False

    def clock(self, answers: Answers) -> AskingClock:
        return StandingClock(answers) if self.clock_stands else AskingClock(answers)

    def txn(self, attempt: int) -> str:
        return f"{self.id:016x}{attempt:016x}"

    def owner(self) -> Owner:
        return Owner(scope=self.scope, host=self.host or f"host of {self.id}", pid=self.id)


@dataclass(slots=True)
class Context:
    """What a call works with."""

    client: Client
    memory: Memory
    store: AskingStore
    runtime: Runtime

    def lease(self) -> Lease:
        if self.memory.held is None:
            raise RuntimeError("this call needs a lock")
        return self.memory.held.lease(self.store, self.runtime)


def _take(context: Context, mode: Mode, *, by_plan: bool = False) -> Memory:
    """Take the lock.

    :param by_plan: as one of several, so the first look is one that was taken for all of them.
    """
    client, attempts = context.client, context.memory.attempts

    def new_txn() -> str:
        nonlocal attempts
        attempts += 1
        return client.txn(attempts)

    lock = RWLock(
        context.store,
        RESOURCE,
        owner=client.owner(),
        lease=TERMS.lease,
        grace=TERMS.grace,
        runtime=replace(context.runtime, new_txn=new_txn),
    )
    held = None
    with contextlib.suppress(LockBusy, LockStateUnknown, StoreUnavailable):
        seen = look_into(context.store, [RESOURCE], runtime=context.runtime)[RESOURCE] if by_plan else None
        held = Held.of((lock.read if mode == "R" else lock.write)(wait=client.wait, renew=False, seen=seen))
    return Memory(held, attempts)


def _try(context: Context, mode: Mode) -> Memory:
    """One patient attempt."""
    client = context.client
    record = LockRecord(
        txn=client.txn(1), mode=mode, resource=RESOURCE, owner=client.owner(), purpose="", since=START, terms=TERMS
    )
    write = ExclusiveWrite(
        target=f"locks/{RESOURCE}/{WORDS[mode]}",
        content=lambda view: encode_record(record),
        verify=rwlock._RULES[mode],
    )
    runtime = replace(context.runtime, new_txn=lambda: client.txn(1))
    with contextlib.suppress(LockBusy, StoreError):
        commit = write.commit_to(context.store, terms=TERMS, patience=TERMS.drain, runtime=runtime)
        return Memory(Held.of(Lease(commit, terms=TERMS, runtime=runtime, outlives=False, renew=False)))
    return context.memory


def _check(context: Context) -> Memory:
    lease = context.lease()
    with contextlib.suppress(LockLost, LockStateUnknown):
        lease.check()
    return replace(context.memory, held=Held.of(lease))


def _renew(context: Context) -> Memory:
    lease = context.lease()
    with contextlib.suppress(LockLost, StoreError):
        lease.renew()
    return replace(context.memory, held=Held.of(lease))


def _release(context: Context) -> Memory:
    context.lease().release()
    return replace(context.memory, held=None)


def _commit(context: Context) -> Memory:
    """Remove the block from the archive, by the archive's own way to commit."""

    def plan(state: State) -> Change:
        del state
        return Change("truncation", remove=(BLOCK,))

    lease = context.lease()
    identity = Identity(id="archive", name="archive", created=START, format=1, writer="test")
    archive = Archive(cast("ObjectStore", context.store), identity, State())
    with contextlib.suppress(LockLost, LockStateUnknown, StoreUnavailable, HoldfastError):
        archive.add(plan, check=lease.check, fence=lease.txn)
    return replace(context.memory, held=Held.of(lease))


def _leave_intent(context: Context) -> Memory:
    """Have an intent left beside the lock, as one whose DELETE never arrived."""
    lease = context.lease()
    context.store.put(lease._folder.intent(lease.mode, lease.txn), lease._commit.body)
    return replace(context.memory, held=replace(Held.of(lease), intent_stays=True))


def _share(context: Context) -> Memory:
    """Be another process that renews the lock that client 1 took."""
    body = context.store.get(LockFolder(context.store, "locks", RESOURCE).target("W", handle("W").txn))
    held = Held(handle("W").txn, "W", body, 0.0, False, 0.0, None, True)
    return replace(context.memory, held=held)


def handle(mode: Mode) -> LeaseHandle:
    """The first lock that client 1 took, in the hands of others."""
    return LeaseHandle("locks", RESOURCE, mode, f"{1:016x}{1:016x}", TERMS.lease, TERMS.grace)


def _end(context: Context) -> Memory:
    with contextlib.suppress(LockNotFound, StoreError):
        end(context.store, RESOURCE, handle("W").txn, reason="asked to", runtime=context.runtime)
    return context.memory


def _release_handle(context: Context) -> Memory:
    with contextlib.suppress(StoreError):
        release_handle(context.store, handle("W"))
    return context.memory


def _keep(context: Context) -> Memory:
    """Renew the lock that client 1 took, as another process does for its run."""
    with contextlib.suppress(LockLost, StoreError):
        attach(context.store, handle("W"), runtime=context.runtime).renew()
    return context.memory


def _reap_told(context: Context) -> Memory:
    """Reap, told by a scheduler that every owner has finished, whatever its processes do."""
    with contextlib.suppress(StoreError):
        reap(context.store, finished=lambda owner: True, runtime=context.runtime)
    return context.memory


def _reap(context: Context) -> Memory:
    with contextlib.suppress(StoreError):
        reap(context.store, runtime=context.runtime)
    return context.memory


CALLS: dict[str, Callable[[Context], Memory]] = {
    "write": lambda context: _take(context, "W"),
    "read": lambda context: _take(context, "R"),
    "write by plan": lambda context: _take(context, "W", by_plan=True),
    "read by plan": lambda context: _take(context, "R", by_plan=True),
    "try to write": lambda context: _try(context, "W"),
    "try to read": lambda context: _try(context, "R"),
    "check": _check,
    "renew": _renew,
    "release": _release,
    "commit": _commit,
    "end": _end,
    "release handle": _release_handle,
    "keep": _keep,
    "reap": _reap,
    "reap what has finished": _reap_told,
    "leave intent": _leave_intent,
    "share": _share,
}

UNDER_A_LOCK = frozenset({"check", "renew", "release", "commit"})


def run(
    client: Client,
    call: str,
    memory: Memory,
    recorded: Sequence[Answer],
    *,
    ordered: bool,
    ask: Callable[[Question], Answer] | None = None,
) -> Question | Memory:
    """Run one call with these answers: its next question, or what the client keeps when it has ended."""
    answers = Answers(recorded, ask)
    store = AskingStore(answers, listing_is_ordered=ordered)
    runtime = Runtime(clock=client.clock(answers), jitter=lambda: 0.5, courtesy=client.courtesy)
    asking = _running.set((client, answers))
    try:
        return CALLS[call](Context(client, memory, store, runtime))
    except Unanswered:
        if answers.open is None:
            raise
        return answers.open
    finally:
        _running.reset(asking)


_running: ContextVar[tuple[Client, Answers]] = ContextVar("running")


def process_is_gone(owner: Owner) -> bool:
    """Stands in for :func:`locking.owner.process_is_gone`, which asks the machine."""
    client, answers = _running.get()
    return owner.host == client.owner().host and bool(answers(Question("gone", str(owner.pid))))


def still_holds(client: Client, held: Held, ask: Callable[[Question], Answer], *, ordered: bool) -> bool:
    """Whether ``check()``, started now by the client and answered at once, would succeed."""
    answers = Answers((), ask)
    store = AskingStore(answers, listing_is_ordered=ordered)
    try:
        held.lease(store, Runtime(clock=client.clock(answers))).check()
    except LockLost:
        return False
    return True


def attached_holds(mode: Mode, ask: Callable[[Question], Answer], *, ordered: bool) -> bool:
    """The same of the lock that client 1 took, for a process that works under it."""
    answers = Answers((), ask)
    store = AskingStore(answers, listing_is_ordered=ordered)
    try:
        attach(store, handle(mode), runtime=Runtime(clock=AskingClock(answers))).check()
    except LockLost:
        return False
    return True


def commit_id() -> str:
    """Stands in for ``uuid.uuid4`` in the archive: each client makes one commit."""
    return f"commit of {_running.get()[0].id}"
