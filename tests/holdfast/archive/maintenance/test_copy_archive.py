"""Copies of an archive: equal to it in the end, and never taken for a whole one before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, State, locks
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.files import transfer
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.runs import read_last
from holdfast.archive.maintenance import copy_archive
from holdfast.archive.maintenance.copy_archive import copy, in_order, plan
from holdfast.archive.maintenance.repair import repair
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError, OutcomeUnknownError, RefusedError, UsageError
from holdfast.common.signing import KEY_VARIABLE, Signing
from holdfast.storage import ObjectStore, StoreFull, StoreUnavailable, open_store
from holdfast.storage.encryption.key_source import new_key
from locking import LockBusy, Owner, RWLock
from locking import inspect as inspect_locks
from tests.support.archives.archive_fixture import FIXTURES
from tests.support.archives.damaged_archive import add_backup, fill
from tests.support.jobs.steps import SteppedStore, When
from tests.support.no_waiting import no_waiting
from tests.support.signers import new_signer
from tests.support.stores.failing_requests import FULL, UNKNOWN, Failing

pytestmark = pytest.mark.slow

NEVER = 10**6


@pytest.fixture
def source(tmp_path: Path) -> ObjectStore:
    """An archive of three backups, with something in every folder that an archive may have."""
    return fill(str(tmp_path / "archive")).store


@pytest.fixture
def target(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "copy"))


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "AT_ONCE", 1)
    monkeypatch.setattr(copy_archive, "AT_ONCE", 1)


def contents(store: ObjectStore) -> dict[str, bytes]:
    """What makes a copy: files that are needed, commits and the identity."""
    named = {file.path for placed in Archive.open(store).state.blocks.values() for file in placed.block.files()}
    keys = [found.key for found in store.list("").objects]
    return {key: store.get(key) for key in keys if key in named or key.startswith("commits/") or key == IDENTITY_KEY}


def equal(source: ObjectStore, target: ObjectStore) -> bool:
    kept = {key: body for key, body in contents(source).items() if body}  # what a refused write left is no part of it
    return kept == contents(target) and verify(Archive.open(target), deep=True).damage == ()


def _given(change: Change, state: State) -> Change:
    return change


def commit(store: ObjectStore, **change: tuple[str, ...]) -> None:
    """Make a commit that does this alone."""
    made = Change(kind="test", **change)  # type: ignore[arg-type]
    Archive.open(store).add(partial(_given, made), check=lambda: None, fence=None)


def vacuum(store: ObjectStore, block: str) -> None:
    """Remove a block, then its files."""
    placed = Archive.open(store).state.blocks[block]
    commit(store, remove=(block,))
    for file in placed.block.files():
        store.delete(file.path)
    commit(store, vacuumed=(block,))


def test_a_copy_has_every_file_that_is_needed_and_every_commit(source: ObjectStore, target: ObjectStore) -> None:
    expected = {key for key in contents(source) if key.startswith("data/")}
    assert plan(source, target).files == len(expected)
    assert target.list("").objects == ()
    done = copy(source, target)
    assert (done.commit, done.commits, done.files, done.skipped) == (3, 3, len(expected), 0)
    assert done.size == sum(len(source.get(key)) for key in expected)
    assert equal(source, target)


def test_locks_runs_and_probes_stay_where_they_are(source: ObjectStore, target: ObjectStore) -> None:
    source.put("probes/20260301T120000Z-00000000.json", b"{}")
    copy(source, target)
    folders = {found.key.split("/")[0] for found in target.list("").objects}
    assert folders == {"archive.json", "checkpoints", "commits", "data", "runs"}
    runs = {found.key.split("/")[1] for found in target.list("runs/").objects}
    assert runs == {f"copy.{Archive.open(source).identity.id}"}
    assert inspect_locks(source) == inspect_locks(target) == []


def test_a_second_copy_brings_only_what_is_new(source: ObjectStore, target: ObjectStore) -> None:
    copy(source, target)
    again = copy(source, target)
    assert (again.commits, again.files, again.skipped) == (0, 0, 12)
    add_backup(Archive.open(source), 4)
    assert plan(source, target).files == 4
    more = copy(source, target)
    assert (more.commit, more.commits, more.files, more.skipped) == (4, 1, 4, 12)
    assert equal(source, target)
    record = read_last(target, f"copy.{more.archive.id}")
    assert record is not None
    assert record.state == "succeeded"
    assert record.result == {"commit": 4, "source": "shop", "commits": 1, "files": 4, "bytes": more.size}


def test_a_copy_that_loses_its_newest_commit_is_found_out(source: ObjectStore, target: ObjectStore) -> None:
    copy(source, target)
    for found in (*target.list(commit_key(3)).objects, *target.list("checkpoints/").objects):
        target.delete(found.key)
    (damage,) = verify(Archive.open(target)).damage
    assert str(damage).startswith(f"{commit_key(3)} is missing")
    assert "the backup of shop, restore point commit:3" in str(damage)


def test_what_was_removed_is_not_copied_and_not_missed(source: ObjectStore, target: ObjectStore) -> None:
    vacuum(source, "block1")
    commit(source, remove=("block2",))  # its files are still there
    done = copy(source, target)
    assert done.files == 4
    assert {key.split("/")[4] for key in contents(target) if key.startswith("data/")} == {"block3"}
    assert equal(source, target)


def test_blocks_that_came_and_went_between_two_copies_are_not_missed(source: ObjectStore, target: ObjectStore) -> None:
    copy(source, target)
    add_backup(Archive.open(source), 4)
    vacuum(source, "block4")
    vacuum(source, "block1")
    add_backup(Archive.open(source), 5)
    copy(source, target)
    assert equal(source, target)


def numbered(changes: list[tuple[tuple[str, ...], tuple[str, ...]]], archive: Archive) -> list[ArchiveCommit]:
    """Return the commits after these have been made: ids of blocks that each adds, and that each removes."""
    for number, (add, remove) in enumerate(changes, 1):
        blocks = tuple(make_block(identity=each, position=f"0/{number}00") for each in add)
        change = Change(kind="test", add=blocks, remove=remove)
        archive.add(partial(_given, change), check=lambda: None, fence=None)
    return list(archive.commits())


def test_commits_that_name_files_which_are_gone_come_after_those_that_follow(archive: Archive) -> None:
    commits = numbered(
        [(("a",), ()), (("b",), ()), (("c",), ("b",)), (("d",), ()), ((), ("d",)), (("e",), ("c",))], archive
    )
    # b is gone after 3, c only after 6: nothing between 2 and 6 can stand alone.
    assert in_order(commits, archive.state, None) == [1, 6, 5, 4, 3, 2]
    assert in_order(commits[4:], archive.state, commits[3]) == [5, 6]
    with pytest.raises(DamagedError, match="does not follow the commit before it"):
        in_order(commits[2:], archive.state, commits[0])


class _Made(SimpleNamespace):
    own_checksum = ""

    def follows(self, tip: str | None, _checksum: str = "") -> bool:
        return bool(self.parent == tip)


@given(st.data())
def test_whatever_commits_did_and_wherever_a_copy_stops_no_file_is_named_that_is_not_there(data: st.DataObject) -> None:
    here: set[str] = set()
    states, made = [frozenset[str]()], []
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        remove = data.draw(st.sets(st.sampled_from(sorted(here)))) if here else set()
        add = {f"{number}-{each}" for each in range(data.draw(st.integers(0, 2)))}
        here = (here - remove) | add
        states.append(frozenset(here))
        added = [SimpleNamespace(id=each) for each in add]
        parent = str(number - 1) if number > 1 else None
        made.append(_Made(sequence=number, id=str(number), parent=parent, add=added, remove=remove))
    since = data.draw(st.integers(0, len(made)))
    there = states[since] | states[-1]  # the files of every block that an earlier copy had, and of the newest ones
    order = in_order(
        cast(Any, made[since:]), cast(Any, SimpleNamespace(blocks=here)), cast(Any, made[since - 1]) if since else None
    )
    assert sorted(order) == list(range(since + 1, len(made) + 1))
    for stopped in range(len(order) + 1):
        commits = {*range(1, since + 1), *order[:stopped]}
        opens = commits == set(range(1, len(commits) + 1))
        assert not opens or states[len(commits)] <= there


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir()))
def test_what_earlier_releases_wrote_is_copied(name: str, tmp_path: Path, target: ObjectStore) -> None:
    source = open_store(str(shutil.copytree(FIXTURES / name, tmp_path / name)))
    copy(source, target)
    assert equal(source, target)
    assert copy(source, target).commits == 0


def test_lost_answers_end_no_copy_where_they_can_be_asked_for_again(source: ObjectStore, target: ObjectStore) -> None:
    failing = Failing(1, "after", UNKNOWN, named="create commits/")
    copy(source, SteppedStore(target, failing))
    assert len(failing.requests) == 4  # one was offered again
    assert equal(source, target)


def copy_until(source: ObjectStore, target: ObjectStore, at: int, when: When, patch: pytest.MonkeyPatch) -> list[str]:
    """Copy while every change in the target fails from one request on, and return the requests that were made."""
    failing = Failing(at, when, FULL, times=10**6)
    with patch.context() as patched, suppress(StoreFull, StoreUnavailable, OutcomeUnknownError):
        no_waiting(patched)
        copy(source, SteppedStore(target, failing))
    for found in target.list("locks/").objects:  # as whoever reaps them would, after a while
        target.delete(found.key)
    return failing.requests


def cloned(store: ObjectStore, folder: Path) -> ObjectStore:
    """Return a place that holds the same."""
    clone = open_store(str(folder))
    for found in store.list("").objects:
        clone.put(found.key, store.get(found.key))
    return clone


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("earlier", ["none", "a copy"])
def test_a_copy_that_was_killed_is_no_archive_or_a_whole_one_and_goes_on(
    tmp_path: Path, when: When, earlier: str, one_by_one: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_store(str(tmp_path / "archive"))
    archive = Archive.create(source, name="shop")
    add_backup(archive, 1)
    begun = open_store(str(tmp_path / "begun"))
    if earlier == "a copy":
        copy(source, begun)
    add_backup(archive, 2)
    vacuum(source, "block2")
    add_backup(archive, 3)
    requests = copy_until(source, cloned(begun, tmp_path / "counted"), NEVER, when, monkeypatch)
    files = [request for request in requests if "data/" in request]
    for at, request in enumerate(requests, 1):
        # Kills at locks and probes are others' tests; of the files, the first and the last tell of all.
        if "locks/" in request or "probes/" in request or request in files[4:-2]:
            continue
        target = cloned(begun, tmp_path / f"copy-{at}")
        assert request in copy_until(source, target, at, when, monkeypatch)[at - 1]
        try:
            half = Archive.open(target)
        except (UsageError, DamagedError):
            assert request != requests[-1]
        else:
            assert verify(half, deep=True).damage == (), request
            assert half.state.sequence != 2, request  # which names files that are gone
        copy(source, target)
        assert equal(source, target), request
    assert sum("commits/" in request for request in requests) == (5 if earlier == "none" else 4)


def test_a_damaged_file_of_the_source_is_named_and_does_not_arrive(source: ObjectStore, target: ObjectStore) -> None:
    key = next(key for key in contents(source) if key.endswith(".parquet"))
    body = source.get(key)
    source.put(key, body[:-1] + bytes([body[-1] ^ 1]))
    with pytest.raises(DamagedError, match=f"{key} in .* is damaged: .* it goes on from here"):
        copy(source, target)
    assert key not in {found.key for found in target.list("data/").objects}
    with pytest.raises(UsageError, match="is not an archive"):
        Archive.open(target)
    source.delete(key)
    with pytest.raises(DamagedError, match=f"{key} in .* is damaged: it is missing"):
        copy(source, target)
    source.put(key, body)
    copy(source, target)
    assert equal(source, target)


def test_a_damaged_commit_of_the_source_is_named(source: ObjectStore, target: ObjectStore) -> None:
    body = source.get(commit_key(2))
    source.put(commit_key(2), body.replace(b"block2", b"block9", 1))
    with pytest.raises(DamagedError, match=commit_key(2)):
        copy(source, target)
    assert target.list("commits/").objects == ()


def test_files_of_another_size_are_replaced_and_damaged_ones_if_they_are_read(
    source: ObjectStore, target: ObjectStore
) -> None:
    copy(source, target)
    cut, changed = [key for key in contents(source) if key.endswith(".parquet")][:2]
    target.put(cut, b"")
    target.put(changed, bytes(len(source.get(changed))))
    assert plan(source, target).replaced == 1
    assert copy(source, target).replaced == 1
    assert (target.get(cut), target.get(changed) == source.get(changed)) == (source.get(cut), False)
    done = copy(source, target, deep=True)
    assert (done.replaced, done.files, done.skipped) == (1, 1, 11)
    assert equal(source, target)


def test_a_copy_goes_to_an_empty_place_or_to_a_copy_only(
    source: ObjectStore, target: ObjectStore, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be copied to itself"):
        copy(source, open_store(source.url))
    for inside in ("commits/copy", "locks/maintenance", "copy"):
        with pytest.raises(UsageError, match=f"{inside} is inside {source.url}"):
            copy(source, open_store(f"{source.url}/{inside}"))
    with pytest.raises(UsageError, match="is not an archive"):
        copy(target, open_store(str(tmp_path / "else")))
    target.put("report.txt", b"mine")
    with pytest.raises(UsageError, match=r"is not empty \(it holds report.txt and 0 more\)"):
        copy(source, target)
    assert [found.key for found in target.list("").objects] == ["report.txt"]
    other = Archive.create(open_store(str(tmp_path / "other")), name="other").store
    before = contents(other)
    with pytest.raises(UsageError, match="is another archive"):
        copy(source, other)
    assert contents(other) == before


def test_a_copy_that_went_another_way_is_refused(source: ObjectStore, target: ObjectStore) -> None:
    copy(source, target)
    add_backup(Archive.open(target), 4)
    with pytest.raises(RefusedError, match=f"has {commit_key(4)}, but .* ends at commit 3"):
        copy(source, target)
    add_backup(Archive.open(source), 5)
    with pytest.raises(RefusedError, match=f"{commit_key(4)} of .* is not that of"):
        copy(source, target)


def test_a_place_that_lets_two_create_one_object_is_refused(
    source: ObjectStore, target: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(target), "probe_create_if_absent", lambda self: False)
    with pytest.raises(RefusedError, match="conditional writes"):
        copy(source, target)
    assert target.list("data/").objects == ()


def test_a_copy_waits_for_nobody_it_was_not_told_to_wait_for(source: ObjectStore, target: ObjectStore) -> None:
    with RWLock(source, "history").write(purpose="vacuum"), pytest.raises(LockBusy, match="vacuum"):
        copy(source, target)
    other = locks.acquire(target, "copy", owner=Owner(), purpose="another copy", wait=0)
    with other, pytest.raises(LockBusy, match="another copy"):
        copy(source, target)
    assert inspect_locks(source) == []


def test_history_is_given_back_again_and_again_and_what_goes_meanwhile_is_left_out(
    source: ObjectStore, target: ObjectStore, one_by_one: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_archive, "CHUNK_S", -1.0)
    acquired: list[str] = []
    acquire: Callable[..., locks.HeldLocks] = locks.acquire

    def counted(store: ObjectStore, operation: str, **more: object) -> locks.HeldLocks:
        acquired.append(operation)
        if len(acquired) == 4:  # nobody reads the history now
            with RWLock(source, "history").write(purpose="vacuum"):
                vacuum(source, "block3")
        return acquire(store, operation, **more)

    monkeypatch.setattr("holdfast.archive.locks.acquire", counted)
    done = copy(source, target)
    assert acquired.count("copy") == 1
    assert acquired.count("source-side") == 8  # one more than files were missing
    assert done.commit == 5
    assert equal(source, target)


def test_how_far_it_is_is_told_for_each_file(source: ObjectStore, target: ObjectStore, one_by_one: None) -> None:
    told: list[copy_archive.CopyProgress] = []
    done = copy(source, target, on_progress=told.append)
    assert [each.files for each in told] == list(range(1, 13))
    assert {each.all_files for each in told} == {12}
    assert (told[-1].size, {each.all_size for each in told}) == (done.size, {done.size})


@pytest.mark.parametrize("sealed", [False, True])
def test_a_signed_archive_is_copied_and_repaired_by_who_can_only_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sealed: bool
) -> None:
    address, public = new_signer(tmp_path / "sign")
    with monkeypatch.context() as patch:
        patch.setenv(KEY_VARIABLE, address)
        source = fill(str(tmp_path / "source")).store
    readers = Signing(signers=(public,))
    (tmp_path / "key").write_text(new_key())
    (tmp_path / "key").chmod(0o600)
    target = open_store(str(tmp_path / "target"), f"file:{tmp_path / 'key'}" if sealed else None, readers)
    for _ in range(2):
        assert copy(open_store(source.url, None, readers), target).commit == 3
        assert contents(target) == contents(source)
    assert verify(Archive.open(target), deep=True).damage == ()
    assert target.list("checkpoints/").objects == ()  # nobody would believe one
    add_backup(Archive.open(source), 4)
    assert copy(open_store(source.url, None, readers), target).commits == 1
    Path(target.url, commit_key(2)).write_bytes(b"damaged")
    damaged = Archive.open(target, before_damage=True)
    assert repair(damaged, Archive.open(source), [commit_key(2)], check=lambda: None).files == (commit_key(2),)
    assert Archive.open(target).state.tip == Archive.open(source).state.tip
