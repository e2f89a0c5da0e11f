"""Lifting archives of older formats: the same restore points before, after and in between, wherever it is ended."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive, Change, State
from holdfast.archive.files.blocks import read_batches
from holdfast.archive.format.commits import COMMITS, commit_key
from holdfast.archive.history import restore_points, target_resolution
from holdfast.archive.maintenance.migration import migrate
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreDenied
from tests.support.archives.archive_fixture import FIXTURES
from tests.support.jobs.steps import SteppedStore, Steps, When
from tests.support.stores.failing_requests import Failing

OLD = ("format-1", "format-1-changes", "format-1-large-objects", "format-1-sealed")


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return copied(request.param, tmp_path)


def copied(name: str, tmp_path: Path) -> ObjectStore:
    return open_store(str(shutil.copytree(FIXTURES / name, tmp_path / name)))


def lift(store: ObjectStore, to: int = 2) -> dict[str, Any]:
    return migrate(Archive.open(store), to, check=lambda: None, fence="txn")


def contents(store: ObjectStore) -> Any:
    """All that can be restored: the moments, and every row that they are made of."""
    archive = Archive.open(store)
    rows = {
        file.path: [batch.to_pylist() for batch in read_batches(store, file)]
        for placed in archive.state.blocks.values()
        for table in placed.block.tables
        for file in table.files
    }
    moments = [
        target_resolution.resolve(archive.state, store, source["source"], f"commit:{interval['commit']}").tables()
        for source in restore_points.describe(archive.state)["sources"]
        for interval in source["intervals"]
    ]
    return restore_points.describe(archive.state), moments, rows


def test_an_archive_of_an_older_release_has_the_same_restore_points_afterwards(old: ObjectStore) -> None:
    before, commits = contents(old), {found.key: old.get(found.key) for found in old.list(COMMITS).objects}
    done = lift(old)
    assert (done["from"], done["format"]) == (1, 2)
    assert contents(old) == before
    assert {key: old.get(key) for key in commits} == commits
    archive = Archive.open(old)
    assert (archive.state.format, archive.state.min_reader, archive.state.min_writer) == (2, 2, 2)
    assert verify(archive, deep=True).damage == ()


def test_it_is_opened_by_a_checkpoint_from_then_on(old: ObjectStore) -> None:
    commits = Archive.open(old).state.sequence
    lift(old)
    read: list[str] = []
    Archive.open(SteppedStore(old, Steps(0, "before", read.append)))
    assert read[-2:] == [f"list {COMMITS}", f"get {commit_key(commits + 1)}"]
    assert sum(name.startswith("get commits/") for name in read) == 1


@pytest.mark.parametrize("name", ["format-1", "format-1-changes"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_request_it_goes_on_and_readers_see_the_old_or_the_new(
    tmp_path: Path, name: str, when: When
) -> None:
    for at in itertools.count(1):
        store = copied(name, tmp_path / f"{at}")
        before = contents(store)
        failing = Failing(at, when, StoreDenied("ended here"), times=9)
        with contextlib.suppress(StoreDenied):
            migrate(Archive.open(SteppedStore(store, failing)), 2, check=lambda: None, fence=None)
        between = Archive.open(store).state.format
        assert between in (1, 2)
        assert contents(store) == before
        assert lift(store)["format"] == 2
        assert contents(store) == before
        assert [commit.kind for commit in Archive.open(store).commits()].count("migration") == 1
        if len(failing.requests) < at:
            break
    assert at > 2


def test_whoever_commits_meanwhile_is_not_lost(tmp_path: Path) -> None:
    store = copied("format-1", tmp_path)
    other, archive = Archive.open(store), Archive.open(store)
    for name in ("before", "after"):
        change = Change("vacuum", abandoned=(name,))
        other.add(partial(always, change), check=lambda: None, fence=None)
        migrate(archive, 2, check=lambda: None, fence=None)
    assert Archive.open(store).state.abandoned == {"before", "after"}
    assert [commit.format for commit in Archive.open(store).commits()] == [1, 1, 1, 2, 2]


def always(change: Change, state: State) -> Change:
    del state
    return change


def test_a_second_migration_finds_nothing_to_do(old: ObjectStore) -> None:
    lift(old)
    commits = Archive.open(old).state.sequence
    assert lift(old)["from"] == 2
    assert Archive.open(old).state.sequence == commits


def test_two_at_once_make_one_commit(tmp_path: Path) -> None:
    store = copied("format-1", tmp_path)
    late = Archive.open(store)
    lift(store)
    assert migrate(late, 2, check=lambda: None, fence=None)["from"] == 2
    assert [commit.kind for commit in Archive.open(store).commits()].count("migration") == 1


def test_no_format_is_lifted_backwards(tmp_path: Path) -> None:
    store = copied("format-1", tmp_path)
    lift(store)
    with pytest.raises(RefusedError, match="format 2"):
        lift(store, 1)


@pytest.mark.parametrize("to", [0, 3, -1])
def test_a_format_that_nobody_knows_is_refused(tmp_path: Path, to: int) -> None:
    with pytest.raises(UsageError, match="knows formats 1 to 2"):
        lift(copied("format-1", tmp_path), to)


def test_a_damaged_archive_is_refused_with_the_damage(tmp_path: Path) -> None:
    store = copied("format-1", tmp_path)
    (path, *_) = sorted(found.key for found in store.list("data/").objects)
    store.delete(path)
    with pytest.raises(DamagedError, match=f"not migrated: {path} is missing"):
        lift(store)
    assert Archive.open(store).state.format == 1


def test_an_older_release_refuses_what_was_lifted_and_says_which_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = copied("format-1", tmp_path)
    lift(store)
    store.delete(store.list("checkpoints/").objects[0].key)  # where it does not look
    monkeypatch.setattr("holdfast.archive.format.state.READS", 1)
    with pytest.raises(UsageError, match=r"commits/0+3\.json needs a reader of format 2"):
        Archive.open(store)


def test_a_lost_lock_lifts_nothing(tmp_path: Path) -> None:
    store = copied("format-1", tmp_path)

    def lost() -> None:
        raise RefusedError("lost")

    with pytest.raises(RefusedError, match="lost"):
        migrate(Archive.open(store), 2, check=lost, fence=None)
    assert (Archive.open(store).state.format, commit_key(3) in {f.key for f in store.list(COMMITS).objects}) == (
        1,
        False,
    )
