"""Daily upkeep: which log is meant, what damage makes of a replica, and a sync that finds its place first."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import DamagedError, RefusedError, UsageError, exit_code_of
from holdfast.replication.log.errors import FilesAwayError, MissingFilesError
from holdfast.replication.log.replicas import ReplicaRow, replica
from holdfast.replication.log.silence import NotAsked
from holdfast.replication.work import sync
from holdfast.replication.work.replica import Synced
from holdfast.replication.work.sync import log_at, report_damage, sync_of_result, sync_replica
from holdfast.storage import ObjectStore, open_store
from locking import LockBusy, RWLock
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


def row(given: Replicas, name: str) -> ReplicaRow:
    return given.coordination.run(lambda c: replica(c, given.archive, name))


def synced(given: Replicas, name: str) -> Synced:
    return sync_replica(given.coordination, given.archive, row(given, name), wait=0)


def test_the_log_is_that_of_any_of_its_replicas(two: Replicas) -> None:
    assert log_at(two.coordination, ["elsewhere", two.place("far").url]).archive == two.archive
    with pytest.raises(UsageError, match=r"knows no replica at /a, /b: 'holdfast replica add' makes the first one"):
        log_at(two.coordination, ["/b", "/a"])


def test_a_damaged_replica_is_lost_and_never_the_last_one(two: Replicas) -> None:
    address = two.coordination.url
    report_damage(Archive.open(two.place("near")), 3, address=address)
    assert row(two, "near").lost_reason == "verification has found 3 files that are damaged or missing"
    with pytest.raises(RefusedError, match="far has to be recovered"):
        report_damage(Archive.open(two.place("far")), 1, address=address)


def test_an_archive_at_one_place_has_nobody_to_be_recovered_from(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "alone"))
    with pytest.raises(UsageError, match="alone is no replica: no other place has its files"):
        report_damage(Archive.create(store, name="shop"), 1, address=None)


def test_a_sync_brings_a_replica_to_the_head_under_its_lock(two: Replicas) -> None:
    two.back_up("near")
    held = RWLock(two.place("far"), "replica").write(purpose="another sync")
    with pytest.raises(LockBusy, match="for another sync by process"):
        synced(two, "far")
    held.release()
    done = synced(two, "far")
    assert (done.replica, done.index, done.entries, done.given_up) == ("far", 1, 1, ())


def test_a_sync_writes_nothing_where_the_replica_is_not(two: Replicas) -> None:
    shutil.rmtree(two.folder / "far")
    with pytest.raises(DamagedError, match=r"there is no archive at .*far, where replica far is to be. Is the disk"):
        synced(two, "far")
    assert not (two.folder / "far").exists()
    shutil.copytree(two.folder / "near", two.folder / "far")
    before = sorted(two.folder.joinpath("far").rglob("*"))
    with pytest.raises((DamagedError, UsageError, RefusedError)):
        synced(two, "far")
    assert sorted(two.folder.joinpath("far").rglob("*")) == before


def test_without_a_limit_only_a_person_gives_an_entry_up(two: Replicas) -> None:
    def execute(place: ObjectStore) -> Synced:
        raise MissingFilesError("no replica could give data/x", 1)

    with pytest.raises(MissingFilesError, match=r"no replica could give data/x$"):
        sync_replica(two.coordination, two.archive, row(two, "far"), wait=0, execute=execute)


def test_files_of_a_replica_that_is_away_stay_another_try_where_they_cannot_be_given_up(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(place: ObjectStore) -> Synced:
        raise FilesAwayError("no replica could give data/x", 1)

    def refuse(*_: object, **__: object) -> None:
        raise RefusedError("near cannot be read: mend or remove it")

    monkeypatch.setattr(sync, "give_up_in_time", refuse)
    with pytest.raises(FilesAwayError, match="It is not given up by itself: near cannot be read") as caught:
        sync_replica(
            two.coordination, two.archive, row(two, "far"), wait=0, gap_after=timedelta(days=1), execute=execute
        )
    assert exit_code_of(caught.value) == 1


RESULT = {"replica": "far", "index": 7, "entries": 1, "files": 2, "bytes": 3}


def test_a_job_tells_its_sync_or_the_entry_that_it_stopped_at() -> None:
    assert sync_of_result(RESULT) == Synced("far", 7, 1, 2, 3)
    left = NotAsked("off", "/off", "it hangs")
    assert sync_of_result({**RESULT, "not_asked": [left.describe()]}).not_asked == (left,)
    with pytest.raises(MissingFilesError, match="nobody has it") as caught:
        sync_of_result({"missing": {"why": "nobody has it", "entry": 9}})
    assert caught.value.index == 9
    assert exit_code_of(caught.value) == 4
    with pytest.raises(FilesAwayError):
        sync_of_result({"missing": {"why": "near cannot be read", "entry": 9, "away": True}})
