"""The sensor that waits until a source's files were verified lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.sensors import VerifiedSensor


def test_it_waits_where_files_are_older_than_the_last_verification(store: ObjectStore) -> None:
    change = Change(kind="backup", add=(make_block(at=datetime.now(UTC) - timedelta(days=3)),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)
    for within, is_done in (("7d", True), ("1h", False)):
        sensor = VerifiedSensor(task_id="wait", archive=store.url, within=within)
        assert sensor.poke({}) is is_done


def test_what_is_no_length_of_time_is_refused(store: ObjectStore) -> None:
    change = Change(kind="backup", add=(make_block(at=datetime.now(UTC)),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)
    with pytest.raises(JobRefused, match="such as 24h or 30d"):
        VerifiedSensor(task_id="wait", archive=store.url, within="long").poke({})
