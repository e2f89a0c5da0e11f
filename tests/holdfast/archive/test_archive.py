from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from holdfast.archive.format.checksum import add_checksum
from holdfast.archive.format.commits import commit_key
from holdfast.common.errors import OutcomeUnknownError, RefusedError, UsageError
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.contract import object_store
from tests.support.no_waiting import no_waiting
from tests.support.stores.lossy_store import FaultyCreates

MakeBlock = Callable[..., Block]


def nothing() -> None:
    """A lock check that finds the locks held."""


def add(archive: Archive, *blocks: Block, **more: object) -> int:
    change = Change(kind="backup", add=blocks, **more)  # type: ignore[arg-type]
    return archive.add(lambda state: change, check=nothing, fence="txn-1").sequence


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    no_waiting(monkeypatch)


def test_a_new_archive_is_empty_and_opens_again(archive: Archive) -> None:
    again = Archive.open(archive.store)
    assert again.identity == archive.identity
    assert again.state.sequence == 0
    assert again.identity.name == "shop"


def test_a_folder_that_is_no_archive_is_refused_with_the_command_to_make_one(store: ObjectStore) -> None:
    with pytest.raises(UsageError, match="holdfast init"):
        Archive.open(store)


def test_an_archive_is_not_created_over_another_one(archive: Archive) -> None:
    with pytest.raises(UsageError, match="an archive already"):
        Archive.create(archive.store, name="again")


def test_an_archive_is_not_created_among_other_objects(store: ObjectStore) -> None:
    store.put("photos/1.jpg", b"x")
    with pytest.raises(UsageError, match=r"not empty.*photos/1\.jpg"):
        Archive.create(store, name="shop")


@pytest.mark.parametrize("script", [["lost"], ["never"], ["never", "lost"]])
def test_a_lost_reply_makes_no_archive_twice(
    store: ObjectStore, script: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(store), "probe_create_if_absent", lambda store: True)
    monkeypatch.setattr(store, "create", FaultyCreates(open_store(store.url), script).create)
    made = Archive.create(store, name="shop")
    assert made.identity == Archive.open(open_store(store.url)).identity


def test_a_store_without_atomic_create_is_refused(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store), "probe_create_if_absent", lambda self: False)
    with pytest.raises(RefusedError, match="If-None-Match"):
        Archive.create(store, name="shop")
    assert store.list("archive.json").objects == ()


def test_a_commit_that_nobody_could_read_again_is_refused(
    archive: Archive, block: MakeBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(archive, block(position="0/100"))
    monkeypatch.setattr(object_store, "LARGEST_DOCUMENT", 3_000)
    with pytest.raises(RefusedError, match=r"commits/0+2\.json would have \S+ bytes, and .* 3,000 at the most"):
        add(archive, *(block(position=f"0/{place}") for place in range(200, 220)))
    assert Archive.open(archive.store).state.sequence == 1
    assert add(archive, block(position="0/200")) == 2


def test_commits_are_numbered_chained_and_read_back(archive: Archive, block: MakeBlock) -> None:
    assert add(archive, block(position="0/100")) == 1
    assert add(archive, block(position="0/200")) == 2
    again = Archive.open(archive.store)
    assert [commit.sequence for commit in again.commits()] == [1, 2]
    assert again.commit(2).parent == again.commit(1).id
    assert again.state.ends == {"shop_db": "0/200"}
    assert again.state == archive.state
    with pytest.raises(UsageError, match="no commit 3"):
        again.commit(3)


def test_every_commit_states_its_versions_and_its_fence(archive: Archive, block: MakeBlock) -> None:
    add(archive, block())
    stored = json.loads(archive.store.get(commit_key(1)))
    assert (stored["format"], stored["min_reader"], stored["min_writer"]) == (2, 2, 2)
    assert stored["fence"] == "txn-1"
    assert stored["writer"].startswith("holdfast ")


def test_a_writer_that_lost_the_race_plans_anew_and_takes_the_next_number(archive: Archive, block: MakeBlock) -> None:
    other = Archive.open(archive.store)
    seen: list[int] = []

    def plan(state: State) -> Change:
        seen.append(state.sequence)
        if len(seen) == 1:  # somebody commits between our reading and our create
            add(other, block(source="crm", position="0/1"))
        return Change(kind="backup", add=(block(identity="mine"),))

    commit = archive.add(plan, check=nothing, fence=None)
    assert seen == [0, 1]
    assert commit.sequence == 2
    assert set(archive.state.ends) == {"crm", "shop_db"}


def test_many_writers_at_once_make_one_unbroken_chain(archive: Archive, block: MakeBlock) -> None:
    def write(number: int) -> int:
        own = Archive.open(archive.store)
        return add(own, block(source=f"db{number}"))

    with ThreadPoolExecutor(8) as pool:
        numbers = sorted(pool.map(write, range(16)))
    assert numbers == list(range(1, 17))
    assert len(Archive.open(archive.store).state.blocks) == 16


def test_a_lost_lock_stops_a_commit_before_it_is_written(archive: Archive, block: MakeBlock) -> None:
    def lost() -> None:
        raise RefusedError("lost")

    with pytest.raises(RefusedError, match="lost"):
        archive.add(lambda state: Change(kind="backup", add=(block(),)), check=lost, fence=None)
    assert archive.store.list("commits/").objects == ()


@pytest.mark.parametrize("script", [["lost"], ["never"], ["late"], ["late", "lost"], ["never", "never", "late"]])
def test_a_lost_reply_never_doubles_or_loses_a_commit(archive: Archive, block: MakeBlock, script: list[str]) -> None:
    faulty = FaultyCreates(archive.store, script)
    archive.store = cast(ObjectStore, faulty)
    assert add(archive, block(identity="mine")) == 1
    again = Archive.open(open_store(faulty.url))
    assert [[b.id for b in commit.add] for commit in again.commits()] == [["mine"]]


def test_a_commit_nobody_confirms_is_reported_as_unknown_and_left_alone(archive: Archive, block: MakeBlock) -> None:
    archive.store = cast(ObjectStore, FaultyCreates(archive.store, ["never"] * 100))
    with pytest.raises(OutcomeUnknownError, match="Look with 'holdfast status'"):
        add(archive, block())


def test_an_archive_that_only_a_newer_release_may_write_can_still_be_read(archive: Archive, block: MakeBlock) -> None:
    add(archive, block())
    stored = json.loads(archive.store.get(commit_key(1)))
    archive.store.put(commit_key(1), add_checksum(json.dumps({**stored, "min_writer": 9}, indent=1).encode()))
    again = Archive.open(archive.store)
    with pytest.raises(UsageError, match="needs a writer of format 9"):
        add(again, block())


@pytest.mark.parametrize("key", ["commits/.DS_Store", "commits/README", f"{commit_key(2)}~", "commits/old/1.json"])
def test_what_somebody_put_among_the_commits_is_named_and_ignored(
    archive: Archive, block: MakeBlock, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        add(archive, block(position=f"0/{number}"))
    archive.store.put(key, b"mine")
    again = Archive.open(archive.store)
    again.refresh()
    assert add(again, block(position="0/300")) == 4
    assert [commit.sequence for commit in again.commits()] == [1, 2, 3, 4]
    assert [record.message for record in caplog.records] == [
        f"Not of Holdfast, and ignored: {key} in {archive.store.url}. Remove what is not needed."
    ]
