"""What waits for others waits as long as was said, names them, and else ends at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast.common.errors import BusyError
from holdfast.replication.log import source_lease
from holdfast.replication.log.leader import lead, resign
from holdfast.replication.work import turns
from holdfast.replication.work.leader_work import leading
from holdfast.replication.work.replica_backup import open_to_write, source_taken
from holdfast.replication.work.replica_maintenance import opened_to_lead
from locking import LockBusy, RWLock
from tests.support.replicas.replicated import Replicas, nothing, remove

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, two: Replicas) -> None:
    """No pause between two looks; and where the store is."""
    monkeypatch.setattr(turns, "POLL_S", 0.0)
    monkeypatch.setenv("HOLDFAST_STORE", two.coordination.url)


def held_by_near(two: Replicas) -> Callable[[], None]:
    """Let `near` back up the source; returns what ends that."""
    acting = two.open("near").in_use()[1]
    two.coordination.run(lambda c: source_lease.take_source(c, acting, "shop_db", "first"))
    return lambda: two.coordination.run(lambda c: source_lease.release_source(c, acting, "shop_db", "first"))


def test_a_source_that_another_replica_backs_up_is_waited_for(two: Replicas) -> None:
    release, said = held_by_near(two), []

    def say(words: str) -> None:
        said.append(words)
        release()

    with source_taken(two.place("far"), "shop_db", "other", two.coordination.url, wait=60.0, say=say):
        assert source_of(two) == "far"
    (words,) = said
    assert words.startswith("waiting: shop_db is being backed up by near, run first (process ")


def source_of(two: Replicas) -> str:
    lease = two.coordination.run(lambda c: source_lease.source_lease(c, two.archive, "shop_db"))
    assert lease is not None
    return lease.replica


def test_without_a_wait_it_is_busy_at_once(two: Replicas) -> None:
    held_by_near(two)
    taken = source_taken(two.place("far"), "shop_db", "other", two.coordination.url)
    with pytest.raises(BusyError, match=r"by near, run first \(process"), taken:
        pass


def begin_backup(two: Replicas) -> None:
    with source_taken(two.place("far"), "shop_db", "run", two.coordination.url):
        pass


def write(two: Replicas) -> None:
    open_to_write(two.place("far"), check=nothing)


def compact(two: Replicas) -> None:
    with opened_to_lead(two.place("far"), check=nothing):
        pass


@pytest.mark.parametrize("work", [begin_backup, write, compact])
def test_a_replica_that_is_worked_on_is_busy_at_once_and_its_holder_is_named(
    two: Replicas, work: Callable[[Replicas], None]
) -> None:
    held = RWLock(two.place("far"), "replica").write(purpose="a long sync")
    ends = threading.Timer(20.0, held.release)  # who waits all the same gets in
    ends.start()
    try:
        with pytest.raises(LockBusy, match="replica is held for writing for a long sync by process"):
            work(two)
    finally:
        ends.cancel()
        held.release()


def test_a_replica_that_is_worked_on_is_waited_for_and_its_holder_is_named(
    two: Replicas, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.replication.work.replica.SILENT_S", 0.0)
    place = two.place("far")
    held = RWLock(place, "replica").write(purpose="a sync")
    ends = threading.Timer(0.2, held.release)
    ends.start()
    open_to_write(place, check=nothing, wait=60.0)
    ends.join()
    assert "Waiting for replica far, up to 60 s: replica is held for writing for a sync" in caplog.text


def test_who_leads_is_waited_for(
    two: Replicas, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, near, far = two.coordination.run, two.open("near").in_use()[1], two.open("far")
    epoch = run(lambda c: lead(c, near))
    with pytest.raises(BusyError, match="near"), leading(far):
        pass
    monkeypatch.setattr(
        "holdfast.replication.work.turns.time.sleep", lambda seconds: run(lambda c: resign(c, near, epoch))
    )
    with leading(far, wait=60.0):
        assert far.leader_epoch
    assert "waiting: " in caplog.text


@pytest.mark.parametrize("force", [True, False])
def test_a_replica_that_is_removed_gives_its_sources_back(two: Replicas, force: bool) -> None:
    held_by_near(two)
    two.sync("far")
    two.coordination.run(lambda c: remove(c, two.archive, "near", force=force))
    with source_taken(two.place("far"), "shop_db", "other", two.coordination.url):
        assert source_of(two) == "far"
