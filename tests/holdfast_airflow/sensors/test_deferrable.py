"""Sensors wait in the triggerer where Airflow's configuration or the author of a DAG wants that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import Context
from airflow.sdk.exceptions import TaskDeferred

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.sensors import ReplicaCaughtUpSensor, RestorableSensor, VerifiedSensor
from holdfast_airflow.triggers.poke import PokeTrigger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def waiting(store: ObjectStore) -> RestorableSensor:
    return RestorableSensor(
        task_id="wait", archive=store.url, until=NOON, deferrable=True, poke_interval=30, timeout=3600
    )


def test_it_defers_until_what_it_waits_for_is_there(store: ObjectStore) -> None:
    sensor, context = waiting(store), Context()
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    assert (deferred.value.method_name, deferred.value.timeout) == ("execute_complete", timedelta(hours=1))
    trigger: Any = deferred.value.trigger
    assert isinstance(trigger, PokeTrigger)
    assert trigger.serialize()[1] == {
        "sensor": "holdfast_airflow.sensors.restorable.RestorableSensor",
        "arguments": {"archive": store.url, "until": NOON, "source": None},
        "every_s": 30,
    }
    change = Change(kind="backup", add=(make_block(position="0/100", at=NOON),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)
    assert sensor.execute(context)["commit"] == 1


@pytest.mark.parametrize(("exit_code", "kind"), [(1, JobFailed), (5, JobRefused)])
def test_it_fails_as_the_look_in_the_triggerer_did(store: ObjectStore, exit_code: int, kind: type[JobFailed]) -> None:
    event = {"state": "failed", "message": "it lies in a gap", "exit_code": exit_code}
    with pytest.raises(kind, match="it lies in a gap") as failed:
        waiting(store).execute_complete(Context(), event)
    assert (type(failed.value), failed.value.exit_code) == (kind, exit_code)
    assert waiting(store).execute_complete(Context(), {"state": "done", "value": 1}) == 1


def test_unless_told_so_each_leaves_its_slot_between_two_looks() -> None:
    for sensor in (
        RestorableSensor(task_id="a", archive="shop", until=NOON),
        VerifiedSensor(task_id="b", archive="shop", within="30d"),
        ReplicaCaughtUpSensor(task_id="c", archive="shop", replica="far"),
    ):
        assert (sensor.mode, sensor.deferrable) == ("reschedule", False)
