"""Whatever others put into a lock's folder, whatever the store answers and whatever its clock shows.

After each it must hold: the error says what is wrong, no two clients believe to hold what only one may, and nothing
stays for ever.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from locking import (
    InvalidLockName,
    Lease,
    LockBusy,
    LockLost,
    Mutex,
    Owner,
    Runtime,
    RWLock,
    attach,
    end,
    inspect,
    reap,
    release_handle,
)
from locking.attach import AttachedLease
from locking.store import Listing, ObjectNotFound, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.locks.aftermath import EXPIRY, Checked, must_be_safe, outcome, stands
from tests.support.locks.lockstore import Counter, FakeTime, MemoryStore, Request

DAY = 86_400.0
OTHER = "f" * 32


# Names.


@pytest.mark.parametrize(
    "name",
    ["a" * 1024, "a/../b", "a\\b", "r\u0301", "ré", "\u0130", "r\u200b", "\uff11", "\ud800", "a\x7f", ".", "-", "_"],
)
def test_a_name_that_is_none_is_refused_in_few_words_and_before_any_request(store: MemoryStore, name: str) -> None:
    for lock in (RWLock, Mutex):
        with pytest.raises(InvalidLockName, match="cannot name a resource") as caught:
            lock(store, name)
        assert len(str(caught.value)) < 500
        assert str(caught.value).isprintable()
    assert store.requests == []


@pytest.mark.parametrize(
    "name", ["WRIT", "READ." + OTHER, "INTENT.WRIT." + OTHER, "DEAD." + OTHER, "a..b", "locks", "0", "z" * 128, "A-_."]
)
def test_a_name_like_our_own_words_is_a_name_like_any_other(store: MemoryStore, runtime: Runtime, name: str) -> None:
    other = RWLock(store, "locks", root="locks/more", runtime=runtime).read(wait=0, renew=False)
    held = RWLock(store, name, runtime=runtime).write(wait=0, renew=False)
    with pytest.raises(LockBusy):
        RWLock(store, name, runtime=runtime).read(wait=0, renew=False)
    assert (name, held.txn, "held") in [(info.resource, info.txn, info.state) for info in inspect(store)]
    reap(store, runtime=runtime)
    held.check()
    held.release()
    other.check()


# Foreign objects. That acquirers are kept out is shown in test_rwlock.py.


@pytest.mark.parametrize("name", ["note.txt", "", "WRIT." + "F" * 32, "sub/WRIT." + OTHER, "DEAD.", "ü"])
def test_a_holder_keeps_its_lock_beside_a_foreign_object_and_nobody_removes_that(
    store: MemoryStore, runtime: Runtime, name: str
) -> None:
    held = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    store.place(f"locks/r/{name}", b"not ours")
    held.renew()
    held.check()
    held.release()
    store.time.sleep(100 * DAY)
    with pytest.raises(LockBusy, match="not an object of ours"):
        RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    reap(store, runtime=runtime)
    assert list(store.objects) == [f"locks/r/{name}"]


def test_a_foreign_object_that_appears_after_the_first_look_stops_the_attempt(
    store: MemoryStore, runtime: Runtime
) -> None:
    def appear(request: Request) -> None:
        if request.word == "put":
            store.place("locks/r/note", b"")

    store.before = appear
    with pytest.raises(LockBusy, match="locks/r/note"):
        RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    assert list(store.objects) == ["locks/r/note"]


# Records. That damaged and newer ones keep others out for ever is shown in test_rwlock.py.


@pytest.mark.parametrize("body", [b"", b"{", b'{"version": 9}', b"\0" * 4096, b"[" * 100_000, b'{"version": 1e999}'])
def test_a_record_that_was_damaged_is_named_with_its_cause_and_can_be_ended(
    store: MemoryStore, runtime: Runtime, body: bytes
) -> None:
    held = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    store.place(f"locks/r/WRIT.{held.txn}", body)
    held.check()  # it knows what it wrote
    with pytest.raises(LockBusy, match=held.txn) as caught:
        RWLock(store, "r", runtime=runtime).read(wait=0, renew=False)
    assert caught.value.blockers[0].detail in str(caught.value)
    end(store, "r", held.txn, reason="damaged", runtime=runtime)
    must_be_safe(store, store.time, runtime, held)


def test_a_renewal_mends_a_damaged_record(store: MemoryStore, runtime: Runtime) -> None:
    held = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    store.place(f"locks/r/WRIT.{held.txn}", b"")
    held.renew()
    assert [info.state for info in inspect(store)] == ["held"]


@pytest.mark.parametrize("body", [b"", b"{", b'{"version": 9}', b"\xff"])
def test_a_marker_ends_its_transaction_whatever_it_says(store: MemoryStore, runtime: Runtime, body: bytes) -> None:
    held = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    store.place(f"locks/r/DEAD.{held.txn}", body)
    with pytest.raises(LockLost):
        held.check()
    must_be_safe(store, store.time, runtime, held)


# Clocks.


@pytest.mark.parametrize("shift", [DAY, -DAY])
def test_the_wall_clock_of_a_client_does_not_matter(
    store: MemoryStore, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, shift: float
) -> None:
    real = wall.time
    held = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    monkeypatch.setattr(wall, "time", lambda: real() + shift)
    monkeypatch.setattr(wall, "time_ns", lambda: int((real() + shift) * 1e9))
    held.check()
    held.renew()
    with pytest.raises(LockBusy, match="2026-01-01 00:00:00"):
        RWLock(store, "r", runtime=runtime).read(wait=0, renew=False)
    assert reap(store, runtime=runtime) == []
    held.check()


class OtherTime(FakeTime):
    """A store's time that can be set without that of the clients moving."""

    shift = 0.0

    def date(self) -> datetime:
        return super().date() + timedelta(seconds=self.shift)


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("shift", [DAY, -DAY])
@pytest.mark.parametrize("back", [True, False])
def test_a_store_whose_clock_jumps_lets_no_two_in(mode: str, ordered: bool, shift: float, back: bool) -> None:
    """At every request of a lock's life, once for good and once for that request alone."""
    number = 0
    while True:
        time = OtherTime()
        store, runtime = MemoryStore(time, listing_is_ordered=ordered), time.runtime()
        jumps = _at(number, lambda time=time: setattr(time, "shift", shift))  # type: ignore[misc]
        store.before = jumps
        if back:
            store.after = lambda request, time=time: setattr(time, "shift", 0.0)  # type: ignore[misc]
        held: list[Lease] = []

        def live(store: MemoryStore = store, runtime: Runtime = runtime, held: list[Lease] = held) -> None:
            held.append(getattr(RWLock(store, "r", runtime=runtime), mode)(wait=0, renew=False))
            held[0].check()
            held[0].renew()

        outcome(live)
        if len(store.requests) <= number:
            return
        store.before = store.after = lambda request: None
        # A clock that was set back has to catch up before anything is over by it.
        _clock_jump_aftermath(store, time, runtime, held[0] if held else None)
        number += 1


def _clock_jump_aftermath(store: MemoryStore, time: OtherTime, runtime: Runtime, first: Lease | None) -> None:
    found = outcome(lambda: RWLock(store, "r", runtime=runtime).write(wait=0, renew=False))
    second = found if isinstance(found, Lease) else None
    assert not (stands(first) and stands(second))
    time.sleep(2 * DAY)
    must_be_safe(store, time, runtime, first)


# What a store can answer, to every request.


@dataclass(frozen=True)
class Fault:
    """What becomes of a request.

    :param error: is raised
    :param effect: "none", "now", "late" once others have gone on, or "very late" when they may have ended us
    """

    error: StoreError
    effect: str = "none"


READ_FAULTS = [Fault(StoreDenied("403")), Fault(StoreUnavailable("503")), Fault(StoreError("no such bucket"))]
GONE = Fault(ObjectNotFound("404"))
WRITE_FAULTS = [
    *READ_FAULTS,
    *(Fault(StoreOutcomeUnknown("no answer"), effect) for effect in ("none", "now", "late", "very late")),
]
FAULTS = [*WRITE_FAULTS, GONE]


class FailingStore(MemoryStore):
    """Fails the requests that it is told to, counted from when it was told."""

    def __init__(self, *, listing_is_ordered: bool) -> None:
        super().__init__(FakeTime(), listing_is_ordered=listing_is_ordered)
        self.fault: Fault | None = None
        self.numbers: range = range(0)
        self.seen = 0
        self.late: list[Callable[[], None]] = []

    def tell(self, fault: Fault, numbers: range) -> None:
        self.fault, self.numbers, self.seen = fault, numbers, 0

    def work(self) -> None:
        self.fault = None

    def land(self) -> None:
        """Let what was under way take effect."""
        for effect in self.late:
            effect()
        self.late.clear()

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        self._meet("list", lambda: None)
        return super().list(prefix, most=most)

    def get(self, key: str) -> bytes:
        self._meet("get", lambda: None)
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        self._meet("put", lambda: self.place(key, body))
        super().put(key, body)

    def touch(self, key: str, body: bytes) -> None:
        self._meet("touch", lambda: self.place(key, body))
        super().touch(key, body)

    def delete(self, key: str) -> None:
        self._meet("delete", lambda: self.objects.pop(key, None))
        super().delete(key)

    def _meet(self, word: str, effect: Callable[[], object]) -> None:
        number, self.seen = self.seen, self.seen + 1
        if self.fault is None or number not in self.numbers:
            return
        if word in {"list", "get"} and self.fault not in READ_FAULTS and (word, self.fault) != ("get", GONE):
            return  # a read that was not answered is StoreUnavailable
        if self.fault.effect == "now":
            effect()
        if self.fault.effect.endswith("late"):
            self.late.append(lambda: (effect(), None)[1])
        raise self.fault.error


Operation = Callable[[FailingStore, Runtime], tuple[Checked | None, Callable[[], object]]]
"""Prepares one; returns who holds the lock already, and what to do, which may return a lease."""


LAST_OF_ACQUIRING = 4
"""The intent's DELETE: the lock is held by then, and what is left of the intent expires."""


def _acquire(mode: str, *, wait: float = 0.0, scope: str = "process", waiting_for: str = "") -> Operation:
    def prepare(store: FailingStore, runtime: Runtime) -> tuple[Checked | None, Callable[[], object]]:
        lock = RWLock(store, "r", owner=Owner(scope=scope), runtime=runtime)  # type: ignore[arg-type]
        if waiting_for:
            old = getattr(RWLock(store, "r", runtime=runtime, owner=ELSEWHERE), waiting_for)(wait=0, renew=False)
            assert old is not None
            store.time.sleep(EXPIRY + 1)
        return None, lambda: getattr(lock, mode)(wait=wait, renew=False)

    return prepare


def _with_lease(use: Callable[[FailingStore, Runtime, Lease], object], scope: str = "process") -> Operation:
    def prepare(store: FailingStore, runtime: Runtime) -> tuple[Checked | None, Callable[[], object]]:
        lock = RWLock(store, "r", owner=Owner(scope=scope), runtime=runtime)  # type: ignore[arg-type]
        lease = lock.write(wait=0, renew=False)
        return lease, lambda: use(store, runtime, lease)

    return prepare


def _attached(use: Callable[[AttachedLease], object]) -> Operation:
    def prepare(store: FailingStore, runtime: Runtime) -> tuple[Checked | None, Callable[[], object]]:
        lock = RWLock(store, "r", owner=Owner(scope="run"), runtime=runtime)
        lease = attach(store, lock.write(wait=0, renew=False).handle(), runtime=runtime)
        return lease, lambda: use(lease)

    return prepare


def _renew_and_release(store: FailingStore, runtime: Runtime, lease: Lease) -> None:
    outcome(lease.renew)
    lease.release()


ELSEWHERE = Owner(host="elsewhere", boot_id="another", pid_namespace="another", pid=1, process_start=1)
OPERATIONS: dict[str, Operation] = {
    "acquire to write": _acquire("write"),
    "acquire to read": _acquire("read"),
    "acquire with patience": _acquire("write", wait=5.0),
    "acquire for a run": _acquire("write", scope="run"),
    "acquire what a dead writer left": _acquire("read", waiting_for="write"),
    "acquire what a dead reader left": _acquire("write", waiting_for="read"),
    "check": _with_lease(lambda store, runtime, lease: lease.check()),
    "check from another process": _attached(lambda lease: lease.check()),
    "renew from another process": _attached(lambda lease: lease.renew()),
    "renew": _with_lease(lambda store, runtime, lease: lease.renew()),
    "renew and release": _with_lease(_renew_and_release),
    "release": _with_lease(lambda store, runtime, lease: lease.release()),
    "release a run's": _with_lease(lambda store, runtime, lease: lease.release(), "run"),
    "release from another process": _with_lease(
        lambda store, runtime, lease: release_handle(store, lease.handle()), "run"
    ),
    "end": _with_lease(lambda store, runtime, lease: end(store, "r", lease.txn, reason="", runtime=runtime)),
}


UNORDERED = frozenset({"acquire to write", "acquire what a dead reader left", "renew", "end"})
"""Of these, the four kinds in `make test` where a store lists in no order, and each look is two requests."""


@pytest.mark.parametrize(
    ("operation", "ordered"),
    [
        *((each, True) for each in OPERATIONS),
        *(pytest.param(each, False, marks=[] if each in UNORDERED else pytest.mark.exhaustive) for each in OPERATIONS),
    ],
)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{type(fault.error).__name__}-{fault.effect}")
def test_a_request_that_fails_leaves_no_lock_that_is_not_and_nothing_for_ever(
    operation: str, ordered: bool, lasting: bool, fault: Fault
) -> None:
    """At every request of the operation, and from every request of it on."""
    number = 0
    while True:
        store = FailingStore(listing_is_ordered=ordered)
        runtime = Runtime(clock=store.time, jitter=lambda: 0.5, new_txn=Counter())
        before, act = OPERATIONS[operation](store, runtime)
        store.tell(fault, range(number, 10**6 if lasting else number + 1))
        found: object = outcome(act)
        assert not isinstance(found, Exception) or _names(found, fault)
        seen, store.fault = store.seen, None
        first = found if isinstance(found, Lease) else before
        must_be_safe(store, store.time, runtime, first, land=store.land, after_expiry=fault.effect == "very late")
        if seen <= number:
            return
        number += 1


@pytest.mark.parametrize("operation", ["acquire to write", "acquire with patience", "check", "renew"])
@pytest.mark.parametrize("fault", [READ_FAULTS[0], READ_FAULTS[2]], ids=["denied", "no bucket"])
def test_what_will_not_get_better_is_not_tried_for_ever(operation: str, fault: Fault) -> None:
    number = 0
    while True:
        store = FailingStore(listing_is_ordered=True)
        _, act = OPERATIONS[operation](store, store.time.runtime())
        store.tell(fault, range(number, 10**6))
        found: object = outcome(act)
        if store.seen <= number:
            return
        assert isinstance(found, StoreError) or number == LAST_OF_ACQUIRING
        assert store.time.now == 0
        assert store.seen <= number + 10
        number += 1


def _names(error: Exception, fault: Fault) -> bool:
    """Whether the error tells what went wrong with the store, who is in the way, or that the lock is lost for it."""
    if isinstance(error, LockBusy):  # also an own attempt that could not be taken back
        return bool(error.blockers)
    return str(fault.error) in str(error) or (isinstance(error, LockLost) and fault == GONE)


def _at(number: int, action: Callable[[], None]) -> Callable[[Request], None]:
    """A hook that acts before the request of this number, counted from 0."""
    seen = iter(range(10**6))

    def hook(request: Request) -> None:
        del request
        if next(seen) == number:
            action()

    return hook
