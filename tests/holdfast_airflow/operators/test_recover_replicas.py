"""Recovery of lost replicas as a task."""

from __future__ import annotations

import pytest

from holdfast.replication.log.replicas import mark_lost, replica
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import RecoverReplicas
from tests.support.airflow.operators import execute
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


def test_lost_replicas_are_made_anew_and_others_left_alone(shop: Replicas) -> None:
    assert execute(RecoverReplicas(task_id="recover", archive="shop")) == {"recovered": []}
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "rot"))
    (done,) = execute(RecoverReplicas(task_id="recover", archive="shop", deep="False"))["recovered"]
    assert (done["replica"], done["from"], done["files"], done["kept"]) == ("far", "near", 0, 2)
    assert not shop.coordination.run(lambda c: replica(c, shop.archive, "far")).is_lost


def test_a_recovery_that_fails_fails_the_task_once_all_were_tried(shop: Replicas) -> None:
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "rot"))
    for path in (shop.folder / "near" / "data").rglob("*.parquet"):
        path.unlink()
    for path in (shop.folder / "far" / "data").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(JobRefused, match="is missing"):
        execute(RecoverReplicas(task_id="recover", archive="shop"))
    assert shop.coordination.run(lambda c: replica(c, shop.archive, "far")).is_lost
