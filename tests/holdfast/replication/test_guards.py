"""What a replica and a recovery refuse to go on from."""

from __future__ import annotations

import pytest

from holdfast.archive import Archive, Change
from holdfast.common.errors import RefusedError
from holdfast.replication.log import recovery_claim, schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError, OldStoreError
from holdfast.replication.log.replicas import mark_lost
from tests.support.replicas.replicated import Replicas, nothing


def test_another_entry_stops_a_sync(two: Replicas) -> None:
    two.back_up("near")
    two.coordination.run(lambda c: c.execute(schema.line.update().values(entry="another")))
    with pytest.raises(OldStoreError):
        two.sync("far")


def test_a_log_that_ends_before_what_was_executed_stops_a_sync(two: Replicas) -> None:
    two.back_up("near")
    two.coordination.run(lambda c: [c.execute(each.delete()) for each in (schema.entries, schema.line)])
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(head=0)))
    with pytest.raises(OldStoreError):
        two.sync("near")


def test_an_entry_that_does_not_follow_is_refused(two: Replicas) -> None:
    two.back_up("near")
    place = two.place_of("near").model_copy(update={"entry": "e", "index": 3})
    with pytest.raises(RefusedError, match="does not follow"):
        Archive.open(two.place("near")).add(lambda state: Change("backup", log=place), check=nothing, fence=None)


def test_a_recovery_whose_lease_is_over_does_not_end(two: Replicas) -> None:
    run = two.coordination.run
    run(lambda c: mark_lost(c, two.archive, "far", "drawn"))
    acting, _ = run(lambda c: recovery_claim.claim(c, two.archive, "far", lease=-1))
    with pytest.raises(EpochOverError):
        run(lambda c: recovery_claim.finish(c, acting))
    with pytest.raises(LostReplicaError):
        two.sync("far")
