"""The sensor that waits until a source can be restored to a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import PokeReturnValue

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.sensors import RestorableSensor

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def add(store: ObjectStore, at: datetime, **more: Any) -> None:
    position = f"0/{at.hour:02}00"
    change = Change(kind="backup", add=(make_block(identity=f"b{at.hour}", position=position, at=at, **more),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)


def poke(store: ObjectStore, until: Any, **more: Any) -> PokeReturnValue:
    sensor = RestorableSensor(task_id="wait", archive=store.url, until=until, **more)
    return sensor.poke({})


def test_it_waits_until_a_backup_reaches_the_time(store: ObjectStore) -> None:
    assert not poke(store, "2026-03-01T12:00:00Z").is_done
    add(store, NOON)
    done = poke(store, "2026-03-01T13:00:00+01:00")
    assert (done.is_done, done.xcom_value) == (True, {"restorable_to": "2026-03-01T12:00:00.000000Z", "commit": 1})
    assert not poke(store, NOON + timedelta(seconds=1), source="shop_db").is_done


def test_a_time_in_a_gap_fails_for_good(store: ObjectStore) -> None:
    add(store, NOON)
    add(store, NOON + timedelta(hours=2))
    with pytest.raises(JobRefused, match=r"cannot be restored to 2026-03-01T13:00:00\.0+Z: it lies in a gap"):
        poke(store, NOON + timedelta(hours=1))


@pytest.mark.parametrize(
    ("until", "sentence"), [("tomorrow", "write a time in ISO 8601"), ("2026-03-01T12:00", "names no time zone")]
)
def test_what_is_no_time_is_refused(store: ObjectStore, until: str, sentence: str) -> None:
    with pytest.raises(JobRefused, match=sentence):
        poke(store, until)


def test_it_leaves_the_worker_between_two_looks(store: ObjectStore) -> None:
    sensor = RestorableSensor(task_id="wait", archive="shop", until="{{ data_interval_end }}")
    assert sensor.mode == "reschedule"
    assert {"archive", "until", "source"} <= set(sensor.template_fields)
