"""How replicas come and go, and how one is elected where all are lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from holdfast.archive import Archive
from holdfast.common.errors import BusyError, RefusedError, UsageError
from holdfast.replication.log import log, quorum, replicas, schema
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.leader import lead
from holdfast.replication.log.membership import leave
from holdfast.replication.log.replicas import add, replica
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work import membership
from holdfast.replication.work.membership import begin_membership, elect, only_archive
from holdfast.replication.work.recovery import recover
from holdfast.storage import open_store
from tests.support.replicas.rebuilt import away, copied, joined, rebuild
from tests.support.replicas.replicated import Replicas, nothing, remove

pytestmark = pytest.mark.slow


def lose_all(two: Replicas) -> None:
    two.coordination.run(lambda c: c.execute(schema.replicas.update().values(is_lost=True, active_until=0.0)))


def test_an_archive_becomes_a_replica_once_and_again_after_a_kill(
    tmp_path: Path, coordination: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive.create(open_store(str(tmp_path / "near")), name="shop")

    def die(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.replication.work.membership.register", die)
    with pytest.raises(KeyboardInterrupt):
        begin_membership(coordination, archive.store, "near")
    monkeypatch.undo()
    first = begin_membership(coordination, archive.store, "near")
    assert begin_membership(coordination, archive.store, "near") == first
    archive.refresh()
    assert archive.state.sequence == 1
    assert archive.state.log is not None
    assert archive.state.log.store == first.store
    with pytest.raises(UsageError, match="is replica near already"):
        begin_membership(coordination, archive.store, "another")


def added_anew(given: Replicas, name: str, place: str) -> None:
    """A replica is removed and comes back under its name, at another place that is empty."""
    url = given.place(place).url
    given.coordination.run(lambda c: remove(c, given.archive, name, force=True))
    given.coordination.run(lambda c: add(c, given.archive, name=name, url=url))
    given.recover(name)


def test_epochs_of_removed_replicas_are_not_used_again_after_a_rebuilding(two: Replicas) -> None:
    two.change("far", epoch=7)
    two.coordination.run(lambda c: remove(c, two.archive, "far"))
    rebuild(two.coordination, {"far": two.place("far").url}, force=True)
    two.coordination.run(lambda c: add(c, two.archive, name="off", url=two.place("off").url))
    epochs = {row.name: row.epoch for row in two.coordination.run(lambda c: replicas.replicas(c, two.archive))}
    assert (epochs["far"], epochs["off"]) == (9, 8)


def test_a_removed_replica_has_no_word_on_quorums_and_leads_no_more(three: Replicas) -> None:
    near = three.open("near")
    near.quorum_request = QuorumRequest(2)
    near.add(three.backup(near.store), check=nothing, fence=None)
    three.coordination.run(lambda c: lead(c, near.in_use()[1]))
    three.coordination.run(lambda c: remove(c, three.archive, "near", force=True))
    votes = sa.select(sa.func.count()).select_from(schema.votes)
    assert three.coordination.run(lambda c: c.execute(votes).scalar_one()) == 0
    _, far = three.open("far").in_use()
    three.coordination.run(lambda c: lead(c, far))


def test_a_quorum_does_not_count_a_replica_that_was_lost_with_its_disk_and_added_anew(two: Replicas) -> None:
    near = two.open("near")
    near.quorum_request = QuorumRequest(2)
    near.add(two.backup(near.store), check=nothing, fence=None)
    shutil.copytree(two.folder / "near" / "data", two.folder / "far" / "data", dirs_exist_ok=True)
    added_anew(two, "near", "empty")  # the files were fetched, and then nothing else could be
    two.sync("far")
    (pending,) = two.coordination.run(lambda c: quorum.pending(c, two.archive))
    assert pending.votes == ("far",)


def test_the_archive_that_is_meant_is_found_by_name_or_id(two: Replicas, tmp_path: Path) -> None:
    assert only_archive(two.coordination, None).archive == two.archive
    other = Archive.create(open_store(str(tmp_path / "crm")), name="crm")
    begin_membership(two.coordination, other.store, "near")
    assert only_archive(two.coordination, "crm").archive == other.identity.id
    assert only_archive(two.coordination, two.archive).name == "shop"
    with pytest.raises(UsageError, match="several archives"):
        only_archive(two.coordination, None)
    with pytest.raises(UsageError, match="no such archive"):
        only_archive(two.coordination, "bank")


@pytest.mark.slow
def test_a_replica_has_commits_that_only_newer_writers_may_follow(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two.state("near").min_writer == 3
    assert two.state("near").min_reader == 2
    archive = two.open("near")
    monkeypatch.setattr("holdfast.archive.archive.CHECKPOINT_EVERY", 8)
    for _ in range(10):
        archive.add(two.backup(archive.store), check=nothing, fence=None)
    assert list(archive.store.list("checkpoints/").objects)
    assert two.state("near") == archive.state


def test_a_replica_that_has_appended_what_nobody_else_has_is_not_removed_by_the_way(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = two.open("near")

    def die() -> None:
        raise KeyboardInterrupt

    two.once_appended(monkeypatch, die)
    with pytest.raises(KeyboardInterrupt):
        near.add(two.backup(near.store), check=nothing, fence=None)
    with pytest.raises(RefusedError, match="what entry 1 adds may be at near only"):
        two.coordination.run(lambda c: remove(c, two.archive, "near"))
    two.sync("far")
    two.coordination.run(lambda c: remove(c, two.archive, "near"))


def test_entries_behind_those_that_are_given_up_are_given_up_too(two: Replicas) -> None:
    for _ in range(4):
        two.back_up("near")

    def away(c: Connection) -> None:
        c.execute(schema.replicas.update().where(schema.replicas.c.name == "far").values(active_until=0.0))

    two.coordination.run(away)
    assert trim(two.coordination, two.archive, min_keep=2, max_keep=2).start == 3
    lose_all(two)
    with pytest.raises(RefusedError, match="4 entries would be given up"):
        elect(two.coordination, two.archive, "far")
    assert elect(two.coordination, two.archive, "far", lose_entries=True) == 4
    assert two.sync("far").index == 4
    assert two.back_up("far") == 5


@pytest.fixture
def trimmed(two: Replicas) -> Replicas:
    """All replicas are lost, and `far` has nothing of the four entries of a log that begins at the last one.

    A quorum has acknowledged the second one, by the disk of a third replica that is gone; the last one is pending.
    """
    two.back_up("near")
    two.add("off")
    near = two.open("near")
    near.quorum_request = QuorumRequest(2)
    near.add(two.backup(near.store), check=nothing, fence=None)
    two.sync("off")
    near = two.open("near")
    near.quorum_request = QuorumRequest(2)
    near.add(two.backup(near.store), check=nothing, fence=None)
    two.change("far", active_until=0.0)
    two.change("off", pointer=5)
    assert trim(two.coordination, two.archive, min_keep=1, max_keep=1).start == 4
    two.coordination.run(lambda c: remove(c, two.archive, "off", force=True))
    lose_all(two)
    return two


def test_what_a_quorum_has_acknowledged_is_given_up_only_where_that_is_said_too(trimmed: Replicas) -> None:
    said = r"4 entries would .* Entry 3, which acknowledges .* --lose-entries --lose-acknowledged"
    for entries, acknowledged in ((False, False), (True, False), (False, True)):
        with pytest.raises(RefusedError, match=said):
            elect(trimmed.coordination, trimmed.archive, "far", lose_entries=entries, lose_acknowledged=acknowledged)
    assert elect(trimmed.coordination, trimmed.archive, "far", lose_entries=True, lose_acknowledged=True) == 4


def test_an_election_that_is_killed_is_run_again_and_leaves_no_quorum_pending(
    trimmed: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CoordinationStore.run

    def die(store: CoordinationStore, work: Any, **more: Any) -> Any:
        if work.__name__ == "enter":
            raise KeyboardInterrupt
        return run(store, work, **more)

    monkeypatch.setattr(CoordinationStore, "run", die)
    with pytest.raises(KeyboardInterrupt):
        elect(trimmed.coordination, trimmed.archive, "far", lose_entries=True, lose_acknowledged=True)
    monkeypatch.undo()
    elect(trimmed.coordination, trimmed.archive, "far")
    assert trimmed.coordination.run(lambda c: quorum.pending(c, trimmed.archive)) == []
    assert trimmed.coordination.run(lambda c: log.entries(c, trimmed.archive, 1)) == []
    assert trimmed.sync("far").index == 4
    assert trimmed.back_up("far") == 5


def test_what_waits_for_its_quorum_counts_where_the_elected_replica_has_it(two: Replicas) -> None:
    near = two.open("near")
    near.quorum_request = QuorumRequest(2)
    near.add(two.backup(near.store), check=nothing, fence=None)
    lose_all(two)
    assert elect(two.coordination, two.archive, "near") == 0
    assert two.coordination.run(lambda c: quorum.pending(c, two.archive)) == []
    assert two.back_up("near") == 2


def test_of_one_that_is_removed_and_away_it_is_said_what_nothing_can_tell(three: Replicas) -> None:
    away(three, "off")
    words = membership.remove(three.coordination, three.archive, "off")
    assert words.startswith("off could not record that it was removed (there is no archive at ")
    assert words.endswith("/off alone, nothing would show that")


def test_no_new_replica_is_made_before_its_addition_counts(three: Replicas) -> None:
    away(three, "far", "off")
    with pytest.raises(BusyError, match="entry 1, which says which replicas shop has, counts once 1 of far, off"):
        membership.add(three.coordination, three.archive, "new", three.place("new").url)
    with pytest.raises(BusyError, match="counts once 1 of far, off has executed it"):
        recover(three.coordination, three.archive, "new")
    assert not (three.folder / "new" / "archive.json").exists()
    away(three, "off", back=True)
    joined(three, "new")
    for name in ("near", "off", "new"):
        assert three.place_of(name).members.keys() == {"far", "near", "off", "new"}


def test_a_removal_goes_on_where_it_was_not_over(three: Replicas) -> None:
    away(three, "near", "far")
    with pytest.raises(BusyError, match="counts once 1 of far, near has executed it"):
        membership.remove(three.coordination, three.archive, "off")
    away(three, "near", "far", back=True)
    assert membership.remove(three.coordination, three.archive, "off") == ""
    (entry,) = three.coordination.run(lambda c: log.entries(c, three.archive, 1))
    assert entry.change.members.keys() == {"far", "near"}
    assert three.sync("far").index == 1


@pytest.mark.parametrize("force", [False, True])
def test_a_removal_ends_only_in_a_store_that_has_its_entry(
    three: Replicas, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    put_back, spread = copied(three), membership._spread

    def suspended(*given: Any, **more: Any) -> None:
        spread(*given, **more)
        put_back()

    monkeypatch.setattr(membership, "_spread", suspended)
    with pytest.raises(OldStoreError, match="was put back meanwhile: it does not have entry 1, which removes off"):
        membership.remove(three.coordination, three.archive, "off", force=force)
    assert three.coordination.run(lambda c: replica(c, three.archive, "off")).leaves_by == 0


def test_and_only_where_that_counts(three: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is put back to where the removal was appended, and nobody had executed it."""
    puts: list[Callable[[], None]] = []
    executing, spread = membership._execute, membership._spread

    def copying(*given: Any) -> str:
        puts.append(copied(three))
        return executing(*given)

    def suspended(*given: Any, **more: Any) -> None:
        spread(*given, **more)
        puts[0]()

    monkeypatch.setattr(membership, "_execute", copying)
    monkeypatch.setattr(membership, "_spread", suspended)
    with pytest.raises(BusyError, match="entry 1, which says which replicas shop has, counts once 2 of far, near, off"):
        membership.remove(three.coordination, three.archive, "off")
    monkeypatch.undo()
    assert membership.remove(three.coordination, three.archive, "off") == ""


def test_a_new_replica_has_no_word_on_a_larger_quorum_before_as_many_have_executed_its_addition(
    three: Replicas,
) -> None:
    away(three, "off")
    joined(three, "new")
    near = three.open("near")
    near.quorum_request = QuorumRequest(3)
    block = near.add(three.backup(near.store), check=nothing, fence=None).add[0].id
    for name in ("far", "new"):
        three.sync(name)

    def stands() -> quorum.Quorum | None:
        return three.coordination.run(lambda c: quorum.of_block(c, three.archive, block))

    found = stands()
    assert found is not None
    assert (found.state, found.votes) == ("pending", ("far", "near"))
    away(three, "off", back=True)
    three.sync("off")
    found = stands()
    assert found is not None
    assert (found.state, found.votes) == ("committed", ("far", "near", "new", "off"))


def test_nothing_is_added_through_a_replica_that_is_being_removed(three: Replicas) -> None:
    far = three.open("far")
    plan = three.backup(far.store)
    three.coordination.run(lambda c: leave(c, three.archive, "far", force=False))
    with pytest.raises(RefusedError, match="replica far is being removed: nothing is added through it any more"):
        far.add(plan, check=nothing, fence=None)


def test_an_elected_replica_goes_on_with_the_entries_that_are_there(two: Replicas) -> None:
    two.back_up("near")
    two.back_up("near")
    lose_all(two)
    assert elect(two.coordination, two.archive, "far") == 0
    with pytest.raises(RefusedError, match="not all replicas are lost"):
        elect(two.coordination, two.archive, "near")
    two.recover("near", source="far")
    assert two.sync("far").index == 2  # near's files are still there, though it is behind now
    assert two.is_whole("far")
