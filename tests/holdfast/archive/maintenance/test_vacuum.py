"""What a vacuum deletes, and what it leaves."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from holdfast.archive import Archive
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.resume import BegunBlock
from holdfast.archive.format.runs import RunLog, RunRecord
from holdfast.common.errors import RefusedError, UsageError
from locking import inspect
from tests.support.archives.block_files import data_keys, empty_archive, paths_of
from tests.support.archives.vacuuming import DAY, HOUR, commit, named_now, put_file, run_vacuum, scene, write_block
from tests.support.stores.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return empty_archive()


def test_what_nothing_needs_goes_and_all_else_stays() -> None:
    made = scene()
    done = run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()
    assert made.needed <= made.store.keys()
    assert (done.files, len(done.blocks)) == (len(made.doomed), 2)
    assert done.abandoned == [made.orphan]
    assert done.unknown == ["data/notes.txt"]
    assert (done.left, done.busy, done.refused, done.trouble) == (0, [], [], "")
    assert named_now(made.store) <= made.store.keys()
    assert Archive.open(made.store).state.removed == {}


def test_a_second_run_finds_nothing_and_commits_nothing() -> None:
    made = scene()
    run_vacuum(made.store)
    before = made.store.keys()
    done = run_vacuum(made.store)
    assert (done.files, done.commits) == (0, [])
    assert made.store.keys() == before
    assert inspect(made.store) == []


def test_a_dry_run_tells_the_same_and_changes_nothing() -> None:
    made = scene()
    before = made.store.keys()
    told = run_vacuum(made.store, dry_run=True)
    assert made.store.keys() == before
    done = run_vacuum(made.store)
    assert (told.files, told.size, sorted(told.blocks)) == (done.files, done.size, sorted(done.blocks))
    assert (told.abandoned, told.unknown, told.commits) == (done.abandoned, done.unknown, [])


@pytest.mark.parametrize("orphans", [True, False])
def test_a_release_that_is_too_old_to_write_deletes_nothing(monkeypatch: pytest.MonkeyPatch, orphans: bool) -> None:
    made = scene()
    before = made.store.keys()
    monkeypatch.setattr("holdfast.archive.format.state.WRITES", 1)
    with pytest.raises(UsageError, match=r"needs a writer of format 2; .* Upgrade holdfast"):
        run_vacuum(made.store, orphans=orphans)
    assert made.store.keys() == before


def test_removed_blocks_alone_are_vacuumed_without_listing_the_data() -> None:
    made = scene()
    orphans = {key for key in made.doomed if made.orphan in key}
    made.store.requests.clear()
    done = run_vacuum(made.store, orphans=False)
    assert len(done.blocks) == 2
    assert orphans <= made.store.keys()
    assert not [name for name in made.store.requests if name.startswith("list data/")]


def test_a_listing_alone_clears_committed_blocks_that_the_checkpoint_tells_of(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.archive.archive.CHECKPOINT_EVERY", 8)
    blocks = [write_block(store) for _ in range(40)]
    for block in blocks:
        commit(store, add=(block,))
    stray = put_file(store, blocks[3].id).path
    store.advance(2 * DAY)
    store.requests.clear()
    run_vacuum(store)
    read = [name for name in store.requests if name.startswith("get commits/")]
    assert len(read) < 12
    assert data_keys(store) == paths_of(*blocks)
    assert stray not in data_keys(store)


@pytest.mark.parametrize(("age", "goes"), [(DAY - timedelta(microseconds=1), False), (DAY, True)])
def test_the_grace_is_over_when_it_is(store: MemoryStore, age: timedelta, goes: bool) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    put_file(store, uuid.uuid4().hex)
    store.advance(age)
    done = run_vacuum(store)
    assert (data_keys(store) == set(), done.waiting == {}, done.young == []) == (goes, goes, goes)


def test_without_a_grace_everything_goes_at_once(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    put_file(store, uuid.uuid4().hex)
    run_vacuum(store, grace=timedelta(0))
    assert data_keys(store) == set()


def test_a_grace_below_nothing_is_refused(store: MemoryStore) -> None:
    with pytest.raises(UsageError, match="grace"):
        run_vacuum(store, grace=timedelta(seconds=-1))


def test_where_the_clock_was_set_back_nothing_is_due(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    put_file(store, uuid.uuid4().hex)
    before = data_keys(store)
    store.advance(-30 * DAY)
    done = run_vacuum(store)
    assert (data_keys(store), list(done.waiting), done.files) == (before, [block.id], 0)


def test_a_commit_that_was_made_long_after_it_was_begun_counts_from_when_it_was_made(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer may have been suspended between asking for the time and writing it."""
    block = write_block(store)
    commit(store, add=(block,))
    create = store.create

    def sleep_first(key: str, body: bytes) -> None:
        store.advance(3 * DAY)
        create(key, body)

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", sleep_first)
        number = commit(store, "truncation", remove=(block.id,))
    assert store.now - Archive.open(store).state.removed[block.id].at == 3 * DAY
    assert list(run_vacuum(store).waiting) == [block.id]
    store.advance(DAY)
    assert run_vacuum(store).blocks == [block.id]
    assert store.keys(commit_key(number))


def test_a_clock_that_was_set_back_while_a_block_was_removed_does_not_shorten_its_grace(store: MemoryStore) -> None:
    """A machine that boots with a flat battery has years ago until it asks the time; its archive is in a folder."""
    block = write_block(store)
    commit(store, add=(block,))
    store.advance(HOUR)
    commit(store, "noted")
    store.advance(-30 * DAY)
    commit(store, "noted")
    commit(store, "truncation", remove=(block.id,))
    store.advance(30 * DAY + 23 * HOUR)
    assert list(run_vacuum(store).waiting) == [block.id]
    store.advance(HOUR)
    assert run_vacuum(store).blocks == [block.id]


def test_a_clock_that_once_ran_ahead_keeps_no_file_until_its_time_comes(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    store.advance(300 * DAY)
    commit(store, "noted")
    store.advance(-300 * DAY)
    commit(store, "truncation", remove=(block.id,))
    store.advance(DAY)
    assert run_vacuum(store).blocks == [block.id]


def test_an_attempt_that_lost_goes_also_where_the_one_that_won_is_shared(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the same size, and the checkpoint tells the files' names of the made snapshot alone."""
    monkeypatch.setattr("holdfast.archive.archive.CHECKPOINT_EVERY", 1)
    old = write_block(store)
    lost = put_file(store, old.id)
    number = commit(store, add=(old,))
    made = write_block(store, tables=0, shared=old.tables[0].files, after=number)
    commit(store, add=(made,))
    store.advance(2 * DAY)
    run_vacuum(store)
    assert data_keys(store) == paths_of(old, made)
    assert lost.path not in data_keys(store)


def test_a_backup_that_names_rows_of_another_block_is_refused(store: MemoryStore) -> None:
    """A checkpoint does not tell of such: the rows could go with the other block."""
    old = write_block(store)
    commit(store, add=(old,))
    with pytest.raises(RefusedError, match="written for another block"):
        commit(store, add=(write_block(store, shared=old.tables[0].files),))


def test_a_block_whose_run_has_told_something_lately_is_left_alone(store: MemoryStore) -> None:
    block = uuid.uuid4().hex
    file = put_file(store, block)
    store.advance(2 * DAY)
    with RunLog(store, "backup-1", "backup") as log:
        log.begin(BegunBlock(id=block, snapshot="", started_from=None, catalog=file, schema_dump=file))
        log.progress("reading tables")
    store.put("runs/other/000000.json", b"damaged")
    assert run_vacuum(store).young == [block]
    assert file.path in data_keys(store)
    store.advance(DAY)
    assert run_vacuum(store).abandoned == [block]
    assert RunRecord.from_bytes(store.get("runs/backup-1/000000.json"), "").run == "backup-1"
