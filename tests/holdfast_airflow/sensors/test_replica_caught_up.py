"""The sensor that waits until a replica has caught up."""

from __future__ import annotations

import pytest

from holdfast.replication.log.replicas import mark_lost
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import SyncReplica
from holdfast_airflow.sensors import ReplicaCaughtUpSensor
from tests.support.airflow.operators import run
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


def caught_up(replica: str, within: str | None = None) -> bool:
    sensor = ReplicaCaughtUpSensor(task_id="wait", archive="shop", replica=replica, within=within)
    return sensor.poke({})


def test_it_waits_for_a_replica_that_lacks_entries(shop: Replicas) -> None:
    shop.back_up("near")
    assert (caught_up("near"), caught_up("far"), caught_up("far", "1h")) == (True, False, True)
    run(SyncReplica(task_id="sync", archive="shop", replica="far"), {})
    assert caught_up("far")


def test_a_lost_replica_and_an_unknown_one_fail_for_good(shop: Replicas) -> None:
    with pytest.raises(JobRefused, match="has no replica 'off'; it has far, near"):
        caught_up("off")
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "its disk is gone"))
    with pytest.raises(JobRefused, match="replica far of shop is lost: its disk is gone"):
        caught_up("far")
