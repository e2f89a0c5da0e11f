"""Numbers that hold no commit, since the store refused a write: given up once, they never count, whatever they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bench.support.blocks import make_block
from bench.support.versitygw import running_versitygw
from holdfast.archive import Archive, Change
from holdfast.archive import archive as archive_module
from holdfast.archive.format.checkpoint import CHECKPOINTS
from holdfast.archive.format.checksum import add_checksum
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.last_seen import PutBackError
from holdfast.archive.format.versions import VOID_SINCE
from holdfast.archive.maintenance.commit_chain import broken_commits
from holdfast.archive.maintenance.copy_archive import copy
from holdfast.archive.maintenance.vouching import vouch
from holdfast.archive.void_number import void
from holdfast.common.errors import BusyError, DamagedError, OutcomeUnknownError, RefusedError, UsageError
from holdfast.common.signing import Signing
from holdfast.storage import ObjectExists, ObjectStore, open_store
from holdfast.storage.encryption.key_source import new_key
from holdfast.storage.encryption.signed_store import SignedStore
from locking.terms import Terms
from tests.support.stores.memory_store import MemoryStore

OVER = timedelta(seconds=Terms().expiry + 1)
"""As old as an empty object has to be."""


def nothing() -> None:
    """A lock check that finds the locks held."""


def add(archive: Archive, position: str = "0/100") -> int:
    change = Change(kind="backup", add=(make_block(position=position),))
    return archive.add(lambda state: change, check=nothing, fence=None).sequence


def give_up(store: ObjectStore, number: int) -> int:
    return void(store, number, reason="the quota was full", check=nothing, fence=None).sequence


@pytest.fixture
def store() -> MemoryStore:
    """An archive of two commits, with an empty object in the place of the third, old enough."""
    store = MemoryStore()
    archive = Archive.create(store, name="shop")
    add(archive, "0/100")
    add(archive, "0/200")
    leave_empty(store, 3)
    return store


def leave_empty(store: MemoryStore, number: int, age: timedelta = OVER) -> None:
    """Have a refused write leave an empty object; the archive was not seen with it."""
    store.put(commit_key(number), b"")
    store.advance(age)


def test_one_call_lets_an_archive_with_an_empty_commit_go_on(store: MemoryStore) -> None:
    with pytest.raises(DamagedError, match="accept --void"):
        Archive.open(store)
    assert give_up(store, 3) == 4
    archive = Archive.open(store)
    assert (archive.state.sequence, archive.state.void) == (4, frozenset({3}))
    assert (archive.state.min_reader, archive.state.min_writer) == (VOID_SINCE, VOID_SINCE)
    written = json.loads(store.get(commit_key(4)))
    assert (written["void"], written["parent"]) == (3, archive.commit(2).id)
    assert add(archive, "0/300") == 5
    assert [commit.sequence for commit in Archive.open(store).commits()] == [1, 2, 4, 5]
    assert [commit.sequence for commit in archive.newest_first()] == [5, 4, 2, 1]
    with pytest.raises(UsageError, match="number 3 was voided"):
        archive.commit(3)
    assert store.head(commit_key(3)).size == 0


def late_commit(store: MemoryStore, number: int) -> bytes:
    """Return what a writer has offered for a number, of which nothing was to be seen."""
    twin = store.copy()
    for key in twin.keys("commits/"):
        if key >= commit_key(number):
            twin.delete(key)
    assert add(Archive.open(twin), "0/FFF") == number
    return twin.get(commit_key(number))


@pytest.mark.parametrize("content", ["a commit that came late", "garbage", "nothing", "no object"])
def test_a_void_number_never_counts_whatever_it_holds_later(store: MemoryStore, content: str) -> None:
    late = late_commit(store, 3)
    give_up(store, 3)
    if content == "no object":
        store.delete(commit_key(3))
    else:
        store.put(commit_key(3), {"a commit that came late": late, "garbage": b"{"}.get(content, b""))
    archive = Archive.open(store)
    assert (archive.state.sequence, archive.state.ends) == (4, {"shop_db": "0/200"})
    assert broken_commits(archive) == []
    assert add(archive, "0/300") == 5


def test_a_copy_goes_on_behind_a_void_number() -> None:
    store, target = MemoryStore(), MemoryStore()
    target.url = "copy"
    archive = Archive.create(store, name="shop")
    archive.add(lambda state: Change(kind="nothing"), check=nothing, fence=None)
    leave_empty(store, 2)
    give_up(store, 2)
    copy(store, target)
    archive.refresh()
    assert (Archive.open(target).state, archive.state.void) == (archive.state, frozenset({2}))
    assert add(archive) == 4


def test_an_archive_that_was_open_forgets_a_commit_that_was_voided(store: MemoryStore) -> None:
    """It was filled late, read, and voided by a process that had looked before."""
    late = late_commit(store, 3)
    twin = store.copy()
    give_up(twin, 3)
    store.put(commit_key(3), late)
    reader = Archive.open(store)
    assert reader.state.ends == {"shop_db": "0/FFF"}
    store.put(commit_key(4), twin.get(commit_key(4)))
    reader.refresh()
    assert (reader.state.sequence, reader.state.ends) == (4, {"shop_db": "0/200"})
    assert add(reader, "0/300") == 5


def test_several_numbers_that_refused_writes_have_left_go_at_once(store: MemoryStore) -> None:
    leave_empty(store, 4)
    assert give_up(store, 3) == 5
    store.put(commit_key(3), late_commit(store, 3))
    assert Archive.open(store).state.void == {3, 4}


def test_a_void_that_was_itself_left_empty_never_counts_when_it_comes_late(store: MemoryStore) -> None:
    twin = store.copy()
    give_up(twin, 3)
    leave_empty(store, 4)
    store.put(commit_key(3), late_commit(store, 3))  # this one counts: nobody had voided it
    assert give_up(store, 4) == 5
    store.put(commit_key(4), twin.get(commit_key(4)))
    assert Archive.open(store).state.ends == {"shop_db": "0/FFF"}
    assert Archive.open(store).state.void == {4}


def test_what_may_still_be_written_is_waited_for(store: MemoryStore) -> None:
    leave_empty(store, 4, timedelta(seconds=100))
    with pytest.raises(BusyError, match=r"0+4\.json may still be written: try again in 81 s"):
        give_up(store, 3)
    assert store.keys(commit_key(5)) == set()


def test_what_is_not_empty_is_damage_and_no_leftover(store: MemoryStore) -> None:
    store.put(commit_key(3), b"{")
    store.advance(OVER)
    with pytest.raises(RefusedError, match=r"0+3\.json is not empty: restore it"):
        give_up(store, 3)


def test_what_is_filled_between_the_two_listings_is_not_given_up(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, look, looks = late_commit(store, 3), store.list, []

    def fill_after_one(prefix: str, *, start_after: str = "", most: int | None = None) -> object:
        found = look(prefix, start_after=start_after, most=most)
        if prefix == "commits/" and start_after == commit_key(2):
            looks.append(found)
            store.put(commit_key(3), late)
        return found

    monkeypatch.setattr(store, "list", fill_after_one)
    with pytest.raises(RefusedError, match="not empty"):
        give_up(store, 3)
    assert len(looks) == 2
    assert Archive.open(store).state.sequence == 3


@pytest.mark.parametrize("number", [1, 2, 4])
def test_only_the_number_behind_the_newest_commit_can_be_given_up(store: MemoryStore, number: int) -> None:
    with pytest.raises(UsageError, match="its commits end at 2"):
        give_up(store, number)


def test_a_commit_that_was_emptied_is_not_given_up_by_a_machine_that_has_seen_it(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STATE", str(tmp_path / "state"))
    store.delete(commit_key(3))
    add(Archive.open(store), "0/300")
    leave_empty(store, 3)
    with pytest.raises(PutBackError, match=r"had commit 3 of shop .* restore|Restore it"):
        give_up(store, 3)
    monkeypatch.setenv("HOLDFAST_STATE", "off")
    give_up(store, 3)
    monkeypatch.setenv("HOLDFAST_STATE", str(tmp_path / "state"))
    with pytest.raises(PutBackError, match="had commit 3"):
        Archive.open(store)


def test_the_number_is_known_from_a_checkpoint_alone(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    give_up(store, 3)
    monkeypatch.setattr(archive_module, "CHECKPOINT_EVERY", 1)
    add(Archive.open(store), "0/300")
    assert store.keys(CHECKPOINTS)
    for number in (1, 2, 4):
        store.delete(commit_key(number))
    archive = Archive.open(store)
    assert (archive.state.sequence, archive.state.void) == (5, frozenset({3}))


def test_a_forged_void_of_a_number_that_counts_is_damage(store: MemoryStore) -> None:
    """A commit that another one follows cannot be taken back."""
    store.delete(commit_key(3))
    archive = Archive.open(store)
    add(archive, "0/300")
    tip = json.loads(store.get(commit_key(3)))
    forged = {**tip, "sequence": 4, "id": "forged", "void": 2, "parent": archive.commit(1).id, "add": []}
    del forged["checksum"]
    store.put(commit_key(4), add_checksum(json.dumps(forged, indent=1).encode()))
    with pytest.raises(DamagedError, match="voids commit 2, which counts"):
        Archive.open(store)


def test_a_commit_that_voids_very_many_numbers_is_not_ours(store: MemoryStore) -> None:
    for key in (2, 3):
        store.delete(commit_key(key))
    tip = json.loads(store.get(commit_key(1)))
    far = 10**17
    forged = {**tip, "sequence": far, "id": "forged", "void": 2, "parent": tip["id"], "parent_checksum": "", "add": []}
    del forged["checksum"]
    store.put(commit_key(far), add_checksum(json.dumps(forged, indent=1).encode()))
    with pytest.raises(DamagedError, match="voids more than 100 numbers"):
        Archive.open(store)


@pytest.mark.parametrize("begins", ["signed", "not signed"])
def test_signed_and_encrypted_archives_go_on_in_the_same_way(tmp_path: Path, begins: str) -> None:
    (tmp_path / "key").write_text(new_key())
    (tmp_path / "sign").write_text(new_key())
    bare, signing = MemoryStore(), Signing(key=f"file:{tmp_path / 'sign'}")
    plain = SignedStore(bare, f"file:{tmp_path / 'key'}", Signing())
    store = SignedStore(bare, f"file:{tmp_path / 'key'}", signing)
    add(Archive.create(store if begins == "signed" else plain, name="shop"))
    leave_empty(bare, 2)
    given_up = store if begins == "signed" else plain
    with pytest.raises(DamagedError, match=r"0+2\.json is empty"):
        Archive.open(given_up)
    assert give_up(given_up, 2) == 3
    if begins == "not signed":
        vouch(store, check=nothing, fence=None)
    bare.put(commit_key(2), b"whatever comes")
    archive = Archive.open(SignedStore(bare, f"file:{tmp_path / 'key'}", signing))
    assert archive.state.void == {2}
    assert broken_commits(archive) == []
    add(archive, "0/300")


class Acknowledging:
    """A clock and a store in which the answer to one create takes a while, in which others do something."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, number: int, seconds: float) -> None:
        self.meanwhile: Callable[[], object] = lambda: None
        self._now = 0.0
        create = store.create

        def slow(key: str, body: bytes) -> None:
            create(key, body)
            if key == commit_key(number):
                self._now += seconds
                self.meanwhile()

        monkeypatch.setattr(store, "create", slow)
        monkeypatch.setattr(archive_module, "monotonic", lambda: self._now)


def test_a_writer_whose_commit_was_voided_before_it_was_acknowledged_plans_anew(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = store.copy()
    give_up(twin, 3)
    store.delete(commit_key(3))
    answer = Acknowledging(store, monkeypatch, 3, Terms().lease + 1)
    answer.meanwhile = lambda: store.put(commit_key(4), twin.get(commit_key(4)))
    archive = Archive.open(store)
    assert add(archive, "0/300") == 5
    assert archive.state.ends == {"shop_db": "0/300"}
    assert [commit.sequence for commit in Archive.open(store).commits()] == [1, 2, 4, 5]


def test_a_late_writer_takes_the_next_number_so_that_nobody_can_void_its_own(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who voids has looked before the commit was there, was suspended, and creates the next number now."""
    twin = store.copy()
    give_up(twin, 3)
    store.delete(commit_key(3))
    Acknowledging(store, monkeypatch, 3, Terms().lease + 1)
    assert add(Archive.open(store), "0/300") == 3
    with pytest.raises(ObjectExists):
        store.create(commit_key(4), twin.get(commit_key(4)))
    assert [commit.kind for commit in Archive.open(store).commits()] == ["backup", "backup", "backup", "settled"]


def test_a_prompt_writer_makes_one_commit(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.delete(commit_key(3))
    Acknowledging(store, monkeypatch, 3, Terms().lease - 1)
    add(Archive.open(store), "0/300")
    assert store.keys(commit_key(4)) == set()


def test_a_late_writer_with_a_refused_write_behind_it_does_not_know(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.delete(commit_key(3))
    answer = Acknowledging(store, monkeypatch, 3, Terms().lease + 1)
    answer.meanwhile = lambda: store.put(commit_key(4), b"")
    with pytest.raises(OutcomeUnknownError, match="whether commit 3 counts is not known"):
        add(Archive.open(store), "0/300")


@pytest.mark.service
def test_an_archive_in_object_storage_goes_on_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_versitygw() as server:
        server.make_bucket("archives")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = open_store("s3://archives/shop")
        add(Archive.create(store, name="shop"))
        (server.folder / "archives" / "shop" / commit_key(2)).touch()
        with pytest.raises(DamagedError, match="is empty"):
            Archive.open(store)
        with pytest.raises(BusyError, match="may still be written"):
            give_up(store, 2)
        os.utime(server.folder / "archives" / "shop" / commit_key(2), (0, 0))
        assert give_up(store, 2) == 3
        assert add(Archive.open(store), "0/200") == 4
        assert Archive.open(store).state.void == {2}
