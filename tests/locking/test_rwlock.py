"""Who may hold a lock together with whom, what an acquisition costs, and what the others are told."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest

from locking import Lease, LockBusy, LockInfo, LockLost, LockStateUnknown, Mutex, Owner, Runtime, RWLock
from locking.rwlock import TROUBLE
from locking.store import StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.locks.lockstore import MemoryStore, Request


def lock(
    store: MemoryStore, runtime: Runtime, resource: str = "history", *, lease: float = 120, grace: float = 60
) -> RWLock:
    return RWLock(store, resource, runtime=runtime, lease=lease, grace=grace)


@pytest.fixture
def history(store: MemoryStore, runtime: Runtime) -> RWLock:
    return lock(store, runtime)


def test_a_writer_excludes_writers_and_readers_of_its_resource_and_readers_exclude_it(history: RWLock) -> None:
    # The paper computes the write lock's path from the reader's own target, so they never meet there.
    with history.read(wait=0, renew=False), pytest.raises(LockBusy):
        history.write(wait=0, renew=False)
    with history.write(wait=0, renew=False):
        with pytest.raises(LockBusy):
            history.write(wait=0, renew=False)
        with pytest.raises(LockBusy):
            history.read(wait=0, renew=False)
    history.write(wait=0, renew=False).check()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_who_could_not_undo_an_attempt_is_not_in_its_own_way_when_the_store_is_back(
    store: MemoryStore, history: RWLock, mode: str
) -> None:
    """Its process lives, so nobody else would end what it has left before that expires."""
    since: list[float] = []

    def away(request: Request) -> None:
        if since or (request.word, request.name) in (("put", "WRIT"), ("put", "READ")):
            since.append(store.time.now)
            if store.time.now - since[0] < 5:
                raise StoreOutcomeUnknown("no answer")

    store.before = away  # the intent is there; the target is not, nor is anything that would undo the attempt
    take = history.read if mode == "read" else history.write
    lease = take(wait=20, renew=False)
    lease.check()
    assert store.time.now < 15
    lease.release()
    assert [each for each in store.names() if each != "DEAD"] == []


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_lock_that_could_not_be_released_is_in_the_way_of_others_and_not_of_its_own_process(
    store: MemoryStore, runtime: Runtime, mode: str
) -> None:
    lease = lock(store, runtime).write(wait=0, renew=False)

    def away(request: Request) -> None:
        raise StoreUnavailable("no answer")

    store.before = away
    lease.release()
    store.before = lambda request: None
    another = Runtime(clock=runtime.clock, jitter=runtime.jitter, new_txn=lambda: "f" * 32)
    with pytest.raises(LockBusy):
        lock(store, another).write(wait=0, renew=False)
    mine = lock(store, runtime)
    again = mine.read(wait=0, renew=False) if mode == "read" else mine.write(wait=0, renew=False)
    again.check()
    with pytest.raises(LockLost):
        lease.check()
    again.release()
    assert [each for each in store.names() if each != "DEAD"] == []


def test_readers_share(history: RWLock) -> None:
    with history.read(wait=0, renew=False) as one, history.read(wait=0, renew=False) as other:
        one.check()
        other.check()
        assert (one.mode, one.resource) == ("R", "history")
        assert one.txn != other.txn


def test_roots_are_apart(store: MemoryStore, runtime: Runtime) -> None:
    with (
        RWLock(store, "a", runtime=runtime).write(wait=0, renew=False) as one,
        RWLock(store, "a", root="other/locks", runtime=runtime).write(wait=0, renew=False) as two,
    ):
        one.check()
        two.check()


def test_a_mutex_is_the_write_lock_of_its_resource(store: MemoryStore, runtime: Runtime, history: RWLock) -> None:
    with Mutex(store, "history", runtime=runtime).acquire(wait=0, renew=False) as lease:
        assert lease.mode == "W"
        with pytest.raises(LockBusy):
            history.read(wait=0, renew=False)


@pytest.mark.parametrize("mode", ["read", "write"])
def test_an_uncontended_lock_costs_five_requests_and_one_to_release(
    store: MemoryStore, history: RWLock, mode: str
) -> None:
    word = {"read": "READ", "write": "WRIT"}[mode]
    lease = getattr(history, mode)(wait=0, renew=False)
    assert store.words() == ["list", "put INTENT", "list", f"put {word}", "delete INTENT"]
    store.forget()
    lease.release()
    assert store.words() == [f"delete {word}"]
    assert store.objects == {}


def test_where_listings_are_unordered_each_check_takes_two(runtime: Runtime) -> None:
    store = MemoryStore(listing_is_ordered=False)
    lease = lock(store, store.time.runtime()).write(wait=0, renew=False)
    assert store.words() == ["list", "list", "put INTENT", "list", "list", "put WRIT", "delete INTENT"]
    store.forget()
    lease.check()
    assert store.words() == ["list", "list"]
    store.forget()
    lease.renew()
    assert store.words() == ["list", "touch WRIT"]
    store.forget()
    lease.release()
    assert store.words() == ["delete WRIT"]


def test_who_is_in_the_way_is_named(store: MemoryStore, runtime: Runtime) -> None:
    owner = Owner(scope="task", dag_id="backup", run_id="manual_1", task_id="copy", map_index=3, user="ann")
    held = RWLock(store, "history", owner=owner, runtime=runtime).write(purpose="truncation", wait=0, renew=False)
    store.time.sleep(7)
    with pytest.raises(LockBusy) as caught:
        lock(store, runtime).read(wait=0, renew=False)
    (blocker,) = caught.value.blockers
    assert (blocker.resource, blocker.mode, blocker.txn) == ("history", "W", held.txn)
    assert (blocker.state, blocker.age_s, blocker.expires_in_s) == ("held", 7.0, 173.0)
    assert blocker.owner is not None
    assert blocker.owner.dag_id == "backup"
    for said in ("history", "writing", "truncation", "copy[3]", "backup", "manual_1", "ann", "2026-01-01 00:00:00"):
        assert said in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert again.blockers == caught.value.blockers


def test_a_crowd_in_the_way_is_not_named_one_by_one(store: MemoryStore, history: RWLock) -> None:
    for _ in range(8):
        history.read(wait=0, renew=False)
    with pytest.raises(LockBusy, match="and 3 more") as caught:
        history.write(wait=0, renew=False)
    assert len(caught.value.blockers) == 8


def test_waiting_ends_when_the_time_is_over(store: MemoryStore, history: RWLock) -> None:
    with history.write(wait=0, renew=False):
        began = store.time.now
        with pytest.raises(LockBusy):
            history.read(wait=10, renew=False)
        assert store.time.now - began == pytest.approx(10)


def test_waiting_zero_tries_once(store: MemoryStore, history: RWLock) -> None:
    with history.write(wait=0, renew=False):
        store.forget()
        with pytest.raises(LockBusy):
            history.read(wait=0, renew=False)
        assert store.words() == ["list", "get WRIT"]
        assert store.time.now == 0


def test_who_waits_gets_the_lock_once_it_is_free(store: MemoryStore, history: RWLock) -> None:
    held = history.write(wait=0, renew=False)

    def release_later(request: Request) -> None:
        if store.time.now > 5:
            store.before = lambda request: None
            held.release()

    store.before = release_later
    history.read(wait=30, renew=False).check()
    assert store.time.now < 10


def test_a_writer_keeps_new_readers_out_while_it_waits_for_the_old(store: MemoryStore, history: RWLock) -> None:
    reading = history.read(wait=0, renew=False)
    refused: list[LockInfo] = []

    def act(request: Request) -> None:
        store.before = lambda request: None
        if store.time.now > 3:
            reading.release()
            return
        if "INTENT.WRIT" in store.names():
            with pytest.raises(LockBusy) as caught:
                history.read(wait=0, renew=False)
            refused.extend(caught.value.blockers)
        store.before = act

    store.before = act
    history.write(wait=30, renew=False).check()
    assert {blocker.state for blocker in refused} == {"intent"}


def test_a_writer_gives_way_to_readers_that_do_not_finish(store: MemoryStore, runtime: Runtime) -> None:
    keen = lock(store, runtime, lease=300)
    with keen.read(wait=0, renew=False):
        with pytest.raises(LockBusy):
            keen.write(wait=59, renew=False)
        assert store.names() == ["READ"]
        keen.read(wait=0, renew=False).release()


def test_a_waiting_writer_lets_readers_in_between_for_as_long_as_it_kept_them_out(
    store: MemoryStore, runtime: Runtime
) -> None:
    keen = lock(store, runtime, lease=600)
    held: list[float] = []
    announced = False

    def watch(request: Request) -> None:
        nonlocal announced
        now = "INTENT.WRIT" in store.names()
        if now != announced:
            held.append(store.time.now)
        announced = now

    with keen.read(wait=0, renew=False):
        store.after = watch
        with pytest.raises(LockBusy):
            keen.write(wait=200, renew=False)
    first_in, first_out, second_in = held[:3]
    assert first_out - first_in == pytest.approx(60, abs=2)
    assert second_in - first_out == pytest.approx(30, abs=2)  # half: the test's jitter


@pytest.mark.parametrize(
    "name", ["note.txt", "WRIT", "WRIT.1", "INTENT.x", "sub/WRIT." + "0" * 32, "DEAD." + "0" * 31, "WRIT." + "A" * 32]
)
def test_a_foreign_object_in_the_folder_keeps_everybody_out(store: MemoryStore, history: RWLock, name: str) -> None:
    store.place(f"locks/history/{name}", b"")
    for take in (history.read, history.write):
        with pytest.raises(LockBusy, match=name) as caught:
            take(wait=0, renew=False)
        assert [blocker.state for blocker in caught.value.blockers] == ["foreign"]
    assert [key for key in store.objects if not key.endswith(name)] == []


@pytest.mark.parametrize("error", [StoreUnavailable, StoreOutcomeUnknown])
def test_a_store_that_fails_for_a_while_is_asked_again(
    store: MemoryStore, history: RWLock, error: type[StoreError]
) -> None:
    def fail(request: Request) -> None:
        if store.time.now < 3:
            raise error("not now")

    store.before = fail
    history.write(wait=10, renew=False).check()


def test_a_store_that_goes_on_failing_is_reported(store: MemoryStore, history: RWLock) -> None:
    def fail(request: Request) -> None:
        raise StoreUnavailable("not now")

    store.before = fail
    with pytest.raises(StoreUnavailable):
        history.write(wait=3, renew=False)
    assert store.time.now == pytest.approx(TROUBLE)
    with pytest.raises(StoreUnavailable):
        history.write(wait=2 * TROUBLE, renew=False)
    assert store.time.now == pytest.approx(3 * TROUBLE)


def test_who_waits_for_nobody_waits_for_a_busy_store(store: MemoryStore, history: RWLock) -> None:
    refused = iter([5.0, 0.0])

    def fail(request: Request) -> None:
        for seconds in refused:
            error = StoreUnavailable("slow down")
            error.retry_after = seconds
            raise error

    store.before = fail
    with history.write(wait=0, renew=False) as lease:
        assert store.time.now >= 5, "as long as the store asked for"
        with pytest.raises(LockBusy):
            history.write(wait=0, renew=False)
        lease.check()


def test_a_store_that_asks_for_more_time_than_there_is_ends_the_wait_at_once(
    store: MemoryStore, history: RWLock
) -> None:
    def fail(request: Request) -> None:
        error = StoreUnavailable("slow down")
        error.retry_after = 60.0
        raise error

    store.before = fail
    with pytest.raises(StoreUnavailable):
        history.write(wait=0, renew=False)
    assert store.time.now == 0


def test_an_outcome_that_stays_unknown_is_reported_as_such(store: MemoryStore, history: RWLock) -> None:
    def lose_answer(request: Request) -> None:
        if request.word == "put":
            raise StoreOutcomeUnknown("no answer")

    store.after = lose_answer
    with pytest.raises(LockStateUnknown):
        history.write(wait=1, renew=False)


# Whether it is held.


@pytest.mark.parametrize("take", ["read", "write"])
def test_a_lock_is_locked_while_somebody_holds_it(history: RWLock, take: str) -> None:
    assert not history.locked()
    with getattr(history, take)(wait=0, renew=False):
        assert history.locked()
    assert not history.locked()


def test_who_only_wants_a_lock_does_not_hold_it_and_what_nobody_can_read_does(
    store: MemoryStore, history: RWLock
) -> None:
    store.place("locks/history/INTENT.WRIT." + "f" * 32, store_record(store, "f" * 32))
    assert not history.locked()
    store.place("locks/history/note", b"")
    assert history.locked()


def store_record(store: MemoryStore, txn: str) -> bytes:
    from locking.record import LockRecord, encode_record
    from locking.terms import Terms

    return encode_record(
        LockRecord(
            txn=txn, mode="W", resource="history", owner=Owner(), purpose="", since=store.time.date(), terms=Terms()
        )
    )


@pytest.mark.parametrize(("scope", "held"), [("process", False), ("run", True)])
def test_a_lock_whose_process_is_gone_is_held_by_nobody_but_a_run(
    history: RWLock, monkeypatch: pytest.MonkeyPatch, store: MemoryStore, runtime: Runtime, scope: str, held: bool
) -> None:
    owner = Owner(scope=scope)  # type: ignore[arg-type]
    RWLock(store, "history", owner=owner, runtime=runtime).write(wait=0, renew=False)
    monkeypatch.setattr("locking.rwlock.process_is_gone", lambda owner: True)
    assert history.locked() is held


def test_an_expired_lock_is_held_by_nobody(store: MemoryStore, history: RWLock) -> None:
    history.write(wait=0, renew=False)
    store.time.sleep(181)
    assert not history.locked()


# For ever.


def test_who_waits_for_ever_waits_for_holders_and_for_the_store(store: MemoryStore, history: RWLock) -> None:
    held = history.write(wait=0, renew=False)
    since: list[float] = []

    def later(request: Request) -> None:
        if store.time.now > 5_000:
            return
        if store.time.now > 4_500:
            since.append(store.time.now)
            raise StoreUnavailable("503")
        if not since and request.word == "list":
            store.objects[f"locks/history/WRIT.{held.txn}"] = (
                store.objects[f"locks/history/WRIT.{held.txn}"][0],
                store.time.date(),
            )

    store.before = later
    history.write(wait=None, renew=False).check()
    assert since
    assert store.time.now > 5_000


# Asynchronous code. The locks of these tests are on the real clock, since a thread waits by it.


def test_an_asynchronous_block_holds_the_lock_and_releases_it(store: MemoryStore) -> None:
    async def work() -> Lease:
        async with RWLock(store, "r").write_async(purpose="work", wait=0) as lease:
            await asyncio.to_thread(lease.check)
            with pytest.raises(LockBusy, match="for work"):
                async with Mutex(store, "r").acquire_async(wait=0):
                    raise AssertionError("two writers")
        async with RWLock(store, "r").read_async(wait=0), RWLock(store, "r").read_async(wait=0):
            assert store.names() == ["READ", "READ"]
        return lease

    lease = asyncio.run(work())
    assert store.objects == {}
    with pytest.raises(LockLost, match="released"):
        lease.check()


def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing_behind(store: MemoryStore) -> None:
    waits = threading.Event()

    def watch(request: Request) -> None:
        if store.words().count("list") > 2:
            waits.set()

    async def wait() -> None:
        async with Mutex(store, "r").acquire_async(wait=None):
            raise AssertionError("two writers")

    async def work() -> None:
        task = asyncio.create_task(wait())
        await asyncio.to_thread(waits.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Mutex(store, "r").acquire(wait=0):
        store.forget()
        store.after = watch
        asyncio.run(work())
    _end_of_thread("lock r")
    assert store.objects == {}


def test_a_lock_that_comes_after_its_task_was_cancelled_is_released(store: MemoryStore) -> None:
    taking, cancelled = threading.Event(), threading.Event()

    def hang(request: Request) -> None:
        if (request.word, request.name) == ("put", "WRIT"):
            taking.set()
            cancelled.wait(10)

    async def take() -> None:
        async with Mutex(store, "r").acquire_async(wait=0):
            raise AssertionError("its task was cancelled")

    async def work() -> None:
        task = asyncio.create_task(take())
        await asyncio.to_thread(taking.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()

    store.before = hang
    asyncio.run(work())
    _end_of_thread("lock r")
    assert store.objects == {}


def test_more_tasks_may_wait_than_the_event_loop_has_threads(store: MemoryStore) -> None:
    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(40):
                tasks.create_task(once())

    async def once() -> None:
        async with RWLock(store, "r").read_async(wait=None):
            pass

    asyncio.run(work())
    assert store.objects == {}


def _end_of_thread(name: str) -> None:
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith(name)]:
        thread.join(10)
        assert not thread.is_alive()
