"""The chain of commits is read, also where a checkpoint spares reading it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.maintenance.commit_chain import broken_commits
from holdfast.archive.maintenance.verify import Scope, verify, verify_and_remember
from tests.support.stores.memory_store import MemoryStore


def with_checkpoint(commits: int = 4) -> MemoryStore:
    """Return an archive in memory of so many snapshots, with a checkpoint after the last but one."""
    store = MemoryStore()
    archive = Archive.create(store, name="shop")
    for number in range(commits):
        if number == commits - 1:
            write_checkpoint(store, archive.identity.id, archive.state)
        block = make_block(identity=f"b{number}", position=f"0/{number + 1}00")
        archive.add(lambda state, block=block: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)  # type: ignore[misc]
    store.put("data/shop_db/schema/b/catalog-1.json", b"{}")
    return store


def commit_of(store: MemoryStore, number: int) -> ArchiveCommit:
    return ArchiveCommit.from_bytes(store.get(commit_key(number)), commit_key(number))


def cut(store: MemoryStore) -> None:
    store.put(commit_key(2), store.get(commit_key(2))[:-20])


def exchange(store: MemoryStore) -> None:
    store.put(commit_key(2), store.get(commit_key(1)))


def write_anew(store: MemoryStore) -> None:
    store.put(commit_key(2), commit_of(store, 2).model_copy(update={"id": "another"}).to_bytes())


def take_away(store: MemoryStore) -> None:
    store.delete(commit_key(2))


def test_a_whole_chain_has_nothing_broken() -> None:
    assert broken_commits(Archive.open(with_checkpoint())) == []
    assert broken_commits(Archive.open(with_checkpoint(0))) == []


@pytest.mark.parametrize(
    ("damage", "number"),
    [(cut, 2), (exchange, 2), (take_away, 2), (write_anew, 3)],
    ids=["cut", "exchanged", "missing", "anew"],
)
def test_a_commit_below_a_checkpoint_that_is_not_what_was_written_is_found(
    damage: Callable[[MemoryStore], None], number: int
) -> None:
    store = with_checkpoint()
    damage(store)
    archive = Archive.open(store)  # which notices nothing
    found = broken_commits(archive)
    assert [commit for commit, _ in found] == [number]
    assert "Restore" in found[0][1]


def test_what_a_missing_commit_costs_is_told() -> None:
    store = with_checkpoint()
    take_away(store)
    (damage,) = verify(Archive.open(store)).damage
    assert (damage.table, damage.source, damage.commit, damage.path) == ("the backup", "shop_db", 2, commit_key(2))
    assert [(cost.first, cost.last, cost.points) for cost in damage.costs] == [(2, 2, 1)]
    assert not damage.replaceable
    assert str(damage).endswith("needed for shop_db at 2026-03-01T12:00:00.000000Z (commit:2)")


def test_only_commits_that_were_not_verified_yet_are_read_again() -> None:
    store = with_checkpoint()
    verify_and_remember(Archive.open(store), Scope(new=True))
    archive = Archive.open(store)
    store.requests.clear()
    verify_and_remember(archive, Scope(new=True))
    assert [request for request in store.requests if request.startswith("get commits/")] == []
    take_away(store)
    assert verify_and_remember(Archive.open(store), Scope(new=True)).damage == ()
    assert len(verify_and_remember(Archive.open(store), Scope()).damage) == 1
    # What was found by looking at all is not forgotten by the next look at what is new.
    assert len(verify_and_remember(Archive.open(store), Scope(new=True)).damage) == 1


def test_commits_that_follow_another_one_than_was_verified_are_told() -> None:
    store = with_checkpoint()
    archive = Archive.open(store)
    (found,) = broken_commits(archive, since=3, tip="another")
    assert found[0] == 4
    assert broken_commits(archive, since=4, tip="another") == [
        (4, f"{commit_key(4)} is not the commit that was verified before")
    ]


def test_a_checkpoint_that_tells_something_else_than_the_commits_is_told() -> None:
    store = with_checkpoint()
    archive = Archive.open(store)
    blocks = {key: placed for key, placed in archive.state.blocks.items() if key != "b0"}
    object.__setattr__(archive.state, "blocks", blocks)
    (found,) = broken_commits(archive)
    assert "remove the objects under checkpoints/" in found[1]


@pytest.mark.parametrize("number", [10**9, 10**20 - 1])
def test_a_forged_number_is_named_and_never_counted_up_to(number: int) -> None:
    """A loop over the numbers before it would take hours, or all memory."""
    store = with_checkpoint()
    forged = commit_key(number)
    store.put(forged, store.get(commit_key(2)))
    assert broken_commits(Archive.open(store, before_damage=True)) == []
    span, itself = verify(Archive.open(store, before_damage=True)).damage
    assert (span.path, itself.path) == (commit_key(5), forged)
    assert f"commits 5 to {number - 1} are missing, or {forged} is not ours" in str(span)
    store.delete(forged)
    assert verify(Archive.open(store)).damage == ()


def test_what_is_missing_in_a_long_row_is_told_once() -> None:
    store = with_checkpoint(0)
    archive = Archive.open(store)
    for number in range(300):
        archive.add(lambda state, n=number: Change(kind="vacuum", reason=str(n)), check=lambda: None, fence=None)  # type: ignore[misc]
    write_checkpoint(store, archive.identity.id, archive.state)
    for number in (2, 3, *range(5, 290)):
        store.delete(commit_key(number))
    found = broken_commits(Archive.open(store))
    assert [number for number, _ in found] == [2, 3, 5]
    assert "commits 5 to 289 are missing" in found[-1][1]
