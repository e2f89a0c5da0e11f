"""Two clients, every order of their requests: never do both hold what excludes the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import pytest

from locking import Lease, LockBusy, RWLock
from locking import rwlock as rwlock_module
from locking.names import excludes
from locking.rules import Ruling, Verdict, View
from locking.store import Listing
from tests.support.locks.interleaving import Schedule, Turns, interleavings, run_schedule
from tests.support.locks.lockstore import MemoryStore


class SteppedStore(MemoryStore):
    """Stops before each request; a listing may be read in two steps instead of as a snapshot."""

    def __init__(self, turns: Turns, reading: str, *, listing_is_ordered: bool) -> None:
        super().__init__(listing_is_ordered=listing_is_ordered)
        self._reading = reading
        self.before = lambda request: turns.step()
        self._turns = turns

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        if self._reading == "snapshot":
            return super().list(prefix, most=most)
        halves = ["", "READ"] if self._reading == "in key order" else ["READ", ""]
        first = super().list(prefix, most=most)
        second = super().list(prefix, most=most)
        kept = [
            info
            for half, listing in zip(halves, (first, second), strict=True)
            for info in listing.objects
            if (info.key.removeprefix(prefix) >= "READ") == (half == "READ")
        ]
        return Listing(tuple(sorted(kept, key=lambda info: info.key)), first.now)


def violations(
    modes: Sequence[str], reading: str, *, ordered: bool, switches: int | None, rounds: int = 1
) -> tuple[int, list[list[int]]]:
    """How many runs there were, and the orders of turns in which two held what excludes the other."""
    runs, found = 0, []
    held: list[Lease] = []

    def run(start: Sequence[int]) -> Schedule:
        held.clear()
        turns = Turns(len(modes))
        store = SteppedStore(turns, reading, listing_is_ordered=ordered)
        runtime = store.time.runtime()

        def client(mode: str) -> Callable[[], None]:
            def act() -> None:
                for number in range(rounds):
                    lease = take(RWLock(store, "r", runtime=runtime), mode)
                    if lease is not None and number + 1 == rounds:
                        held.append(lease)
                    elif lease is not None:
                        lease.release()

            return act

        return run_schedule([client(mode) for mode in modes], turns, start)

    for done in interleavings(run, switches=switches):
        runs += 1
        # Time stands still here, so a lock that was taken is held: check() must not be needed to notice.
        if any(excludes(one.mode, other.mode) for one, other in combinations(held, 2)):
            found.append(done.turns)
    return runs, found


def take(lock: RWLock, mode: str) -> Lease | None:
    try:
        return (lock.read if mode == "R" else lock.write)(wait=0, renew=False)
    except LockBusy:
        return None


@pytest.mark.parametrize("modes", ["WW", "RW"])
def test_two_clients_never_exclude_each_other_and_both_hold(modes: str) -> None:
    runs, found = violations(modes, "snapshot", ordered=True, switches=None)
    assert runs > 100
    assert not found, found[0]


@pytest.mark.slow
@pytest.mark.parametrize("modes", ["WW", pytest.param("RW", marks=pytest.mark.exhaustive)])
def test_nor_where_listings_are_read_in_key_order_while_others_write(modes: str) -> None:
    runs, found = violations(modes, "in key order", ordered=True, switches=4)
    assert runs > 100
    assert not found, found[0]


@pytest.mark.slow
@pytest.mark.parametrize("modes", [pytest.param("WW", marks=pytest.mark.exhaustive), "RW"])
def test_nor_where_listings_are_in_no_order_and_two_are_united(modes: str) -> None:
    runs, found = violations(modes, "in no order", ordered=False, switches=3)
    assert runs > 100
    assert not found, found[0]


@pytest.mark.slow
def test_nor_where_one_had_held_and_released_before() -> None:
    runs, found = violations("WW", "in key order", ordered=True, switches=2, rounds=2)
    assert runs > 50
    assert not found, found[0]


def test_one_listing_in_no_order_is_not_enough() -> None:
    _, found = violations("WW", "in no order", ordered=True, switches=3)
    assert found


@pytest.mark.slow
def test_the_papers_read_lock_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # It looks for writers under a path nobody uses, so it always finds the way clear.
    def papers_rule(view: View) -> Ruling:
        del view
        return Ruling(Verdict.CLEAR)

    monkeypatch.setitem(rwlock_module._RULES, "R", papers_rule)
    _, found = violations("RW", "snapshot", ordered=True, switches=None)
    assert found
