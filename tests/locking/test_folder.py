"""The folder of a lock: what a look shows of it, whatever lies there and however it is listed."""

from __future__ import annotations

import pytest

from locking.errors import InvalidLockName
from locking.folder import FolderClaim, LockFolder, list_union, looks_by_resource
from tests.support.locks.lockstore import START, FakeTime, MemoryStore, Request
from tests.support.locks.looks import claim, look, object_at, txn

ONE, TWO = txn(1), txn(2)


def fill(store: MemoryStore) -> None:
    for name in (
        f"WRIT.{TWO}", f"INTENT.WRIT.{TWO}", f"READ.{ONE}", f"DEAD.{ONE}", f"DEAD.{txn(3)}", "notes.txt", f"WRIT.{ONE}",
        f"DEAD.{ONE}.old", f"sub/WRIT.{txn(4)}",
    ):  # fmt: skip
        store.place(f"locks/a/{name}", b"")
    store.place(f"locks/ab/WRIT.{txn(5)}", b"")


def test_a_look_sorts_what_is_there(store: MemoryStore) -> None:
    store.time.sleep(7)
    fill(store)
    folder = LockFolder(store, "locks", "a")
    store.time.sleep(3)
    for found in (folder.look(store.time), folder.glance(store.time)):
        assert (found.started, (found.now - START).total_seconds()) == (10, 10)
        assert list(found.claims) == [ONE, TWO]
        first, second = found.claims.values()
        assert (first.mode, first.intent, first.newest.key) == ("R", None, folder.target("R", ONE))
        assert second.keys == (folder.intent("W", TWO), folder.target("W", TWO))
        assert second.newest.key == folder.target("W", TWO)
        assert sorted(found.dead) == [ONE, txn(3)]
        assert [info.key for info in found.foreign] == [
            # No transaction has a target of either mode.
            f"locks/a/DEAD.{ONE}.old", f"locks/a/WRIT.{ONE}", "locks/a/notes.txt", f"locks/a/sub/WRIT.{txn(4)}",
        ]  # fmt: skip
        assert found.age(second.newest) == 3
        assert [each.txn for each in found.living()] == [TWO]


def test_an_age_is_never_below_zero() -> None:
    assert look(now=5).age(object_at("x", second=9)) == 0


def test_a_look_leaves_out_what_it_is_told_to() -> None:
    first, second = claim(1, "W", intent=0, target=1), claim(2, "R", intent=0, target=1)
    found = look(first, second, now=9, dead={3: 0}, foreign=1).without({ONE}, {TWO})
    assert found.claims == {TWO: claim(2, "R", target=1)}
    assert (len(found.dead), len(found.foreign), found.started) == (1, 1, 9)
    assert look(first).without((), ()).claims == {ONE: first}


def test_a_claim_without_any_object_has_no_age() -> None:
    empty = FolderClaim(ONE, "W")
    assert empty.keys == ()
    with pytest.raises(ValueError, match=ONE):
        assert empty.newest
    assert claim(1, "W", intent=3).newest.key.startswith("locks/a/INTENT.")


def test_one_listing_is_enough_where_names_are_read_in_order(store: MemoryStore) -> None:
    fill(store)
    store.forget()
    assert list_union(store, "locks/a/").objects == store.list("locks/a/").objects
    LockFolder(store, "locks", "a").glance(store.time)
    assert store.words() == ["list"] * 3


def test_of_two_listings_nothing_is_missed_and_no_age_overstated() -> None:
    """What goes or comes between them is seen all the same."""
    store = MemoryStore(FakeTime(), listing_is_ordered=False)
    folder = LockFolder(store, "locks", "a")
    store.place(folder.intent("W", ONE), b"")
    store.place(folder.target("R", TWO), b"")

    def move(request: Request) -> None:
        store.after = lambda request: None
        store.time.sleep(5)
        store.objects.pop(folder.intent("W", ONE))
        store.place(folder.target("W", ONE), b"")
        store.place(folder.target("R", TWO), b"")  # it was renewed

    store.after = move
    found = folder.look(store.time)
    assert store.words() == ["list", "list"]
    assert found.claims[ONE].keys == (folder.intent("W", ONE), folder.target("W", ONE))
    assert (found.started, (found.now - START).total_seconds()) == (0, 0)
    assert found.age(found.claims[TWO].newest) == 0


def test_all_folders_are_shown_by_one_check_also_those_that_are_asked_for(store: MemoryStore) -> None:
    fill(store)
    store.place("locks/stray", b"")
    store.place(f"locks/bad name/WRIT.{ONE}", b"")
    store.forget()
    found = looks_by_resource(store, "locks", store.time, also=["none", "ab"])
    assert sorted(found) == ["a", "ab", "bad name", "none", "stray"]
    assert found["a"] == LockFolder(store, "locks", "a").look(store.time)
    assert (list(found["ab"].claims), found["none"].claims) == ([txn(5)], {})
    for name in ("stray", "bad name"):
        assert (found[name].claims, len(found[name].foreign)) == ({}, 1)
    assert store.words()[0] == "list"
    with pytest.raises(InvalidLockName):
        looks_by_resource(store, "../x", store.time)
