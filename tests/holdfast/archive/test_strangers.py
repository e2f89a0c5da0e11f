"""Objects in the folders of an archive that are not its own: named where they are many, ignored, never deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive import archive as archive_module
from holdfast.archive.format.checkpoint import CHECKPOINTS
from holdfast.archive.format.runs import RunLog, listed_runs, read_last, read_unfinished
from holdfast.archive.maintenance.commit_chain import broken_commits
from holdfast.archive.maintenance.scrub_schedule import ScrubProgress, read_progress, write_progress
from holdfast.operations.marks import FOLDER, forget, pending
from holdfast.storage import ObjectStore
from holdfast.storage.contract import strangers as strangers_module
from holdfast.storage.encryption.keyring import KEYS, document_names
from locking import inspect, reap
from locking.store import MOST_OBJECTS, TooManyObjects
from tests.support.stores.memory_store import MemoryStore

NAMES = (".DS_Store", "Thumbs.db", "zz", "0", "desktop.ini", "._1")
"""What sorts before, among and behind the names of ours."""


def add(archive: Archive, number: int) -> None:
    change = Change(kind="backup", add=(make_block(position=f"0/{number}"),))
    archive.add(lambda state: change, check=lambda: None, fence=None)


def put_strangers(store: MemoryStore, folder: str) -> set[str]:
    keys = {f"{folder}{name}" for name in NAMES}
    for key in keys:
        store.put(key, b"mine")
    return keys


@pytest.fixture(autouse=True)
def nothing_named_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers_module, "_warned", set())


@pytest.fixture
def archive() -> Archive:
    return Archive.create(MemoryStore(), name="shop")


def test_checkpoints_are_found_and_removed_among_strangers(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archive_module, "CHECKPOINT_EVERY", 1)
    store = archive.store
    assert isinstance(store, MemoryStore)
    strangers = put_strangers(store, CHECKPOINTS)
    for number in range(1, 7):
        add(archive, number)
    assert strangers < store.keys(CHECKPOINTS)
    assert len(store.keys(CHECKPOINTS) - strangers) == 3
    store.requests.clear()
    assert Archive.open(store).state == archive.state
    assert store.requests[:2] == ["get archive.json", "list checkpoints/9999"]
    assert caplog.records == []


def test_records_of_runs_are_read_among_strangers(archive: Archive) -> None:
    store = archive.store
    with RunLog(store, "backup.1", "backup") as log:
        log.result = {"rows": 7}
    assert isinstance(store, MemoryStore)
    strangers = put_strangers(store, "runs/backup.1/") | put_strangers(store, "runs/")
    record = read_last(store, "backup.1")
    assert record is not None
    assert record.result == {"rows": 7}
    assert read_unfinished(store, "backup.1") is None
    assert [run.infos[-1].key for run in listed_runs(store)] == [f"runs/backup.1/{record.number:06d}.json"]
    assert strangers < store.keys("runs/")


def test_how_far_a_verification_came_is_kept_among_strangers(archive: Archive) -> None:
    store = archive.store
    assert isinstance(store, MemoryStore)
    strangers = put_strangers(store, "runs/verification/")
    for number in range(5):
        write_progress(store, ScrubProgress(chain=number))
        assert read_progress(store).chain == number
    assert strangers < store.keys("runs/")


def test_marks_are_read_among_strangers_which_no_backup_removes(archive: Archive) -> None:
    store = archive.store
    assert isinstance(store, MemoryStore)
    strangers = put_strangers(store, f"{FOLDER}/shop/")
    found = pending(store, "shop", {})
    assert (found.records, found.announced) == ({}, {})
    forget(store, found, make_block(), archive.state)
    assert store.keys(FOLDER) == strangers


def test_a_chain_with_strangers_in_it_is_whole(archive: Archive) -> None:
    for number in range(1, 4):
        add(archive, number)
    assert isinstance(archive.store, MemoryStore)
    put_strangers(archive.store, "commits/")
    assert broken_commits(Archive.open(archive.store)) == []


def _marks(store: ObjectStore) -> object:
    return pending(store, "shop", {})


@pytest.mark.parametrize(
    ("folder", "look"), [("locks/format/", inspect), (KEYS, document_names), (f"{FOLDER}/shop/", _marks)]
)
def test_a_folder_with_more_objects_than_any_of_ours_has_is_refused_after_so_many(
    folder: str, look: Callable[[ObjectStore], object]
) -> None:
    store = MemoryStore()
    for number in range(MOST_OBJECTS + 1):
        store.put(f"{folder}stray-{number}", b"")
    with pytest.raises(TooManyObjects, match=r"/ has more than 10,000 objects, and no more are read there\. Remove"):
        look(store)
    store.delete(f"{folder}stray-0")
    look(store)


def test_locks_that_are_over_can_be_reaped_however_many_there_are() -> None:
    store = MemoryStore()
    for number in range(MOST_OBJECTS + 1):
        store.put(f"locks/format/stray-{number}", b"")
    assert reap(store) == []
