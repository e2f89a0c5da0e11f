"""One replica leads: compactions and truncations go through it."""

from __future__ import annotations

import threading

import pytest

from holdfast.archive import Change
from holdfast.archive.format.state import State
from holdfast.archive.maintenance.retention import NOTHING, parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.common.errors import BusyError, HoldfastError, RefusedError
from holdfast.replication.log import log, schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError
from holdfast.replication.log.leader import go_on, lead, leader, resign
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting, mark_lost, replica, take_lease
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.work import leading as leading_module
from holdfast.replication.work.leading import leading
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def acting(two: Replicas, name: str) -> Acting:
    return two.open(name).in_use()[1]


def test_one_replica_leads_at_a_time(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    assert run(lambda c: lead(c, near)) == 1
    with pytest.raises(BusyError, match=r"replica near leads: .* for (899|900) s from now"):
        run(lambda c: lead(c, far))
    assert run(lambda c: lead(c, near)) == 1  # another process of the same replica
    run(lambda c: resign(c, near, 1))
    assert run(lambda c: lead(c, far)) == 2
    run(lambda c: resign(c, near, 1))  # what has ended already
    assert run(lambda c: leader(c, two.archive)).name == "far"


def test_the_death_of_a_leader_costs_one_lease(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: lead(c, near, lease=-1.0))
    assert run(lambda c: lead(c, far)) == 2


def test_whoever_acts_for_a_replica_no_more_does_not_lead(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    two.change("near", active_until=0.0)
    run(lambda c: take_lease(c, two.archive, replica(c, two.archive, "near"), 10.0))
    with pytest.raises(EpochOverError, match="activated again"):
        run(lambda c: lead(c, near))
    run(lambda c: mark_lost(c, two.archive, "far", "its disk is gone"))
    with pytest.raises(LostReplicaError, match="its disk is gone"):
        run(lambda c: lead(c, far))


def test_what_a_leader_of_before_would_append_is_refused(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    epoch = run(lambda c: lead(c, near, lease=-1.0))
    run(lambda c: lead(c, far))
    draft = Draft("e", EntryChange(kind="truncation", remove=tuple(two.backups)), planned_at=0, leader_epoch=epoch)
    with pytest.raises(EpochOverError, match=r"near led in epoch 1, and far leads by now \(epoch 2\)"):
        run(lambda c: log.append(c, near, draft))
    with pytest.raises(EpochOverError, match="far leads by now"):
        run(lambda c: go_on(c, near, epoch))
    run(lambda c: resign(c, far, 2))
    with pytest.raises(EpochOverError, match="no replica leads by now"):
        run(lambda c: log.append(c, near, draft))
    assert run(lambda c: lead(c, near)) == 3  # another process of this replica: what far did meanwhile counts
    with pytest.raises(EpochOverError, match=r"near led in epoch 1, and near leads by now \(epoch 3\)"):
        run(lambda c: log.append(c, near, draft))


def test_blocks_are_removed_by_the_leader_only(two: Replicas) -> None:
    draft = Draft("e", EntryChange(kind="truncation", remove=tuple(two.backups)), planned_at=0)
    near = acting(two, "near")
    with pytest.raises(RefusedError, match="near does not lead, and only the leader removes blocks"):
        two.coordination.run(lambda c: log.append(c, near, draft))


def test_a_truncation_during_which_another_replica_came_to_lead_changes_nothing(two: Replicas) -> None:
    two.back_up("near")
    with leading(two.open("near")) as near:
        two.coordination.run(lambda c: c.execute(schema.archives.update().values(leader_until=0.0)))
        far = acting(two, "far")
        two.coordination.run(lambda c: lead(c, far))
        with pytest.raises(EpochOverError, match="far leads by now"):
            truncate(near, parse_rules(["last=1"]), check=nothing, fence=None)
    assert len(two.state("near").blocks) == 2
    assert two.coordination.run(lambda c: leader(c, two.archive)).name == "far"


def test_what_others_back_up_meanwhile_lets_the_leader_only_plan_anew(two: Replicas) -> None:
    planned: list[int] = []

    def plan(state: State) -> Change:
        planned.append(len(state.blocks))
        if len(planned) == 1:
            two.back_up("far")
        return Change("truncation", remove=(two.backups[0],))

    with leading(two.open("near")) as near:
        near.add(plan, check=nothing, fence=None)
    assert planned == [1, 2]
    two.sync("far")
    assert two.state("near").blocks.keys() == two.state("far").blocks.keys() == {two.backups[1]}


def test_a_truncation_neither_removes_what_waits_for_its_quorum_nor_relies_on_it(two: Replicas) -> None:
    two.back_up("near")
    near = two.open("near")
    near.quorum_request = QuorumRequest(2)
    near.add(two.backup(near.store), check=nothing, fence=None)
    with leading(near):
        truncate(near, parse_rules(["last=1"]), check=nothing, fence=None)
    assert near.state.blocks.keys() == set(two.backups[1:])
    two.sync("far")
    with leading(near):
        truncate(near, parse_rules(["last=1"]), check=nothing, fence=None)
    assert near.state.blocks.keys() == {two.backups[2]}


def test_a_removed_source_begins_again_through_any_replica(two: Replicas) -> None:
    two.back_up("near", "crm")
    with leading(two.open("near")) as near:
        truncate(near, NOTHING, check=nothing, fence=None, source="crm")
    two.sync("far")
    assert two.state("far").ends.keys() == two.state("near").ends.keys() == {"shop_db"}
    two.back_up("far", "crm")
    assert two.state("far").ends.keys() == {"shop_db", "crm"}


def test_the_lease_is_renewed_while_the_work_goes_on(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = threading.Event()

    def told(*given: object) -> None:
        renewed.set()
        raise HoldfastError("the store cannot be reached")  # the next turn tries again

    monkeypatch.setattr(leading_module, "RENEW_S", 0.001)
    monkeypatch.setattr(leading_module, "go_on", told)
    with leading(two.open("near")):
        assert renewed.wait(30)
        renewed.clear()
        assert renewed.wait(30)
    assert two.coordination.run(lambda c: leader(c, two.archive)).name == ""


def test_going_on_leaves_the_epoch_and_moves_the_end_of_the_lease(two: Replicas) -> None:
    run, near = two.coordination.run, acting(two, "near")
    epoch = run(lambda c: lead(c, near, lease=-1.0))
    before = run(lambda c: leader(c, two.archive))
    run(lambda c: go_on(c, near, epoch))
    after = run(lambda c: leader(c, two.archive))
    assert (after.name, after.epoch, after.until > before.until) == ("near", epoch, True)
