"""Who keeps a vacuum from deleting: backups that go on beside it, readers, other vacuums, and the store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.common.errors import RefusedError
from holdfast.storage import ObjectRetained, StoreDenied, StoreError, StoreUnavailable
from locking import LockBusy, LockLost, RWLock, inspect
from locking.store import Listing
from tests.support.archives.block_files import data_keys, empty_archive, paths_of
from tests.support.archives.vacuuming import DAY, Scene, commit, put_file, run_vacuum, scene, write_block
from tests.support.stores.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return empty_archive()


def before_the_next_commit(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], object]) -> None:
    """Let something happen, once: after a writer has looked at an archive and before it adds its commit."""
    add = Archive.add
    happened: list[bool] = []

    def happen_first(self: Archive, *arguments: object, **more: object) -> object:
        if not happened:
            happened.append(True)  # at once, for what happens may be a commit too
            happen()
        return add(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Archive, "add", happen_first)


def test_an_abandoned_block_can_not_be_committed_by_a_backup_that_wakes_up(store: MemoryStore) -> None:
    sleeper = Archive.open(store)
    block = write_block(store)
    store.advance(2 * DAY)
    assert run_vacuum(store).abandoned == [block.id]
    with pytest.raises(RefusedError, match="abandoned"):
        sleeper.add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    again = put_file(store, block.id).path
    run_vacuum(store)
    assert not store.keys(again)
    assert Archive.open(store).state.blocks == {}


def test_a_backup_that_wakes_up_just_before_its_block_is_abandoned_keeps_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = write_block(store)
    store.advance(2 * DAY)
    before_the_next_commit(monkeypatch, lambda: commit(store, add=(block,)))
    done = run_vacuum(store)
    assert (done.abandoned, done.files) == ([], 0)
    assert paths_of(block) <= data_keys(store)
    assert block.id in Archive.open(store).state.blocks


def test_a_commit_that_was_under_way_when_strays_were_looked_for_is_seen_before_they_go(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run writes the schema of its end into the folder of its first block, and names it in its last."""
    first = write_block(store)
    commit(store, add=(first,))
    schema = put_file(store, first.id, table="schema")
    stray = put_file(store, first.id)
    last = write_block(store, catalog=schema)
    store.advance(2 * DAY)
    before_the_next_commit(monkeypatch, lambda: commit(store, add=(last,)))
    run_vacuum(store)
    assert data_keys(store) == paths_of(first, last)
    assert stray.path not in data_keys(store)


def test_strays_are_deleted_only_after_a_commit_so_that_a_writer_asleep_finds_its_number_taken(
    store: MemoryStore,
) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    put_file(store, block.id)
    store.advance(2 * DAY)
    store.requests.clear()
    run_vacuum(store)
    done = [name.split(" ")[1] for name in store.requests if name.startswith(("create commits/", "delete data/"))]
    assert [name.partition("/")[0] for name in done] == ["commits", "data"]


def test_a_source_that_is_being_backed_up_is_left_alone_and_its_backup_named(store: MemoryStore) -> None:
    mine, other = put_file(store, uuid.uuid4().hex), put_file(store, uuid.uuid4().hex, source="crm")
    store.advance(2 * DAY)
    with RWLock(store, "ingest-shop").write(purpose="backup shop", wait=0):
        done = run_vacuum(store)
    assert data_keys(store) == {mine.path}
    assert other.path not in data_keys(store)
    assert "backup shop" in done.busy[0]
    assert done.left == 0
    run_vacuum(store)
    assert data_keys(store) == set()


def test_readers_are_waited_for_and_else_nothing_is_deleted() -> None:
    made = scene()
    with RWLock(made.store, "history").read(purpose="restore 7", wait=0):
        done = run_vacuum(made.store)
    assert made.store.keys() >= made.needed | made.doomed
    assert (done.files, done.blocks) == (0, [])
    assert done.left > 0
    assert "restore 7" in done.busy[0]
    run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()


def test_readers_are_kept_out_while_files_are_deleted_and_at_no_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    delete, seen = made.store.delete_many, []

    def look(keys: Sequence[str]) -> Mapping[str, StoreError]:
        with pytest.raises(LockBusy, match="vacuum"):
            RWLock(made.store, "history").read(wait=0)
        seen.append(len(keys))
        return delete(keys)

    monkeypatch.setattr(made.store, "delete_many", look)
    run_vacuum(made.store)
    assert sum(seen) == len(made.doomed)
    RWLock(made.store, "history").read(wait=0).release()


def test_readers_have_their_turn_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    monkeypatch.setattr("holdfast.archive.maintenance.vacuum.BATCH_S", 0.0)
    monkeypatch.setattr("holdfast.archive.maintenance.vacuum.AT_ONCE", 2)
    read: list[bool] = []

    def take_turn(seconds: float) -> None:
        RWLock(made.store, "history").read(wait=0).release()
        read.append(seconds > 1)

    # Not the sleep of all: others wait, too, such as a lock for its turn.
    monkeypatch.setattr(
        "holdfast.archive.maintenance.vacuum.time", SimpleNamespace(monotonic=time.monotonic, sleep=take_turn)
    )
    done = run_vacuum(made.store)
    assert not done.trouble
    assert made.store.keys() & made.doomed == set()
    assert len(read) > 3
    assert all(read)


def test_two_vacuums_that_run_at_once_all_the_same_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the first one was suspended for longer than its locks were trusted."""
    made = scene()

    def run(_: int) -> None:
        vacuum(Archive.open(made.store), check=lambda: None, fence=None, wait=10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    assert made.needed <= made.store.keys()
    run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()


def test_a_vacuum_whose_lock_is_lost_deletes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    monkeypatch.setattr("holdfast.archive.maintenance.vacuum.AT_ONCE", 2)
    delete, calls = made.store.delete_many, []

    def break_lock(keys: Sequence[str]) -> Mapping[str, StoreError]:
        calls.append(list(keys))
        (mine,) = [info for info in inspect(made.store) if info.resource == "maintenance"]
        made.store.put(f"locks/maintenance/DEAD.{mine.txn}", b"")
        return delete(keys)

    monkeypatch.setattr(made.store, "delete_many", break_lock)
    with pytest.raises(LockLost):
        run_vacuum(made.store)
    assert len(calls) == 1


def test_a_backup_that_commits_between_two_batches_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    monkeypatch.setattr("holdfast.archive.maintenance.vacuum.AT_ONCE", 1)
    delete = made.store.delete_many

    def commit_first(keys: Sequence[str]) -> Mapping[str, StoreError]:
        block = write_block(made.store)
        commit(made.store, add=(block,))
        made.needed |= paths_of(block)
        return delete(keys)

    monkeypatch.setattr(made.store, "delete_many", commit_first)
    run_vacuum(made.store)
    assert made.needed <= made.store.keys()
    assert made.store.keys() & made.doomed == set()


def test_a_file_that_a_commit_names_while_readers_are_waited_for_stays(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that has been at work for longer than the grace names the schema that it began with."""
    old = write_block(store)
    commit(store, add=(old,))
    late = write_block(store, catalog=old.catalog)
    commit(store, "truncation", remove=(old.id,))
    store.advance(2 * DAY)
    look = store.list

    def commit_first(prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        if prefix.startswith("locks/history") and late.id not in Archive.open(store).state.blocks:
            commit(store, add=(late,))
        return look(prefix, start_after=start_after, most=most)

    monkeypatch.setattr(store, "list", commit_first)
    assert run_vacuum(store, orphans=False).blocks == [old.id]
    assert data_keys(store) == paths_of(late)


class Refusing:
    """Stands before a store's deletions, and refuses some."""

    def __init__(self, made: Scene, errors: Mapping[str, StoreError]) -> None:
        self._delete = made.store.delete_many
        self._errors = errors

    def __call__(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        refused = {key: error for key, error in self._errors.items() if key in keys}
        return {**refused, **self._delete([key for key in keys if key not in refused])}


def test_a_block_with_a_file_that_the_store_keeps_is_tried_again_later(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, free = write_block(store), write_block(store)
    commit(store, add=(kept, free))
    commit(store, "truncation", remove=(kept.id, free.id))
    store.advance(2 * DAY)
    (file,) = kept.tables[0].files
    until = store.now + DAY
    with monkeypatch.context() as patched:
        error = ObjectRetained(f"{file.path} is kept by its object lock.", until)
        patched.setattr(store, "delete_many", Refusing(Scene(store), {file.path: error}))
        done = run_vacuum(store)
    assert done.blocks == [free.id]
    assert [(each.file, each.until, each.retained) for each in done.refused] == [(file.path, until, True)]
    assert data_keys(store) == {file.path}
    assert done.describe()["refused"][0]["until"].startswith("2026-03-04")
    assert list(Archive.open(store).state.removed) == [kept.id]
    assert run_vacuum(store).blocks == [kept.id]
    assert data_keys(store) == set()


def test_what_the_store_forbids_is_told_and_the_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    kept = sorted(made.doomed)[0]
    with monkeypatch.context() as patched:
        patched.setattr(made.store, "delete_many", Refusing(made, {kept: StoreDenied("not allowed")}))
        done = run_vacuum(made.store)
    assert [(each.file, each.retained) for each in done.refused] == [(kept, False)]
    assert made.store.keys() & made.doomed == {kept}


def test_where_the_store_fails_the_vacuum_stops_and_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    monkeypatch.setattr("holdfast.archive.maintenance.vacuum.AT_ONCE", 1)
    with monkeypatch.context() as patched:
        errors = dict.fromkeys(made.doomed, StoreUnavailable("out of order"))
        patched.setattr(made.store, "delete_many", Refusing(made, errors))
        done = run_vacuum(made.store)
    assert (done.trouble, done.files, done.blocks) == ("out of order", 0, [])
    assert done.left > 1
    run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()
