"""Who may back up a source, and what may be appended."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from bench.support.blocks import make_block
from holdfast.common.errors import BusyError, RefusedError
from holdfast.replication.log import log, schema, source_lease
from holdfast.replication.log.errors import HeadMovedError
from holdfast.replication.log.leader import lead
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting
from holdfast.replication.log.settings import QuorumRequest
from locking import Owner
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def acting(two: Replicas, name: str) -> Acting:
    return two.open(name).in_use()[1]


def test_a_source_is_backed_up_through_one_replica_at_a_time(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "first"))
    said = r"shop_db is being backed up by near, run first \(process \d+ on .*\), whose lease ends in"
    with pytest.raises(BusyError, match=said):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))
    run(lambda c: source_lease.release_source(c, near, "shop_db", "first"))
    run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


def test_what_a_killed_run_left_does_not_keep_the_next_one_of_its_replica_waiting(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "killed"))
    run(lambda c: source_lease.take_source(c, near, "shop_db", "next"))
    run(lambda c: source_lease.release_source(c, near, "shop_db", "killed"))  # it is not that one's any more
    with pytest.raises(BusyError, match="by near, run next"):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


def test_a_lease_that_has_ended_keeps_nobody_waiting(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "first", lease=-1.0))
    run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


def gone() -> Owner:
    """A process of this machine that has certainly ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(Owner().here(), pid=process.pid, process_start=1)


def note_process(two: Replicas, owner: Owner) -> None:
    process = json.dumps(asdict(owner))
    two.coordination.run(lambda c: c.execute(schema.sources.update().values(process=process)))


def test_a_process_proved_gone_keeps_nobody_waiting(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "killed"))
    note_process(two, replace(gone(), boot_id="another"))
    with pytest.raises(BusyError, match="by near, run killed"):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))
    note_process(two, gone())
    (lease,) = run(lambda c: source_lease.source_leases(c, two.archive))
    assert "its process is gone" in lease.words(0.0)
    run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))
    (lease,) = run(lambda c: source_lease.source_leases(c, two.archive))
    assert (lease.replica, lease.run, lease.value(0.0)["process"]) == ("far", "other", "running")


@pytest.mark.parametrize("words", ["", "no JSON", '{"newer": 1}', "[]"])
def test_a_process_that_is_not_known_keeps_its_lease(two: Replicas, words: str) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "first"))
    run(lambda c: c.execute(schema.sources.update().values(process=words)))
    with pytest.raises(BusyError, match=r"by near, run first, whose lease"):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


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
    archive.wish = QuorumRequest(2)
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
    archive.wish = QuorumRequest(2)
    archive.add(two.backup(archive.store), check=nothing, fence=None)
    with pytest.raises(BusyError, match="the last backup of shop_db still waits for its quorum"):
        run(lambda c: log.check_settled_at(c, two.archive, "shop_db", ""))
    two.sync("far")
    run(lambda c: log.check_settled_at(c, two.archive, "shop_db", ""))
    with pytest.raises(RefusedError, match="the changes of shop_db end at no position by the update log, and not at 0"):
        run(lambda c: log.check_settled_at(c, two.archive, "shop_db", "0/9"))
