"""Holds and the update log: what breaks one is refused before it is appended, and never after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.archive import Change
from holdfast.archive.format.block import Block
from holdfast.archive.format.model import Hold
from holdfast.archive.maintenance.hold_requests import add_hold
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.common.errors import RefusedError
from holdfast.replication.log import log
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.work.leading import leading
from tests.support.replicas.given_up import append, changes, full
from tests.support.replicas.replicated import Replicas, made_backup, nothing

pytestmark = pytest.mark.slow


def plain(end: str) -> Callable[[Block], Block]:
    """A full backup beside the changes."""
    return lambda block: block.model_copy(update={"covers": block.covers.model_copy(update={"to_position": end})})


def held(given: Replicas, at: str) -> Hold:
    hold, _ = add_hold(given.open("near"), "shop_db", at, reason="audit", owner="ann", check=nothing)
    return hold


def head(given: Replicas) -> int:
    return given.place_of("near").index


def pending_changes(given: Replicas) -> None:
    """Of a full backup, changes, another full backup and changes beyond it, the last ones wait for their quorum."""
    append(given, "near", full("0/A00"))
    append(given, "near", changes("0/A00", "0/B00"))
    append(given, "near", plain("0/C00"))
    near = given.open("near")
    near.quorum_request = QuorumRequest(2)
    _, plan = made_backup(near.store, "shop_db")
    (block,) = plan(near.state).add
    block = changes("0/B00", "0/D00")(block)
    near.add(
        lambda state: Change("backup", add=(block,), expected_ends={"shop_db": state.ends["shop_db"]}),
        check=nothing,
        fence=None,
    )


def test_a_point_that_needs_what_may_be_taken_back_is_not_held(two: Replicas) -> None:
    pending_changes(two)
    with pytest.raises(RefusedError, match="cannot be restored"):
        held(two, "lsn:0/B80")
    two.sync("far")
    held(two, "lsn:0/B80")


def test_a_pending_backup_and_a_hold_never_make_an_entry_that_nobody_executes(two: Replicas) -> None:
    pending_changes(two)
    held(two, "lsn:0/B00")
    with leading(two.open("near")) as near:
        truncate(near, parse_rules(["last=1"]), check=nothing, fence=None)
    assert two.sync("far").index == two.sync("near").index == head(two)
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys()


def test_what_would_break_a_hold_is_not_appended(two: Replicas) -> None:
    two.back_up("near")
    held(two, "latest")
    before = head(two)
    with leading(two.open("near")) as near, pytest.raises(RefusedError, match=r"what a hold keeps: .*audit"):
        near.add(lambda state: Change("truncation", remove=(two.backups[-1],)), check=nothing, fence=None)
    assert two.sync("near").index == before


def test_an_entry_that_is_in_the_log_is_executed_whatever_is_held(two: Replicas) -> None:
    two.back_up("near")
    held(two, "latest")
    with leading(two.open("near")) as near:
        draft = log.Draft(
            id="removes",
            change=log.EntryChange(kind="truncation", remove=(two.backups[-1],)),
            planned_at=head(two),
            leader_epoch=near.leader_epoch,
        )
        two.coordination.run(lambda c: log.append(c, near.in_use()[1], draft))
    assert two.sync("far").index == two.sync("near").index == 3
    assert two.backups[-1] not in two.state("far").blocks
