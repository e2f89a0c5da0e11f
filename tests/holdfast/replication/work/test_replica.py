"""Replicas follow one log, entry by entry, and come to be equal."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.archive import Archive, Change
from holdfast.archive.format.state import State
from holdfast.archive.maintenance.hold_requests import add_hold
from holdfast.common.errors import OutcomeUnknownError, RefusedError, UsageError
from holdfast.replication.log import log, schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError, OldStoreError, StoreAwayError
from holdfast.replication.log.log import Draft, EntryChange, append
from holdfast.replication.log.replicas import log_state, replica, take_lease
from holdfast.replication.log.status import status
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.replica import ReplicatedArchive, Synced
from holdfast.storage.contract import object_store
from locking.store import StoreUnavailable
from tests.support.replicas.rebuilt import copied
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def pointer(replicas: Replicas, name: str) -> int:
    return replicas.coordination.run(lambda c: replica(c, replicas.archive, name)).pointer


def test_entries_are_executed_in_order_each_by_one_commit_the_own_ones_too(three: Replicas) -> None:
    for name in ("near", "far", "off", "near", "off"):
        three.back_up(name)
    for name in ("near", "far", "off"):
        three.sync(name)
        commits = list(Archive.open(three.place(name)).commits())
        indexes = [
            commit.log.index for commit in commits if commit.log and commit.log.entry and not commit.log.recovering
        ]
        assert indexes == [1, 2, 3, 4, 5]
        assert pointer(three, name) == 6
        assert three.is_whole(name)
    assert len({frozenset(three.state(name).blocks) for name in ("near", "far", "off")}) == 1


def test_a_replica_that_is_behind_is_brought_up_before_it_adds(two: Replicas) -> None:
    two.back_up("near")
    two.back_up("near", source="crm")
    assert two.back_up("far") == 3
    assert len(two.state("far").blocks) == 4


def test_what_only_one_place_is_to_know_is_committed_without_an_entry(two: Replicas) -> None:
    archive = two.open("near")
    archive.add(lambda state: Change("vacuum", abandoned=("gone",)), check=nothing, fence=None)
    assert archive.state.abandoned == {"gone"}
    assert archive.state.log is not None
    assert archive.state.log.index == 0


def test_holds_go_through_the_log(two: Replicas) -> None:
    add_hold(two.open("near"), "shop_db", "latest", reason="audit", owner="ann", check=nothing)
    two.sync("far")
    assert two.state("far").holds == two.state("near").holds != {}


def test_commands_that_know_nothing_of_the_log_are_refused_on_a_replica(two: Replicas) -> None:
    archive = Archive.open(two.place("near"))
    with pytest.raises(UsageError, match="this is replica near of a replicated archive"):
        archive.add(two.backup(archive.store), check=nothing, fence=None)
    with pytest.raises(UsageError, match="their update log"):
        archive.add(lambda state: Change("truncation", remove=tuple(state.blocks)), check=nothing, fence=None)


def test_a_backup_that_started_from_an_older_end_is_refused(two: Replicas) -> None:
    near, far = two.open("near"), two.open("far")
    started = near.state.ends.get("shop_db")
    plan = two.backup(near.store)
    far.add(two.backup(far.store), check=nothing, fence=None)

    def planned_before(state: State) -> Change:
        change = plan(state)
        return Change("backup", add=change.add, expected_ends={"shop_db": started})

    with pytest.raises(RefusedError, match="another backup of shop_db was committed meanwhile"):
        near.add(planned_before, check=nothing, fence=None)


def test_two_that_append_at_the_same_time_are_told_apart_by_the_store(two: Replicas) -> None:
    near = two.open("near")
    plan = two.backup(near.store)
    planned: list[State] = []

    def planning(state: State) -> Change:
        planned.append(state)
        return plan(state)

    def late() -> None:
        if len(planned) == 1:  # the last look at the locks, between what near has planned and its append
            planned.append(planned[0])
            two.back_up("far")

    with pytest.raises(RefusedError, match="another backup of shop_db was appended meanwhile"):
        near.add(planning, check=late, fence=None)
    assert two.back_up("near") == 2


def test_an_append_whose_answer_was_lost_is_found_again(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    near = two.open("near")
    run = two.coordination.run
    answers: list[object] = []

    def losing(work: Callable[[Connection], object]) -> object:
        before = run(lambda c: status(c, two.archive))[0].log.head
        result = run(work)
        if run(lambda c: status(c, two.archive))[0].log.head > before and not answers:
            answers.append(result)
            raise OutcomeUnknownError("the answer was lost")
        return result

    monkeypatch.setattr(two.coordination, "run", losing)
    near.add(two.backup(near.store), check=nothing, fence=None)
    monkeypatch.undo()
    assert answers == [1]
    assert run(lambda c: status(c, two.archive))[0].log.head == 1


def test_an_append_has_failed_where_the_store_was_away_from_the_beginning(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = two.open("near")

    def away(*args: object) -> int:
        raise StoreAwayError("the network is cut")

    monkeypatch.setattr(log, "append", away)
    with pytest.raises(StoreAwayError):
        near.add(two.backup(near.store), check=nothing, fence=None)


def test_a_process_whose_epoch_is_over_changes_nothing(two: Replicas) -> None:
    old = two.open("near")
    plan = two.backup(old.store)

    def begin_another(c: Connection) -> None:
        c.execute(schema.replicas.update().values(active_until=0.0))
        take_lease(c, two.archive, replica(c, two.archive, "near"), 10.0)

    two.coordination.run(begin_another)
    with pytest.raises(EpochOverError, match="activated again while this process was away"):
        old.add(plan, check=nothing, fence=None)
    assert two.coordination.run(lambda c: status(c, two.archive))[0].log.head == 0


def test_a_process_that_died_before_it_told_of_its_commit_is_made_up_for(two: Replicas) -> None:
    two.back_up("near")
    two.coordination.run(lambda c: c.execute(schema.replicas.update().values(pointer=1)))
    assert two.sync("near").entries == 0
    assert pointer(two, "near") == 2


def test_a_replica_that_was_brought_back_from_an_older_copy_is_lost(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    shutil.copytree(two.folder / "far", two.folder / "copy")
    two.back_up("near")
    two.sync("far")
    shutil.rmtree(two.folder / "far")
    shutil.move(two.folder / "copy", two.folder / "far")
    with pytest.raises(LostReplicaError, match=r"ends at entry 1, and had executed 2: it is an older copy of itself"):
        two.sync("far")
    assert two.recover("far").index == 2
    assert two.sync("far").index == 2


def test_an_archive_at_one_place_is_no_replica(two: Replicas, coordination: CoordinationStore) -> None:
    alone = Archive.create(two.place("alone"), name="alone")
    with pytest.raises(UsageError, match="has no replicas"):
        ReplicatedArchive.begin(alone.store, coordination)


def test_a_copy_of_a_replica_does_not_act_for_it(two: Replicas) -> None:
    shutil.copytree(two.folder / "near", two.folder / "copy")
    with pytest.raises(UsageError, match=r"says that it is replica near, which is at .*near: it is a copy of that one"):
        two.open("copy")


def test_a_replica_that_others_bring_forward_meanwhile_is_not_taken_for_an_older_copy(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.back_up("near")
    run = two.coordination.run

    def late(work: Callable[[Connection], object]) -> object:
        monkeypatch.undo()
        two.sync("far")  # between this one's opening and its first look into the store
        return run(work)

    monkeypatch.setattr(two.coordination, "run", late)
    assert two.open("far").state.log == two.state("far").log
    assert pointer(two, "far") == 2


def test_an_entry_that_no_replica_could_commit_is_not_appended(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    near = two.open("near")
    monkeypatch.setattr(object_store, "LARGEST_DOCUMENT", 1_000)
    with pytest.raises(RefusedError, match=r"its commit would have \S+ bytes, .*: nothing was added"):
        near.add(two.backup(near.store), check=nothing, fence=None)
    monkeypatch.undo()
    assert two.coordination.run(lambda c: log_state(c, two.archive)).head == 0
    assert two.back_up("near") == 1


def test_an_entry_is_not_taken_for_executed_where_another_one_was(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = two.open("near"), two.open("far")  # both have asked the others, and are suspended
    put_back = copied(two)
    two.back_up("near", source="crm")
    put_back()
    for each in (near, far):
        monkeypatch.setattr(each, "check_others_agree", lambda: None)
    far.add(two.backup(far.store), check=nothing, fence=None)
    with pytest.raises(OldStoreError, match=r"near has executed entry 1 \(.*\), which the coordination store"):
        near.sync(check=nothing, fence=None)
    assert pointer(two, "near") < 2
    with pytest.raises(OldStoreError, match=r"near has executed entry 1 \(.*\), which the coordination store"):
        near.add(two.backup(near.store), check=nothing, fence=None)


def test_a_store_that_was_brought_back_in_the_middle_of_a_backup_takes_no_entry(two: Replicas) -> None:
    for _ in range(3):
        two.back_up("near", source="crm")
    near = two.open("near")
    plan = two.backup(near.store)

    def forget(c: Connection) -> None:
        c.execute(schema.archives.update().values(head=1))
        c.execute(schema.entries.delete().where(schema.entries.c.index > 1))
        c.execute(schema.line.delete().where(schema.line.c.index > 1))

    two.coordination.run(forget)
    with pytest.raises(OldStoreError, match="brought back from an older copy"):
        near.add(plan, check=nothing, fence=None)
    draft = Draft("e", EntryChange(kind="backup"), planned_at=3)
    with pytest.raises(OldStoreError, match="the log ends at 1, and replica near has executed 3"):
        two.coordination.run(lambda c: append(c, near.in_use()[1], draft))


def test_an_entry_that_could_not_be_executed_is_told_to_be_in_the_log(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = two.open("near")
    sync = near.sync

    def failing(**given: Any) -> Synced:
        if given.get("upto") is not None:
            raise StoreUnavailable("no answer")
        return sync(**given)

    monkeypatch.setattr(near, "sync", failing)
    with pytest.raises(OutcomeUnknownError, match=r"entry 1 was appended, and could not be executed here \(no answer"):
        near.add(two.backup(near.store), check=nothing, fence=None)
    assert two.sync("near").entries == 1
    assert two.backups[-1] in two.state("near").blocks


def test_a_process_that_was_suspended_behind_its_append_finds_its_commit_among_later_ones(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = two.open("near")

    def meanwhile() -> None:
        # Its locks end meanwhile: another process of the replica executes its entry, and one that follows.
        two.sync("near")
        vacuum = Archive.open(two.place("near"))
        vacuum.add(lambda state: Change("vacuum", abandoned=("gone",)), check=nothing, fence=None)
        two.back_up("far", "other_db")
        two.sync("near")

    two.once_appended(monkeypatch, meanwhile)
    made = near.add(two.backup(near.store), check=nothing, fence=None)
    assert (made.kind, made.log and made.log.index) == ("backup", 1)
    assert two.place_of("near").index == 2


def test_an_entry_that_is_another_one_behind_its_append_is_told(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    near = two.open("near")

    def replace() -> None:
        two.coordination.run(lambda c: c.execute(schema.entries.update().values(entry="another")))
        two.coordination.run(lambda c: c.execute(schema.line.update().values(entry="another")))
        two.sync("near")

    two.once_appended(monkeypatch, replace)
    with pytest.raises(OldStoreError, match="entry 1 of the log is another one than"):
        near.add(two.backup(near.store), check=nothing, fence=None)
