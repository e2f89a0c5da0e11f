"""What may be appended to the update log."""

from __future__ import annotations

import pytest

from bench.support.blocks import make_block
from holdfast.common.errors import BusyError, RefusedError
from holdfast.replication.log import log, schema
from holdfast.replication.log.errors import HeadMovedError
from holdfast.replication.log.leader import lead
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting
from holdfast.replication.log.settings import QuorumRequest
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def acting(two: Replicas, name: str) -> Acting:
    return two.open(name).in_use()[1]


def test_what_does_more_than_add_stands_only_behind_what_it_was_planned_after(two: Replicas) -> None:
    run, near = two.coordination.run, acting(two, "near")
    two.back_up("far")
    epoch = run(lambda c: lead(c, near))
    removal = EntryChange(kind="truncation", remove=("a",))
    with pytest.raises(HeadMovedError, match="the log has entries up to 1, and this was planned after 0"):
        run(lambda c: log.append(c, near, Draft("e", removal, planned_at=0, leader_epoch=epoch)))
    assert run(lambda c: log.append(c, near, Draft("e", removal, planned_at=1, leader_epoch=epoch))) == 2


def test_what_a_leader_adds_stands_only_behind_what_it_was_planned_after(two: Replicas) -> None:
    run, near = two.coordination.run, acting(two, "near")
    two.back_up("far")
    epoch = run(lambda c: lead(c, near))
    snapshot = EntryChange(kind="consolidation", add=(make_block(identity="b"),))
    with pytest.raises(HeadMovedError, match="planned after 0"):
        run(lambda c: log.append(c, near, Draft("e", snapshot, planned_at=0, leader_epoch=epoch)))


def test_what_waits_for_its_quorum_is_not_removed(two: Replicas) -> None:
    archive = two.open("near")
    archive.quorum_request = QuorumRequest(2)
    archive.add(two.backup(archive.store), check=nothing, fence=None)
    run, near = two.coordination.run, archive.in_use()[1]
    epoch = run(lambda c: lead(c, near))
    removal = EntryChange(kind="truncation", remove=(two.backups[0], two.backups[1]))
    with pytest.raises(RefusedError, match=r"the last backup of shop_db still waits for its quorum.*wait for it"):
        run(lambda c: log.append(c, near, Draft("e", removal, planned_at=1, leader_epoch=epoch)))
    two.sync("far")
    assert run(lambda c: log.append(c, near, Draft("e", removal, planned_at=2, leader_epoch=epoch))) == 3


def test_an_abandoned_block_is_not_added(two: Replicas) -> None:
    run, near = two.coordination.run, acting(two, "near")
    row = {"archive": two.archive, "block": "b", "replica": "far", "at": 0.0}
    run(lambda c: c.execute(schema.abandoned.insert(), row))
    added = EntryChange(kind="backup", add=(make_block(identity="b"),))
    with pytest.raises(RefusedError, match="block b was abandoned by a vacuum of replica far"):
        run(lambda c: log.append(c, near, Draft("e", added, planned_at=0)))


def test_a_block_is_added_once(two: Replicas) -> None:
    run, near = two.coordination.run, acting(two, "near")
    added = EntryChange(kind="backup", add=(make_block(identity="b"),))
    assert run(lambda c: log.append(c, near, Draft("e", added, planned_at=0))) == 1
    assert run(lambda c: log.append(c, near, Draft("e", added, planned_at=0))) == 1
    with pytest.raises(RefusedError, match="block b was added by entry 1 already"):
        run(lambda c: log.append(c, near, Draft("f", added, planned_at=1)))


def test_changes_are_let_go_of_at_their_server_only_where_they_are_here_for_good(two: Replicas) -> None:
    run, archive = two.coordination.run, two.open("near")
    archive.quorum_request = QuorumRequest(2)
    archive.add(two.backup(archive.store), check=nothing, fence=None)
    with pytest.raises(BusyError, match="the last backup of shop_db still waits for its quorum"):
        run(lambda c: log.check_settled_at(c, two.archive, "shop_db", ""))
    two.sync("far")
    run(lambda c: log.check_settled_at(c, two.archive, "shop_db", ""))
    with pytest.raises(RefusedError, match="the changes of shop_db end at no position by the update log, and not at 0"):
        run(lambda c: log.check_settled_at(c, two.archive, "shop_db", "0/9"))
