"""What a vacuum deletes, what it leaves, and who keeps it from either."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.commits import commit_key
from holdfast.archive.runs import RunLog, RunRecord
from holdfast.archive.unfinished import BegunBlock
from holdfast.archive.vacuum import vacuum
from holdfast.errors import DamagedError, RefusedError, UsageError
from holdfast.storage import ObjectRetained, StoreDenied, StoreError, StoreUnavailable
from locking import LockBusy, LockLost, RWLock, inspect
from locking.store import Listing
from tests.support.memory_store import MemoryStore
from tests.support.vacuuming import DAY, HOUR, Scene, commit, named_now, put_file, run_vacuum, scene, write_block


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    Archive.create(store, name="shop")
    return store


def data(store: MemoryStore) -> set[str]:
    return store.keys("data/")


def paths(*blocks: object) -> set[str]:
    return {file.path for block in blocks for file in block.files()}  # type: ignore[attr-defined]


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


def test_an_archive_that_was_opened_from_a_checkpoint_is_vacuumed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.archive.archive.CHECKPOINT_EVERY", 1)
    made = scene()
    assert made.store.keys("checkpoints/")
    run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()
    assert {key for key in made.needed if not key.startswith("checkpoints/")} <= made.store.keys()
    assert named_now(made.store) <= made.store.keys()


def test_a_dry_run_tells_the_same_and_changes_nothing() -> None:
    made = scene()
    before = made.store.keys()
    told = run_vacuum(made.store, dry_run=True)
    assert made.store.keys() == before
    done = run_vacuum(made.store)
    assert (told.files, told.size, sorted(told.blocks)) == (done.files, done.size, sorted(done.blocks))
    assert (told.abandoned, told.unknown, told.commits) == (done.abandoned, done.unknown, [])


def test_removed_blocks_alone_are_vacuumed_without_listing_the_data() -> None:
    made = scene()
    orphans = {key for key in made.doomed if made.orphan in key}
    made.store.requests.clear()
    done = run_vacuum(made.store, orphans=False)
    assert len(done.blocks) == 2
    assert orphans <= made.store.keys()
    assert not [name for name in made.store.requests if name.startswith("list data/")]


def test_requests_for_removed_blocks_are_as_many_as_these_and_not_as_the_blocks_there_are(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.archive.archive.CHECKPOINT_EVERY", 8)
    blocks = [write_block(store) for _ in range(40)]
    for block in blocks:
        commit(store, add=(block,))
    commit(store, "truncation", remove=(blocks[0].id,))
    store.advance(2 * DAY)
    commit(store, "noted")
    store.requests.clear()
    run_vacuum(store, orphans=False)
    read = [name for name in store.requests if name.startswith("get commits/")]
    assert len(read) < 12  # those since the checkpoint, and the one that added the block


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
    assert data(store) == paths(*blocks)
    assert stray not in data(store)


@pytest.mark.parametrize(("age", "goes"), [(DAY - timedelta(microseconds=1), False), (DAY, True)])
def test_the_grace_is_over_when_it_is(store: MemoryStore, age: timedelta, goes: bool) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    put_file(store, uuid.uuid4().hex)
    store.advance(age)
    done = run_vacuum(store)
    assert (data(store) == set(), done.waiting == {}, done.young == []) == (goes, goes, goes)


def test_without_a_grace_everything_goes_at_once(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    put_file(store, uuid.uuid4().hex)
    run_vacuum(store, grace=timedelta(0))
    assert data(store) == set()


def test_a_grace_below_nothing_is_refused(store: MemoryStore) -> None:
    with pytest.raises(UsageError, match="grace"):
        run_vacuum(store, grace=timedelta(seconds=-1))


def test_where_the_clock_was_set_back_nothing_is_due(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    put_file(store, uuid.uuid4().hex)
    before = data(store)
    store.advance(-30 * DAY)
    done = run_vacuum(store)
    assert (data(store), list(done.waiting), done.files) == (before, [block.id], 0)


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


def test_a_file_goes_with_the_last_block_that_names_it(store: MemoryStore) -> None:
    first = write_block(store)
    commit(store, add=(first,))
    second = write_block(store, catalog=first.catalog)
    third = write_block(store, catalog=first.catalog)
    commit(store, add=(second, third))
    commit(store, "truncation", remove=(first.id,))
    store.advance(2 * DAY)
    assert run_vacuum(store).blocks == [first.id]
    assert data(store) == paths(second, third)
    commit(store, "truncation", remove=(second.id,))
    store.advance(HOUR)
    commit(store, "truncation", remove=(third.id,))
    store.advance(DAY - HOUR)
    assert run_vacuum(store).blocks == [second.id]
    assert first.catalog.path in data(store)
    store.advance(HOUR)
    assert run_vacuum(store).blocks == [third.id]
    assert data(store) == set()


def test_rows_that_a_snapshot_shares_with_an_older_one_stay_with_it(store: MemoryStore) -> None:
    old = write_block(store)
    number = commit(store, add=(old,))
    made = write_block(store, tables=0, shared=old.tables[0].files, after=number)
    commit(store, add=(made,))
    commit(store, "truncation", remove=(old.id,))
    store.advance(2 * DAY)
    run_vacuum(store)
    assert data(store) == paths(made)
    store.advance(2 * DAY)
    assert run_vacuum(store).files == 0
    commit(store, "truncation", remove=(made.id,))
    store.advance(2 * DAY)
    run_vacuum(store)
    assert data(store) == set()


def test_a_removed_snapshot_takes_no_rows_from_the_older_one_that_it_shares_them_with(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.archive.archive.CHECKPOINT_EVERY", 1)
    old = write_block(store)
    number = commit(store, add=(old,))
    made = write_block(store, tables=0, shared=old.tables[0].files, after=number)
    commit(store, add=(made,))
    commit(store, "truncation", remove=(made.id,))
    store.advance(2 * DAY)
    assert run_vacuum(store).blocks == [made.id]
    assert data(store) == paths(old)


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
    assert data(store) == paths(old, made)
    assert lost.path not in data(store)


def test_a_backup_that_names_rows_of_another_block_is_refused(store: MemoryStore) -> None:
    """A checkpoint does not tell of such: the rows could go with the other block."""
    old = write_block(store)
    commit(store, add=(old,))
    with pytest.raises(RefusedError, match="written for another block"):
        commit(store, add=(write_block(store, shared=old.tables[0].files),))


def test_files_that_are_gone_already_are_no_reason_to_stop(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    commit(store, "truncation", remove=(block.id,))
    store.delete(block.tables[0].files[0].path)
    store.advance(2 * DAY)
    assert run_vacuum(store).blocks == [block.id]
    assert data(store) == set()


def test_a_commit_that_is_missing_stops_the_vacuum(store: MemoryStore) -> None:
    block = write_block(store)
    commit(store, add=(block,))
    number = commit(store, "truncation", remove=(block.id,))
    commit(store, "noted")
    store.advance(2 * DAY)
    store.delete(commit_key(number))
    before = data(store)
    with pytest.raises(DamagedError, match=f"commit {number} is missing"):
        run_vacuum(store)
    assert data(store) == before


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
    add = Archive.add
    woken: list[bool] = []

    def wake(self: Archive, *arguments: object, **more: object) -> object:
        if not woken:
            woken.append(True)
            commit(store, add=(block,))
        return add(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Archive, "add", wake)
    done = run_vacuum(store)
    assert (done.abandoned, done.files) == ([], 0)
    assert paths(block) <= data(store)
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
    add = Archive.add
    woken: list[bool] = []

    def wake(self: Archive, *arguments: object, **more: object) -> object:
        if not woken:
            woken.append(True)
            commit(store, add=(last,))
        return add(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Archive, "add", wake)
    run_vacuum(store)
    assert data(store) == paths(first, last)
    assert stray.path not in data(store)


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
    assert data(store) == {mine.path}
    assert other.path not in data(store)
    assert "backup shop" in done.busy[0]
    assert done.left == 0
    run_vacuum(store)
    assert data(store) == set()


def test_a_block_whose_run_has_told_something_lately_is_left_alone(store: MemoryStore) -> None:
    block = uuid.uuid4().hex
    file = put_file(store, block)
    store.advance(2 * DAY)
    with RunLog(store, "backup-1", "backup") as log:
        log.begin(BegunBlock(id=block, snapshot="", started_from=None, catalog=file, schema_dump=file))
        log.progress("reading tables")
    store.put("runs/other/000000.json", b"damaged")
    assert run_vacuum(store).young == [block]
    assert file.path in data(store)
    store.advance(DAY)
    assert run_vacuum(store).abandoned == [block]
    assert RunRecord.from_bytes(store.get("runs/backup-1/000000.json"), "").run == "backup-1"


def test_a_block_with_one_young_file_is_left_alone(store: MemoryStore) -> None:
    block = uuid.uuid4().hex
    put_file(store, block, table="1")
    store.advance(2 * DAY)
    put_file(store, block, table="2")
    assert run_vacuum(store).young == [block]
    assert len(data(store)) == 2


@pytest.mark.parametrize(
    "key",
    [
        "data/notes",
        "data/shop/1/snapshot/notes.txt",
        f"data/shop/1/snapshot/{'a' * 32}/notes.txt",
        f"data/shop/1/elsewhere/{'a' * 32}/00000-{'0' * 12}.parquet",
        f"data/shop/1/snapshot/{'A' * 32}/00000-{'0' * 12}.parquet",
        f"data/a source/1/snapshot/{'a' * 32}/00000-{'0' * 12}.parquet",
    ],
)
def test_what_no_backup_has_written_is_left_alone_and_named(store: MemoryStore, key: str) -> None:
    store.put(key, b"")
    store.advance(30 * DAY)
    assert run_vacuum(store).unknown == [key]
    assert key in data(store)


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
    monkeypatch.setattr("holdfast.archive.vacuum._BATCH_S", 0.0)
    monkeypatch.setattr("holdfast.archive.vacuum._AT_ONCE", 2)
    read: list[bool] = []

    def take_turn(seconds: float) -> None:
        RWLock(made.store, "history").read(wait=0).release()
        read.append(seconds > 1)

    monkeypatch.setattr("holdfast.archive.vacuum.time.sleep", take_turn)
    run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()
    assert len(read) > 3
    assert all(read)


def test_two_vacuums_do_not_run_at_once() -> None:
    made = scene()
    with RWLock(made.store, "maintenance").write(purpose="vacuum", wait=0), pytest.raises(LockBusy):
        run_vacuum(made.store)
    assert made.store.keys() >= made.doomed


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
    monkeypatch.setattr("holdfast.archive.vacuum._AT_ONCE", 2)
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
    monkeypatch.setattr("holdfast.archive.vacuum._AT_ONCE", 1)
    delete = made.store.delete_many

    def commit_first(keys: Sequence[str]) -> Mapping[str, StoreError]:
        block = write_block(made.store)
        commit(made.store, add=(block,))
        made.needed |= paths(block)
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

    def commit_first(prefix: str, *, start_after: str = "") -> Listing:
        if prefix.startswith("locks/history") and late.id not in Archive.open(store).state.blocks:
            commit(store, add=(late,))
        return look(prefix, start_after=start_after)

    monkeypatch.setattr(store, "list", commit_first)
    assert run_vacuum(store, orphans=False).blocks == [old.id]
    assert data(store) == paths(late)


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
    assert data(store) == {file.path}
    assert done.describe()["refused"][0]["until"].startswith("2026-03-04")
    assert list(Archive.open(store).state.removed) == [kept.id]
    assert run_vacuum(store).blocks == [kept.id]
    assert data(store) == set()


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
    monkeypatch.setattr("holdfast.archive.vacuum._AT_ONCE", 1)
    with monkeypatch.context() as patched:
        errors = dict.fromkeys(made.doomed, StoreUnavailable("out of order"))
        patched.setattr(made.store, "delete_many", Refusing(made, errors))
        done = run_vacuum(made.store)
    assert (done.trouble, done.files, done.blocks) == ("out of order", 0, [])
    assert done.left > 1
    run_vacuum(made.store)
    assert made.store.keys() & made.doomed == set()
