"""Guards that no explorer reaches: each is taken out, and the test that tells what it is for must notice."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format import state
from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.replication.log import consistency_check, line, log, recovery_claim, schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError, OldStoreError
from holdfast.replication.log.replicas import mark_lost
from holdfast.replication.work import replica_vacuum
from tests.holdfast.replication.log import test_log as appending
from tests.holdfast.replication.work import test_replica as following
from tests.holdfast.replication.work import test_replica_vacuum as deleting
from tests.support.replicas.log_mutants import Edit
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Guard:
    """A guard, and who notices that it is gone."""

    name: str
    edit: Edit
    told_by: Callable[..., None]


def another_entry_stops_a_sync(two: Replicas) -> None:
    two.back_up("near")
    two.coordination.run(lambda c: c.execute(schema.line.update().values(entry="another")))
    with pytest.raises(OldStoreError):
        two.sync("far")


def a_log_that_ends_before_what_was_executed_stops_a_sync(two: Replicas) -> None:
    two.back_up("near")
    two.coordination.run(lambda c: [c.execute(each.delete()) for each in (schema.entries, schema.line)])
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(head=0)))
    with pytest.raises(OldStoreError):
        two.sync("near")


def an_entry_that_does_not_follow_is_refused(two: Replicas) -> None:
    two.back_up("near")
    place = two.place_of("near").model_copy(update={"entry": "e", "index": 3})
    with pytest.raises(RefusedError, match="does not follow"):
        Archive.open(two.place("near")).add(lambda state: Change("backup", log=place), check=nothing, fence=None)


def a_recovery_whose_lease_is_over_does_not_end(two: Replicas) -> None:
    run = two.coordination.run
    run(lambda c: mark_lost(c, two.archive, "far", "drawn"))
    acting, _ = run(lambda c: recovery_claim.begin(c, two.archive, "far", lease=-1))
    with pytest.raises(EpochOverError):
        run(lambda c: recovery_claim.finish(c, acting))
    with pytest.raises(LostReplicaError):
        two.sync("far")


def guards() -> list[Guard]:
    """Return all of them."""
    entry = "index > last or (entry and known not in (None, entry))"
    return [
        Guard(
            "a vacuum waits for pointers",
            Edit(replica_vacuum, "waits_for", "if row.pointer <= index", "if False"),
            deleting.test_a_replica_that_is_behind_fetches_a_removed_block_first,
        ),
        Guard(
            "a vacuum waits for who is being recovered",
            Edit(replica_vacuum, "waits_for", " or row.recovers_from", ""),
            deleting.test_the_pointer_of_a_replica_that_is_being_recovered_counts,
        ),
        Guard(
            "a vacuum abandons nothing that an entry adds",
            Edit(replica_vacuum, "unnamed", " - frozenset(named)", ""),
            deleting.test_files_of_an_entry_that_is_still_to_be_executed_are_no_leftovers,
        ),
        Guard(
            "an abandoned block is not appended",
            Edit(log, "append", "_check_abandoned(connection, acting.archive, draft.change.add)", "pass"),
            appending.test_an_abandoned_block_is_not_added,
        ),
        Guard(
            "what waits for its quorum is not removed",
            Edit(log, "append", "_check_removed(connection, acting.archive, draft.change.remove)", "pass"),
            appending.test_what_waits_for_its_quorum_is_not_removed,
        ),
        Guard(
            "what removes blocks stands behind what it was planned after",
            Edit(log, "append", "not draft.only_adds and index != draft.planned_at + 1", "False"),
            appending.test_what_does_more_than_add_stands_only_behind_what_it_was_planned_after,
        ),
        Guard(
            "an append is found by its id",
            Edit(log, "append", "if there is not None", "if False"),
            appending.test_a_block_is_added_once,
        ),
        Guard(
            "changes are let go of only once their quorum has succeeded",
            Edit(log, "check_settled_at", "quorum.check_settled(connection, archive, source)", "pass"),
            appending.test_changes_are_let_go_of_at_their_server_only_where_they_are_here_for_good,
        ),
        Guard(
            "a replica follows the log of one store",
            Edit(consistency_check, "check_replica", "known.log.store != place.store", "False"),
            following.test_the_log_of_another_store_is_refused,
        ),
        Guard(
            "an entry that was executed is the one that the store has",
            Edit(line, "contradiction", entry, "index > last"),
            another_entry_stops_a_sync,
        ),
        Guard(
            "the log does not end before what was executed",
            Edit(line, "contradiction", entry, "entry and known not in (None, entry)"),
            a_log_that_ends_before_what_was_executed_stops_a_sync,
        ),
        Guard(
            "entries are committed in the order of the log",
            Edit(state, "_validate_place", "(now.store, now.index) != (was.store, was.index + 1)", "False"),
            an_entry_that_does_not_follow_is_refused,
        ),
        Guard(
            "a recovery whose lease is over ends as none",
            Edit(recovery_claim, "finish", "not row.is_active(clock(connection))", "False"),
            a_recovery_whose_lease_is_over_does_not_end,
        ),
    ]


@pytest.mark.parametrize("told_by", [each.told_by for each in guards() if each.told_by.__module__ == __name__])
def test_what_has_no_other_test_is_guarded(told_by: Callable[[Replicas], None], two: Replicas) -> None:
    told_by(two)


@pytest.mark.parametrize("guard", guards(), ids=lambda guard: guard.name)
def test_each_guard_is_missed_where_it_is_taken_out(
    guard: Guard, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {name: request.getfixturevalue(name) for name in inspect.signature(guard.told_by).parameters}
    guard.edit.put_in(monkeypatch)
    with pytest.raises((AssertionError, HoldfastError, pytest.fail.Exception)):
        guard.told_by(**given)
