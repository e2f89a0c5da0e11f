"""`holdfast vacuum`: what it deletes, says, and ends with."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import FolderStore, ObjectRetained, ObjectStore, StoreDenied, StoreError
from locking import RWLock, inspect
from tests.support.archives.vacuuming import commit, put_file, write_block
from tests.support.jobs.command import RunCommand


@pytest.fixture
def used(store: ObjectStore) -> ObjectStore:
    """An archive with a block, a removed one, what a killed backup left, and an attempt that lost."""
    kept, gone = write_block(store), write_block(store)
    commit(store, add=(kept, gone))
    commit(store, "truncation", remove=(gone.id,))
    put_file(store, uuid.uuid4().hex)
    put_file(store, kept.id)
    return store


def data(store: ObjectStore) -> set[str]:
    return {found.key for found in store.list("data/").objects}


def named(store: ObjectStore) -> set[str]:
    return {file.path for placed in Archive.open(store).state.blocks.values() for file in placed.block.files()}


def make_older(store: ObjectStore, by: timedelta) -> None:
    """Let every data file have been written some time ago."""
    then = time.time() - by.total_seconds()
    for path in (Path(store.url) / "data").rglob("*"):
        os.utime(path, (then, then))


def test_it_deletes_what_nothing_needs_and_tells_it_as_json(holdfast: RunCommand, used: ObjectStore) -> None:
    done = holdfast("vacuum", used.url, "--grace", "0h", "--json")
    assert done.code == 0
    assert data(used) == named(used)
    assert (done.value["files"], done.value["bytes"], len(done.value["blocks"])) == (5, 50, 1)
    assert len(done.value["abandoned"]) == 1
    assert {"commits", "waiting", "young", "refused", "busy", "left", "trouble", "unknown"} <= set(done.value)
    assert inspect(used) == []


def test_it_tells_people_in_a_line(holdfast: RunCommand, used: ObjectStore) -> None:
    used.put("data/notes.txt", b"")
    done = holdfast("vacuum", used.url, "--grace", "0 s")
    assert done.out.startswith("deleted 5 files (50 B): removed blocks: 1, blocks of killed backups: 1\n")
    assert "left alone, not ours: data/notes.txt" in done.out


def test_a_day_has_to_pass_first(holdfast: RunCommand, used: ObjectStore) -> None:
    before = data(used)
    done = holdfast("vacuum", used.url)
    assert (done.code, data(used)) == (0, before)
    assert "removed blocks within their grace: 1; the next is due at" in done.out
    assert "blocks that may still be written: 1" in done.out
    make_older(used, timedelta(hours=25))
    assert holdfast("vacuum", used.url, "--json").value["files"] == 2  # those that no commit names
    assert holdfast("vacuum", used.url, "--grace", "0h", "--no-orphans", "--json").value["files"] == 3


def test_the_grace_of_archives_yaml_counts(
    holdfast: RunCommand, used: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "archives.yaml"
    config.write_text(f"archives: {{shop: {{url: {used.url}, vacuum: {{grace: 0h}}}}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(config))
    assert holdfast("vacuum", "shop", "--json").value["files"] == 5


def test_a_dry_run_changes_nothing_and_takes_no_lock(holdfast: RunCommand, used: ObjectStore) -> None:
    before = used.list("").objects
    with RWLock(used, "maintenance").write(wait=0):
        done = holdfast("vacuum", used.url, "--grace", "0h", "--dry-run")
    assert (done.code, used.list("").objects) == (0, before)
    assert done.out.startswith("would delete 5 files (50 B)")


def test_a_place_without_an_archive_stays_as_it_is(holdfast: RunCommand, tmp_path: Path) -> None:
    assert holdfast("vacuum", str(tmp_path / "none")).code == 2
    assert not (tmp_path / "none").exists()


def test_who_is_in_the_way_is_named(holdfast: RunCommand, used: ObjectStore) -> None:
    before = data(used)
    with RWLock(used, "maintenance").write(purpose="compaction 7", wait=0):
        done = holdfast("vacuum", used.url, "--grace", "0h", "--wait", "0", "--json")
    assert (done.code, "compaction 7" in done.value["error"]) == (3, True)
    assert data(used) == before


def test_a_restore_at_work_keeps_the_files_and_ends_it_with_busy(holdfast: RunCommand, used: ObjectStore) -> None:
    before = data(used)
    with RWLock(used, "history").read(purpose="restore 7", wait=0):
        done = holdfast("vacuum", used.url, "--grace", "0h", "--wait", "0")
    assert (done.code, data(used)) == (3, before)
    assert "restore 7" in done.err
    assert "not deleted: 2 files" in done.err


def test_a_backup_at_work_is_no_failure(holdfast: RunCommand, used: ObjectStore) -> None:
    with RWLock(used, "ingest-shop").write(purpose="backup 7", wait=0):
        done = holdfast("vacuum", used.url, "--grace", "0h", "--wait", "0")
    assert done.code == 0
    assert "backup 7" in done.err
    assert len(data(used) - named(used)) == 2


@pytest.mark.parametrize(
    ("error", "code"), [(ObjectRetained("kept by its object lock until 2030"), 0), (StoreDenied("not allowed"), 1)]
)
def test_what_an_object_lock_keeps_is_no_failure_and_what_is_forbidden_is_one(
    holdfast: RunCommand, used: ObjectStore, monkeypatch: pytest.MonkeyPatch, error: StoreError, code: int
) -> None:
    def refuse(self: ObjectStore, keys: Sequence[str]) -> Mapping[str, StoreError]:
        return dict.fromkeys(keys, error)

    before = data(used)
    monkeypatch.setattr(FolderStore, "delete_many", refuse)
    done = holdfast("vacuum", used.url, "--grace", "0h")
    assert (done.code, data(used)) == (code, before)
    assert f"not deleted: {error}" in done.out
    assert len(Archive.open(used).state.removed) == 1
