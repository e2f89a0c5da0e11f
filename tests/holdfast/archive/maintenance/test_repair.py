"""Damaged files, put back from a copy of the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.format.commits import commit_key
from holdfast.archive.maintenance.copy_archive import copy
from holdfast.archive.maintenance.repair import check_copy, repair
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.queried import fill

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An archive with a snapshot and changes."""
    store = Archive.create(open_store(str(tmp_path / "archive")), name="shop").store
    fill(store)
    return store


@pytest.fixture
def copied(store: ObjectStore, tmp_path: Path) -> ObjectStore:
    target = open_store(str(tmp_path / "copy"))
    copy(store, target)
    return target


def files(store: ObjectStore) -> list[str]:
    return [found.key for found in store.list("data/").objects]


def mend(store: ObjectStore, copied: ObjectStore, paths: list[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    done = repair(Archive.open(store, before_damage=True), Archive.open(copied), paths, check=lambda: None)
    return done.files, dict(done.left)


def test_what_is_damaged_or_missing_is_put_back(store: ObjectStore, copied: ObjectStore) -> None:
    before = {path: store.get(path) for path in files(store)}
    changed, cut, missing = files(store)[:3]
    store.put(changed, before[changed][:-1] + b"?")
    store.put(cut, before[cut][:-1])
    store.delete(missing)
    damaged = [each.path for each in verify(Archive.open(store), deep=True).damage]
    assert sorted(damaged) == sorted((changed, cut, missing))
    assert mend(store, copied, damaged) == (tuple(damaged), {})
    assert {path: store.get(path) for path in files(store)} == before
    assert verify(Archive.open(store), deep=True).damage == ()


def test_a_file_that_the_copy_has_not_whole_stays_as_it_is_and_the_others_are_put_back(
    store: ObjectStore, copied: ObjectStore
) -> None:
    first, second, third = files(store)[:3]
    for path in (first, second, third):
        store.put(path, b"damaged")
    copied.put(first, b"damaged, too")
    copied.delete(second)
    done, left = mend(store, copied, [first, second, third])
    assert done == (third,)
    assert "is damaged" in left[first]
    assert "is missing" in left[second]
    assert (store.get(first), store.get(second)) == (b"damaged", b"damaged")


def test_what_is_no_file_of_a_block_and_no_commit_is_left_to_people(store: ObjectStore, copied: ObjectStore) -> None:
    assert mend(store, copied, ["archive.json"])[1] == {
        "archive.json": "it is no file of a block: see the runbook 'An archive is damaged'"
    }


def add_commits(store: ObjectStore, *reasons: str) -> None:
    for reason in reasons:
        change = Change(kind="vacuum", reason=reason)
        Archive.open(store).add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]


@pytest.mark.parametrize("damaged", [(1,), (2,), (2, 3), (1, 2, 3)])
def test_commits_are_put_back_where_those_beside_them_say_that_they_are_theirs(
    store: ObjectStore, tmp_path: Path, damaged: tuple[int, ...]
) -> None:
    add_commits(store, "one", "two")
    copied = open_store(str(tmp_path / "other"))
    copy(store, copied)
    keys = [commit_key(number) for number in damaged]
    written = {key: store.get(key) for key in keys}
    for key in keys[:-1]:
        store.put(key, store.get(key).replace(b"{", b"[", 1))
    store.delete(keys[-1])
    found = [each.path for each in verify(Archive.open(store, before_damage=True)).damage]
    assert found == keys
    assert mend(store, copied, found) == (tuple(keys), {})
    assert {key: store.get(key) for key in keys} == written
    assert verify(Archive.open(store), deep=True).damage == ()


def test_a_commit_that_a_checkpoint_spares_reading_is_put_back(store: ObjectStore, tmp_path: Path) -> None:
    archive = Archive.open(store)
    write_checkpoint(store, archive.identity.id, archive.state)
    copied = open_store(str(tmp_path / "other"))
    copy(store, copied)
    key = commit_key(1)
    store.put(key, b"damaged")
    damaged = [each.path for each in verify(Archive.open(store)).damage]
    assert damaged == [key]
    assert mend(store, copied, damaged) == ((key,), {})
    assert verify(Archive.open(store), deep=True).damage == ()


def test_what_was_put_among_the_commits_is_no_damage(store: ObjectStore) -> None:
    for stray in ("commits/README", f"{commit_key(1)}~"):
        store.put(stray, b"read me")
    assert verify(Archive.open(store)).damage == ()


def test_a_commit_of_a_copy_that_went_another_way_is_not_put_in(store: ObjectStore, copied: ObjectStore) -> None:
    for place in (store, copied):
        add_commits(place, f"only at {place.url}", "next")
    tip, before = commit_key(4), commit_key(3)
    store.put(before, b"damaged")
    assert "no commit behind it tells" in mend(store, copied, [before])[1][before]
    store.put(tip, b"damaged")
    assert "no commit behind it tells" in mend(store, copied, [before])[1][before]
    assert store.get(before) == b"damaged"


def test_the_newest_commit_is_left_to_people(store: ObjectStore, copied: ObjectStore) -> None:
    key = commit_key(2)
    store.put(key, b"damaged")
    assert "put it back by hand" in mend(store, copied, [key])[1][key]


def test_another_archive_or_the_same_place_is_no_copy(store: ObjectStore, tmp_path: Path) -> None:
    other = Archive.create(open_store(str(tmp_path / "other")), name="other")
    with pytest.raises(UsageError, match=r"is no copy of .*, but another archive \(other\)"):
        check_copy(Archive.open(store), other)
    with pytest.raises(UsageError, match="is the damaged archive itself"):
        check_copy(Archive.open(store), Archive.open(store))


def test_nothing_is_put_back_once_the_locks_are_lost(store: ObjectStore, copied: ObjectStore) -> None:
    path = files(store)[0]
    store.put(path, b"damaged")

    def lost() -> None:
        raise HoldfastError("lost")

    with pytest.raises(HoldfastError, match="lost"):
        repair(Archive.open(store), Archive.open(copied), [path], check=lost)
    assert store.get(path) == b"damaged"
