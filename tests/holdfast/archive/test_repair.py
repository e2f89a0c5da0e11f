"""Damaged files, put back from a copy of the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.copying import copy
from holdfast.archive.repair import check_copy, repair
from holdfast.archive.verify import verify
from holdfast.errors import HoldfastError, UsageError
from holdfast.storage import ObjectStore, open_store
from tests.support.queried import fill


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
    done = repair(Archive.open(store), Archive.open(copied), paths, check=lambda: None)
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


def test_commits_are_left_to_people(store: ObjectStore, copied: ObjectStore) -> None:
    commit = store.list("commits/").objects[0].key
    assert mend(store, copied, [commit])[1] == {
        commit: "it is no file of a block: see the runbook 'An archive is damaged'"
    }


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
