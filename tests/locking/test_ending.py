"""Ending one lock that is named, and all that are over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from locking import LockLost, LockNotFound, Owner, Runtime, RWLock, end, inspect, liveness, reap
from locking.record import decode_marker
from locking.store import StoreOutcomeUnknown
from tests.support.locks.lockstore import MemoryStore, Request

ELSEWHERE = Owner(scope="run", host="elsewhere", boot_id="another", pid_namespace="another", pid=1)

Lock = Callable[..., RWLock]


@pytest.fixture
def lock(store: MemoryStore, runtime: Runtime) -> Lock:
    return lambda resource="r", **options: RWLock(store, resource, runtime=runtime, **options)


@pytest.fixture
def gone() -> Owner:
    """A process of this machine that has ended."""
    code = "from locking import Owner; o = Owner().here(); print(o.pid, o.process_start)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return replace(Owner().here(), pid=int(said[0]), process_start=int(said[1]))


def forge_owner(store: MemoryStore, key: str, owner: Owner) -> None:
    """Make the record at ``key`` that of another process."""
    body, modified = store.objects[key]
    mine = Owner().here()
    forged = body
    for name in ("pid", "process_start"):
        forged = forged.replace(f'"{name}":{getattr(mine, name)}'.encode(), f'"{name}":{getattr(owner, name)}'.encode())
    assert forged != body
    store.objects[key] = (forged, modified)


def test_the_marker_stands_before_anything_is_deleted(store: MemoryStore, runtime: Runtime, lock: Lock) -> None:
    held = lock().write(wait=0, renew=False)
    store.forget()
    ended = end(store, "r", held.txn, reason="its host burnt", runtime=runtime)
    assert store.words() == ["list", "get WRIT", "put DEAD", "delete INTENT", "delete WRIT"]
    assert (ended.txn, ended.state, ended.mode) == (held.txn, "held", "W")
    marker = decode_marker(store.get(f"locks/r/DEAD.{held.txn}"))
    assert (marker.reason, marker.by.pid) == ("its host burnt", os.getpid())


def test_nothing_but_what_was_named_is_ended(store: MemoryStore, runtime: Runtime, lock: Lock) -> None:
    readers = [lock().read(wait=0, renew=False) for _ in range(3)]
    other = lock("other").write(wait=0, renew=False)
    end(store, "r", readers[1].txn, reason="", runtime=runtime)
    for lease in (readers[0], readers[2], other):
        lease.check()
    with pytest.raises(LockLost):
        readers[1].check()


@pytest.mark.parametrize("txn", ["f" * 32, "", "../other", "0" * 31])
def test_what_is_not_there_is_said_so_and_nothing_is_written(
    store: MemoryStore, runtime: Runtime, lock: Lock, txn: str
) -> None:
    held = lock().write(wait=0, renew=False)
    before = dict(store.objects)
    with pytest.raises(LockNotFound):
        end(store, "r", txn, reason="", runtime=runtime)
    with pytest.raises(LockNotFound):
        end(store, "other", held.txn, reason="", runtime=runtime)
    assert store.objects == before


def test_an_attempt_that_becomes_a_lock_meanwhile_is_ended_with_it(
    store: MemoryStore, runtime: Runtime, lock: Lock
) -> None:
    held = lock().write(wait=0, renew=False)
    body, _ = store.objects.pop(f"locks/r/WRIT.{held.txn}")
    store.place(f"locks/r/INTENT.WRIT.{held.txn}", body)

    def commit_before_marker(request: Request) -> None:
        if request.word == "put":
            store.place(f"locks/r/WRIT.{held.txn}", body)

    store.before = commit_before_marker
    assert end(store, "r", held.txn, reason="", runtime=runtime).state == "intent"
    assert store.names() == ["DEAD"]


def test_a_record_that_cannot_be_read_can_still_be_ended(store: MemoryStore, runtime: Runtime, lock: Lock) -> None:
    txn = "f" * 32
    store.place(f"locks/r/WRIT.{txn}", b'{"version": 99}')
    assert end(store, "r", txn, reason="", runtime=runtime).state == "unreadable"
    lock().write(wait=0, renew=False).check()


def test_an_ending_whose_answer_was_lost_can_be_done_again(store: MemoryStore, runtime: Runtime, lock: Lock) -> None:
    held = lock().write(wait=0, renew=False)

    def lose(request: Request) -> None:
        if request.word == "put":
            raise StoreOutcomeUnknown("no answer")

    store.after = lose
    with pytest.raises(StoreOutcomeUnknown):
        end(store, "r", held.txn, reason="", runtime=runtime)
    store.after = lambda request: None
    end(store, "r", held.txn, reason="", runtime=runtime)
    assert store.names() == ["DEAD"]


def test_reaping_ends_what_is_over_everywhere_and_nothing_else(
    store: MemoryStore, runtime: Runtime, lock: Lock
) -> None:
    old = lock("a", owner=ELSEWHERE).write(wait=0, renew=False)
    long = lock("b", owner=ELSEWHERE, lease=1000.0).read(wait=0, renew=False)
    store.time.sleep(181)
    young = lock("c", owner=ELSEWHERE).write(wait=0, renew=False)
    store.place("locks/c/note", b"")
    store.place("locks/bad name/WRIT." + "f" * 32, b"")
    ended = reap(store, runtime=runtime)
    assert [(each.lock.resource, each.lock.txn, each.reason) for each in ended] == [
        ("a", old.txn, "its lease and grace are over")
    ]
    assert {info.txn for info in inspect(store, runtime=runtime) if info.state == "held"} == {long.txn, young.txn}
    assert reap(store, runtime=runtime) == []


def test_reaping_ends_at_once_what_a_process_of_this_machine_left_behind(
    store: MemoryStore, runtime: Runtime, lock: Lock, gone: Owner
) -> None:
    left, mine = lock("a").write(wait=0, renew=False), lock("b").write(wait=0, renew=False)
    forge_owner(store, f"locks/a/WRIT.{left.txn}", gone)
    assert [(each.lock.txn, each.reason) for each in reap(store, runtime=runtime)] == [
        (left.txn, "its process is gone")
    ]
    mine.check()


def test_reaping_removes_what_came_late_and_keeps_its_marker_young(
    store: MemoryStore, runtime: Runtime, lock: Lock
) -> None:
    held = lock().write(wait=0, renew=False)
    body, _ = store.objects[f"locks/r/WRIT.{held.txn}"]
    end(store, "r", held.txn, reason="", runtime=runtime)
    store.time.sleep(1000)
    store.place(f"locks/r/WRIT.{held.txn}", body)
    assert [each.reason for each in reap(store, runtime=runtime)] == ["its transaction had been ended"]
    assert store.names() == ["DEAD"]
    store.time.sleep(1000)
    reap(store, runtime=runtime)
    assert store.names() == ["DEAD"]
    store.time.sleep(201)
    reap(store, runtime=runtime)
    assert store.names() == []


@pytest.mark.parametrize("what", ["lock", "intent"])
def test_the_word_that_an_owner_has_finished_saves_the_grace_and_never_the_lease(
    store: MemoryStore, runtime: Runtime, lock: Lock, what: str
) -> None:
    held = lock(owner=ELSEWHERE).write(wait=0, renew=False)
    if what == "intent":
        body, _ = store.objects.pop(f"locks/r/WRIT.{held.txn}")
        store.place(f"locks/r/INTENT.WRIT.{held.txn}", body)
    asked: list[Owner] = []

    def finished(owner: Owner) -> bool:
        asked.append(owner)
        return True

    store.time.sleep(121)  # a second more than the lease: the store's clock may count whole seconds
    assert reap(store, finished=finished, runtime=runtime) == []
    assert asked == []
    store.time.sleep(1)
    assert reap(store, runtime=runtime) == []
    (ended,) = reap(store, finished=finished, runtime=runtime)
    assert (ended.lock.txn, ended.reason) == (held.txn, "its lease is over and its owner has finished")
    assert [owner.scope for owner in asked] == ["run"]
    assert store.names() == ["DEAD"]


def test_reaping_an_empty_store_is_one_listing(store: MemoryStore, runtime: Runtime) -> None:
    assert reap(store, runtime=runtime) == []
    assert store.words() == ["list"]


def test_whether_a_process_lives_is_known_only_on_its_own_machine(gone: Owner) -> None:
    assert liveness(Owner().here()) == "running"
    assert liveness(gone) == "gone"
    assert liveness(replace(Owner().here(), process_start=1)) == "gone"
    assert liveness(replace(Owner().here(), process_start=0)) == "unknown"
    assert liveness(ELSEWHERE) == "unknown"
    assert liveness(replace(gone, boot_id="another")) == "unknown"
