from __future__ import annotations

import pytest

from holdfast.archive.locks.lock_table import AVAILABLE, ORDER, PLANS, TABLE, PlannedLock, full_plan, plan
from holdfast.common.errors import UsageError
from holdfast.storage import ObjectStore
from locking import RWLock, blockers, inspect


def test_a_vacuum_holds_only_what_it_needs_from_start_to_end() -> None:
    held = [(lock.resource, lock.mode) for lock in plan("vacuum", ["a"])]
    assert held == [("format", "R"), ("maintenance", "W"), ("replica", "W")]
    whole = [(lock.resource, lock.mode, bool(lock.when)) for lock in full_plan("vacuum", ["b", "a"])]
    assert whole[2:4] == [("ingest-a", "W", True), ("ingest-b", "W", True)]
    assert whole[4:] == [("replica", "W", False), ("history", "W", True)]


@pytest.mark.parametrize("operation", sorted(PLANS))
def test_every_plan_takes_its_locks_in_the_one_order(operation: str) -> None:
    names = [lock.resource.partition("-")[0] for lock in full_plan(operation, ["a", "b"])]
    assert [ORDER.index(name) for name in names] == sorted(ORDER.index(name) for name in names)
    assert set(PLANS[operation]) <= set(ORDER)


def test_each_operation_stands_in_one_row() -> None:
    names = [name for row in TABLE for name in row.operations]
    assert len(names) == len(set(names))
    assert set(names) >= AVAILABLE


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="backup"):
        plan("bakcup")


def test_a_planned_lock_is_blocked_by_what_the_locks_themselves_would_name(store: ObjectStore) -> None:
    with RWLock(store, "a").read(wait=0), RWLock(store, "b").write(wait=0):
        store.put("locks/c/note", b"")
        infos = inspect(store)
        for resource in ("a", "b", "c", "d"):
            shared = [info.txn for info in infos if PlannedLock(resource, "R").is_blocked_by(info)]
            alone = [info.txn for info in infos if PlannedLock(resource, "W").is_blocked_by(info)]
            assert shared == [info.txn for info in blockers(store, resource, mode="R")]
            assert alone == [info.txn for info in blockers(store, resource, mode="W")]


def test_what_is_over_blocks_nothing(store: ObjectStore) -> None:
    lease = RWLock(store, "a").write(wait=0)
    store.put(f"locks/a/DEAD.{lease.txn}", b"")
    (info,) = inspect(store)
    assert not PlannedLock("a", "W").is_blocked_by(info)
    lease.release()
