"""What is ended, by whom, when, and what a marker prevents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from locking import LockBusy, Owner, Runtime, RWLock
from locking.record import DeadMarker, LockRecord, encode_marker, encode_record
from locking.store import StoreError, StoreUnavailable
from locking.terms import Terms
from tests.support.locks.lockstore import START, MemoryStore, Request

OTHER = "f" * 32
CROWD = 1 << 20
"""Where the ids of those begin that others left: the ids of a test count up from 1."""
ELSEWHERE = Owner(host="elsewhere", boot_id="another", pid_namespace="another", pid=1, process_start=1)


def record(mode: str = "W", owner: Owner = ELSEWHERE, terms: Terms | None = None, txn: str = OTHER) -> bytes:
    return encode_record(
        LockRecord(
            txn=txn,
            mode="R" if mode == "R" else "W",
            resource="r",
            owner=owner,
            purpose="",
            since=START,
            terms=terms or Terms(),
        )
    )


@pytest.fixture
def lock(store: MemoryStore, runtime: Runtime) -> RWLock:
    return RWLock(store, "r", runtime=runtime)


def test_a_lock_is_ended_once_its_lease_and_grace_are_over(store: MemoryStore, lock: RWLock) -> None:
    store.place(f"locks/r/WRIT.{OTHER}", record())
    store.time.sleep(180)
    with pytest.raises(LockBusy):
        lock.write(wait=0, renew=False)
    store.time.sleep(1)
    store.forget()
    lock.write(wait=0, renew=False).check()
    assert store.words()[:4] == ["list", "get WRIT", "put DEAD", "delete WRIT"]
    assert store.names() == ["DEAD", "WRIT"]


def test_the_terms_that_count_are_those_of_the_locks_owner(store: MemoryStore, lock: RWLock) -> None:
    store.place(f"locks/r/WRIT.{OTHER}", record(terms=Terms(1000, 60)))
    store.time.sleep(1050)
    with pytest.raises(LockBusy):
        lock.read(wait=0, renew=False)
    store.time.sleep(11)
    lock.read(wait=0, renew=False).check()


def test_a_marker_goes_when_nothing_can_come_late_any_more(store: MemoryStore, lock: RWLock) -> None:
    marker = encode_marker(DeadMarker(txn=OTHER, reason="", terms=Terms(3000, 60)))
    store.place(f"locks/r/DEAD.{OTHER}", marker)
    short = encode_marker(DeadMarker(txn="e" * 32, reason="", terms=Terms()))
    store.place("locks/r/DEAD." + "e" * 32, short)
    store.time.sleep(1200)
    lock.read(wait=0, renew=False).release()
    assert store.names() == ["DEAD", "DEAD"]
    store.time.sleep(1)
    lock.read(wait=0, renew=False).release()
    assert list(store.objects) == [f"locks/r/DEAD.{OTHER}"]
    store.time.sleep(1860)
    lock.read(wait=0, renew=False).release()
    assert store.objects == {}


def test_a_marker_that_cannot_be_read_stays_since_the_lease_it_ended_is_not_known(
    store: MemoryStore, lock: RWLock
) -> None:
    store.place(f"locks/r/DEAD.{OTHER}", b'{"version": 99}')
    store.time.sleep(1_000_000)
    lock.read(wait=0, renew=False).release()
    assert list(store.objects) == [f"locks/r/DEAD.{OTHER}"]


def marked(store: MemoryStore, count: int) -> None:
    """Leave so many markers that nothing needs any more."""
    for number in range(count):
        txn = f"{number + CROWD:032x}"
        marker = encode_marker(DeadMarker(txn=txn, reason="", terms=Terms()))
        store.place(f"locks/r/DEAD.{txn}", marker)
    store.time.sleep(1201)


class BatchStore(MemoryStore):
    """A store that deletes many objects with one request."""

    def delete_each(self, keys: Sequence[str]) -> dict[str, StoreError]:
        self._begin("delete many", "")
        for key in keys:
            self.objects.pop(key, None)
        return {}


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_thousand_markers_delay_nobody_and_go_a_hundred_at_a_time(mode: str) -> None:
    store = BatchStore()
    marked(store, 1000)
    swept: list[Callable[[], None]] = []
    lock = RWLock(store, "r", runtime=replace(store.time.runtime(), aside=swept.append))
    lease = getattr(lock, mode)(wait=0, renew=False)
    assert len(store.requests) == 5
    store.forget()
    (sweep,) = swept
    sweep()
    assert store.words() == ["get DEAD"] * 100 + ["delete many"]
    assert len(store.objects) == 901
    lease.check()


def test_dead_readers_delay_no_reader_and_go_a_hundred_at_a_time(store: MemoryStore) -> None:
    for number in range(250):
        txn = f"{number + CROWD:032x}"
        store.place(f"locks/r/READ.{txn}", record("R", txn=txn))
    store.time.sleep(181)
    swept: list[Callable[[], None]] = []
    lock = RWLock(store, "r", runtime=replace(store.time.runtime(), aside=swept.append))
    lock.read(wait=0, renew=False)
    assert len(store.requests) == 5
    swept.pop()()
    assert store.names().count("READ") == 151


def test_a_sweep_that_the_store_refuses_does_no_harm(store: MemoryStore, lock: RWLock) -> None:
    marked(store, 3)

    def refuse(request: Request) -> None:
        if request.name == "DEAD":
            raise StoreUnavailable("not now")

    store.before = refuse
    lock.write(wait=0, renew=False).check()
    assert store.names().count("DEAD") == 3


def gone_process() -> Owner:
    """An owner of this host whose process has certainly ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(Owner().here(), pid=process.pid, process_start=1)


def test_a_process_proved_gone_frees_its_lock_early(store: MemoryStore, lock: RWLock) -> None:
    store.place(f"locks/r/WRIT.{OTHER}", record(owner=gone_process()))
    lock.write(wait=0, renew=False).check()
    assert f"locks/r/DEAD.{OTHER}" in store.objects


def test_a_later_process_with_the_same_number_frees_the_lock_too(store: MemoryStore, lock: RWLock) -> None:
    later = replace(Owner().here(), process_start=1)
    store.place(f"locks/r/WRIT.{OTHER}", record(owner=later))
    lock.write(wait=0, renew=False).check()


@pytest.mark.parametrize(
    "owner",
    [
        Owner().here(),
        replace(gone_process(), boot_id="another"),
        replace(gone_process(), pid_namespace="pid:[1]"),
        replace(gone_process(), boot_id=""),
        replace(gone_process(), scope="run"),
        replace(gone_process(), pid=0),
        replace(Owner().here(), process_start=0),
        replace(Owner().here(), pid=1, process_start=0),
    ],
)
def test_a_process_that_may_live_keeps_its_lock(store: MemoryStore, lock: RWLock, owner: Owner) -> None:
    store.place(f"locks/r/WRIT.{OTHER}", record(owner=owner))
    with pytest.raises(LockBusy):
        lock.write(wait=0, renew=False)


def test_a_runs_attempt_ends_with_its_process(store: MemoryStore, lock: RWLock) -> None:
    store.place(f"locks/r/INTENT.WRIT.{OTHER}", record(owner=replace(gone_process(), scope="run")))
    lock.write(wait=0, renew=False).check()


def test_a_record_under_another_locks_name_is_not_believed(store: MemoryStore, lock: RWLock) -> None:
    store.place(f"locks/r/WRIT.{OTHER}", record(txn="e" * 32))
    store.time.sleep(10_000)
    with pytest.raises(LockBusy, match="another lock"):
        lock.write(wait=0, renew=False)


def test_a_lock_that_goes_while_it_is_looked_at_is_only_busy(store: MemoryStore, lock: RWLock) -> None:
    held = lock.write(wait=0, renew=False)

    def release_before_get(request: Request) -> None:
        if request.word == "get":
            store.before = lambda request: None
            held.release()

    store.before = release_before_get
    with pytest.raises(LockBusy):
        lock.write(wait=0, renew=False)
    lock.write(wait=0, renew=False).check()


def test_others_cost_no_request_while_they_are_young_and_not_in_the_way(store: MemoryStore, lock: RWLock) -> None:
    for number in range(50):
        txn = f"{number:032x}"
        store.place(f"locks/r/READ.{txn}", record("R", txn=txn))
    lock.read(wait=0, renew=False)
    assert len(store.requests) == 5


def test_this_process_is_known_as_itself() -> None:
    here = Owner(user="ann").here()
    assert (here.pid, here.user) == (os.getpid(), "ann")
    assert here.boot_id
    assert here.process_start > 0
