"""How many requests each step takes, what an earlier look spares, and what writers spare who let readers in first."""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from locking import Lease, LockBusy, Owner, Runtime, RWLock, look_into
from locking.runtime import COURTESY
from locking.store import Listing
from locking.terms import CLOCK_STEP
from locking.transaction import FRESH
from tests.support.locks.lockstore import MemoryStore, Request

PAGE = 1000
"""Keys in one page of an S3 listing."""

CROWD = 1000


def lock(store: MemoryStore, runtime: Runtime, resource: str = "history") -> RWLock:
    return RWLock(store, resource, runtime=runtime)


@pytest.fixture
def history(store: MemoryStore, runtime: Runtime) -> RWLock:
    return lock(store, runtime)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_renewal_takes_at_most_two_requests(ordered: bool) -> None:
    store = MemoryStore(listing_is_ordered=ordered)
    for mode in ("read", "write"):
        with getattr(lock(store, store.time.runtime(), mode), mode)(wait=0, renew=False) as lease:
            store.forget()
            lease.renew()
            assert len(store.requests) <= 2


def test_a_run_scoped_release_takes_two_requests(store: MemoryStore, runtime: Runtime) -> None:
    lease = RWLock(store, "history", owner=Owner(scope="run"), runtime=runtime).write(wait=0, renew=False)
    store.forget()
    lease.release()
    assert store.words() == ["put DEAD", "delete WRIT"]


@pytest.mark.parametrize("mode", ["read", "write"])
def test_an_earlier_look_that_showed_nobody_in_the_way_spares_the_first(
    store: MemoryStore, runtime: Runtime, history: RWLock, mode: str
) -> None:
    seen = look_into(store, ["history"], runtime=runtime)["history"]
    store.forget()
    getattr(history, mode)(wait=0, renew=False, seen=seen).check()
    assert store.words()[:2] == ["put INTENT", "list"]


def test_an_earlier_look_that_is_not_fresh_spares_nothing(
    store: MemoryStore, runtime: Runtime, history: RWLock
) -> None:
    seen = look_into(store, ["history"], runtime=runtime)["history"]
    store.forget()
    store.time.sleep(FRESH + 0.1)
    history.write(wait=0, renew=False, seen=seen)
    assert store.words()[:2] == ["list", "put INTENT"]


@pytest.mark.parametrize("in_the_way", ["read", "write"])
def test_an_earlier_look_that_showed_somebody_refuses_nobody(
    store: MemoryStore, runtime: Runtime, history: RWLock, in_the_way: str
) -> None:
    with getattr(history, in_the_way)(wait=0, renew=False):
        seen = look_into(store, ["history"], runtime=runtime)["history"]
        store.forget()
        with pytest.raises(LockBusy):
            history.write(wait=0, renew=False, seen=seen)
        assert "put INTENT" not in store.words()
    history.write(wait=0, renew=False, seen=seen).check()


def test_an_earlier_look_serves_one_attempt(store: MemoryStore, runtime: Runtime, history: RWLock) -> None:
    seen = look_into(store, ["history"], runtime=runtime)["history"]
    held = history.write(wait=0, renew=False)
    store.forget()
    with pytest.raises(LockBusy):
        history.write(wait=FRESH / 2, renew=False, seen=seen)
    assert store.words().count("put INTENT") == 1
    held.check()


class PagedStore(MemoryStore):
    """Counts the pages that each thread's listings take.

    :param page: keys in one page.
    """

    def __init__(self, page: int = PAGE) -> None:
        super().__init__()
        self.page = page
        self.pages: Counter[str] = Counter()

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        listing = super().list(prefix, most=most)
        self.pages[threading.current_thread().name] += max(1, math.ceil(len(listing.objects) / self.page))
        return listing


def test_one_reader_beside_a_thousand_needs_three_pages_of_listings_and_two_to_check() -> None:
    store = PagedStore()
    for number in range(CROWD):
        store.place(f"locks/history/READ.{number + CROWD:032x}", b"")
    lease = lock(store, store.time.runtime()).read(wait=0, renew=False)
    assert len(store.requests) == 5
    assert store.pages.total() == 3
    store.pages.clear()
    lease.check()
    assert store.pages.total() == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crowd", "at_once"),
    [(200, 200), *(pytest.param(CROWD, each, marks=pytest.mark.exhaustive) for each in (CROWD, CROWD // 5))],
)
def test_each_of_a_pageful_of_readers_that_come_at_once_gets_in_with_at_most_four_pages(
    crowd: int, at_once: int
) -> None:
    # Each of the two looks sees at most an intent and a target of every other: less than two pages.
    store = PagedStore(page=crowd)
    chance = random.Random(at_once)
    runtime = store.time.runtime()
    leases: list[Lease] = []

    def read() -> None:
        leases.append(lock(store, runtime).read(wait=0, renew=False))

    take_turns(store, [read] * crowd, lambda waiting: chance.choice(waiting[:at_once]))
    assert len(leases) == crowd
    assert len(store.requests) == 5 * crowd
    assert max(store.pages.values()) <= 4
    assert sum(pages <= 3 for pages in store.pages.values()) > 0.9 * crowd
    store.pages.clear()
    leases[0].check()
    assert store.pages.total() == 1


def take_turns(store: MemoryStore, clients: Sequence[Callable[[], None]], choose: Callable[[list[int]], int]) -> None:
    """Run the clients, one step at a time; each waits before every request until it is chosen.

    Unlike :mod:`tests.support.locks.interleaving` it wakes nobody but the chosen one, as a crowd needs it.
    """
    turns = [threading.Semaphore(0) for _ in clients]
    stepped = threading.Semaphore(0)
    waiting = list(range(len(clients)))
    me = threading.local()

    def step(request: Request) -> None:
        del request
        stepped.release()
        turns[me.number].acquire()

    def run(number: int) -> None:
        me.number = number
        turns[number].acquire()
        try:
            clients[number]()
        finally:
            waiting.remove(number)
            stepped.release()

    store.before = step
    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in waiting]
    for thread in threads:
        thread.start()
    while waiting:
        turns[choose(waiting)].release()
        stepped.acquire()
    for thread in threads:
        thread.join()
    store.before = lambda request: None


@pytest.fixture
def courteous(runtime: Runtime) -> Runtime:
    return replace(runtime, courtesy=COURTESY)


def waits(store: MemoryStore, runtime: Runtime, wait: float) -> float:
    """Return after how long a writer that waits for a reader first keeps others out; it never does where it is 0."""
    began: list[float] = []

    def note(request: Request) -> None:
        if request.name == "INTENT" and request.word == "put" and not began:
            began.append(store.time.now)

    reader = RWLock(store, "r", runtime=runtime).read(wait=0, renew=False)
    store.after = note
    start = store.time.now
    with pytest.raises(LockBusy, match="r is held for reading"):
        RWLock(store, "r", runtime=runtime).write(wait=wait, renew=False)
    store.after = lambda request: None
    reader.release()
    return began[0] - start if began else 0.0


def test_a_writer_that_finds_a_reader_keeps_others_out_after_a_while(store: MemoryStore, courteous: Runtime) -> None:
    assert COURTESY <= waits(store, courteous, 30.0) < 2 * COURTESY + 2


def test_who_waits_for_a_short_time_is_courteous_for_a_part_of_it(store: MemoryStore, courteous: Runtime) -> None:
    assert 0.25 <= waits(store, courteous, 1.0) <= 1.0


def test_without_courtesy_it_keeps_them_out_at_once(store: MemoryStore, runtime: Runtime) -> None:
    assert waits(store, runtime, 30.0) == 0.0
    assert any(each.word == "put" and each.name == "INTENT" for each in store.requests)


def test_a_courteous_writer_gives_way_to_a_reader_that_came_between_its_looks(
    store: MemoryStore, courteous: Runtime
) -> None:
    readers: list[Request] = []

    def come(request: Request) -> None:
        if request.word == "put" and request.name == "INTENT" and not readers:
            store.before = lambda request: None
            store.place("locks/r/READ." + "f" * 32, b"{}")
            readers.append(request)

    def go(request: Request) -> None:
        if request.word == "delete" and request.name == "INTENT":
            store.objects.pop("locks/r/READ." + "f" * 32, None)

    store.before, store.after = come, go
    RWLock(store, "r", runtime=courteous).write(wait=30, renew=False).check()
    assert readers
    intents = [each for each in store.words() if each == "put INTENT"]
    assert len(intents) == 2  # the first one was withdrawn


def test_who_has_just_come_is_not_asked_who_they_are_by_one_who_may_wait(store: MemoryStore, runtime: Runtime) -> None:
    for _ in range(28):
        RWLock(store, "r", runtime=runtime).read(wait=0, renew=False)
    store.forget()

    def leave(request: Request) -> None:
        if request.word == "put":
            for key in [key for key in store.objects if key.startswith("locks/r/READ.")]:
                del store.objects[key]

    store.before = leave
    RWLock(store, "r", runtime=runtime).write(wait=30, renew=False)
    assert "get READ" not in store.words()


@pytest.mark.parametrize("wait", [0.0, CLOCK_STEP / 2])
def test_whoever_gives_up_names_all_who_are_in_the_way(store: MemoryStore, runtime: Runtime, wait: float) -> None:
    for purpose in ("one", "two"):
        RWLock(store, "r", runtime=runtime).read(wait=0, renew=False, purpose=purpose)
    with pytest.raises(LockBusy) as raised:
        RWLock(store, "r", runtime=runtime).write(wait=wait, renew=False)
    assert {each.purpose for each in raised.value.blockers} == {"one", "two"}


def look_first(ordered: bool, prepare: Callable[[MemoryStore], None]) -> list[str]:
    """Return the requests of a courteous reader."""
    store = MemoryStore(listing_is_ordered=ordered)
    prepare(store)
    store.forget()
    runtime = replace(store.time.runtime(), courtesy=COURTESY)
    runtime.new_txn()  # that of a lock which is there already
    RWLock(store, "r", runtime=runtime).read(wait=30, renew=False).check()
    return store.words()


def test_the_first_look_takes_one_listing_where_a_check_takes_two() -> None:
    requests = look_first(False, lambda store: None)
    assert requests[:4] == ["list", "put INTENT", "list", "list"]
    assert look_first(True, lambda store: None)[:3] == ["list", "put INTENT", "list"]


def test_what_is_over_is_ended_at_once_by_a_whole_look() -> None:
    def leave_a_lock(store: MemoryStore) -> None:
        RWLock(store, "r", runtime=store.time.runtime()).write(wait=0, renew=False)
        store.time.sleep(1000)

    requests = look_first(False, leave_a_lock)
    assert requests[:6] == ["list", "list", "list", "get WRIT", "put DEAD", "delete WRIT"]
