"""A backup through a replica has its source and its replica for itself, waits as long as was said, and names others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import BusyError, UsageError
from holdfast.replication.log import source_lease
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.work import turn
from holdfast.replication.work.replica_backup import (
    await_quorum,
    opened_for_backup,
    pending_quorum,
    source_taken,
    until_kept,
)
from holdfast.storage import ObjectStore, open_store
from locking import LockBusy, RWLock
from tests.support.replicas.rebuilt import away
from tests.support.replicas.replicated import Replicas, nothing, remove

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two looks."""
    monkeypatch.setattr(turn, "POLL_S", 0.0)


@pytest.fixture
def two(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """The replicas, whose store the environment names."""
    monkeypatch.setenv("HOLDFAST_STORE", two.coordination.url)
    return two


@pytest.fixture
def alone(tmp_path: Path) -> ObjectStore:
    """An archive at one place, for which no store is named."""
    store = open_store(str(tmp_path / "alone"))
    Archive.create(store, name="shop")
    return store


def test_an_archive_at_one_place_needs_no_store(alone: ObjectStore) -> None:
    archive = opened_for_backup(alone, check=nothing)
    assert archive.state.log is None
    with source_taken(alone, "shop_db", "run", None) as settle:
        settle()
    until_kept(archive, "shop_db", "0/1", check=nothing, say=pytest.fail)


def test_an_archive_at_one_place_has_no_quorum(alone: ObjectStore) -> None:
    quorum_request, said = QuorumRequest(3), "a quorum of 3 cannot be: this archive is at one place only"
    with pytest.raises(UsageError, match=said):
        opened_for_backup(alone, check=nothing, quorum_request=quorum_request)
    with (
        pytest.raises(UsageError, match=said),
        source_taken(alone, "shop_db", "run", None, quorum_request=quorum_request),
    ):
        pass
    with pytest.raises(UsageError, match=r"alone is no replica: no quorum was asked for"):
        await_quorum(alone, "b", address=None, say=pytest.fail)


def test_changes_of_a_replica_that_nobody_acts_for_are_not_let_go_of(two: Replicas) -> None:
    plain = Archive.open(two.place("near"))
    with pytest.raises(UsageError, match="near is a replica that no process acts for"):
        until_kept(plain, "shop_db", "", check=nothing, say=pytest.fail)
    acting = opened_for_backup(two.place("near"), check=nothing)
    until_kept(acting, "shop_db", "", check=nothing, say=pytest.fail)


def test_a_quorum_is_pending_until_as_many_replicas_have_the_block(two: Replicas) -> None:
    url = two.coordination.url
    archive = opened_for_backup(two.place("near"), check=nothing, quorum_request=QuorumRequest(2))
    archive.add(two.backup(archive.store), check=nothing, fence=None)
    block = two.backups[-1]
    assert "1 of 2" in pending_quorum(two.place("near"), block, address=url)
    # Who waits brings the others there.
    assert await_quorum(two.place("near"), block, address=url, say=lambda words: None) == {
        "entry": 1,
        "size": 2,
        "replicas": ["far", "near"],
    }
    assert pending_quorum(two.place("near"), block, address=url) == ""


def test_more_replicas_than_there_are_make_no_quorum(two: Replicas) -> None:
    taken = source_taken(two.place("far"), "shop_db", "run", None, quorum_request=QuorumRequest(3))
    with pytest.raises(UsageError), taken:
        pass
    assert two.coordination.run(lambda c: source_lease.source_leases(c, two.archive)) == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_quorum_that_cannot_succeed_is_refused_before_the_work(three: Replicas, *, lost: bool) -> None:
    away(three, "far")
    said = "far cannot be read, off is lost"
    if lost:
        away(three, "far", back=True)
        three.lose("far")
        said = "far is lost, off is lost"
    three.lose("off")
    taken = source_taken(three.place("near"), "shop_db", "run", three.coordination.url, quorum_request=QuorumRequest(2))
    with pytest.raises(BusyError, match=f"a quorum of 2 cannot succeed now, and is not begun: {said}"), taken:
        pass
    assert three.coordination.run(lambda c: source_lease.source_leases(c, three.archive)) == []
    if not lost:
        away(three, "far", back=True)
        three.change("far", ask_again_at=0.0)
        with source_taken(
            three.place("near"), "shop_db", "run", three.coordination.url, quorum_request=QuorumRequest(2)
        ):
            pass


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


def begin_backup(two: Replicas) -> None:
    with source_taken(two.place("far"), "shop_db", "run", two.coordination.url):
        pass


def write(two: Replicas) -> None:
    opened_for_backup(two.place("far"), check=nothing)


@pytest.mark.parametrize("work", [begin_backup, write])
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
    opened_for_backup(place, check=nothing, wait=60.0)
    ends.join()
    assert "Waiting for replica far, up to 60 s: replica is held for writing for a sync" in caplog.text


@pytest.mark.parametrize("force", [True, False])
def test_a_replica_that_is_removed_gives_its_sources_back(two: Replicas, force: bool) -> None:
    held_by_near(two)
    two.sync("far")
    two.coordination.run(lambda c: remove(c, two.archive, "near", force=force))
    with source_taken(two.place("far"), "shop_db", "other", two.coordination.url):
        assert source_of(two) == "far"
