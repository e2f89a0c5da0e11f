"""The trigger that looks in a sensor's place."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.storage import ObjectStore
from holdfast_airflow.triggers.poke import PokeTrigger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def back_up(store: ObjectStore, at: datetime) -> None:
    change = Change(kind="backup", add=(make_block(identity=f"b{at.hour}", position=f"0/{at.hour}00", at=at),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)


def wait(store: ObjectStore, until: datetime) -> dict[str, Any]:
    trigger = PokeTrigger(
        sensor="holdfast_airflow.sensors.restorable.RestorableSensor",
        arguments={"archive": store.url, "until": until, "source": None},
        every_s=30,
    )
    return asyncio.run(trigger.wait())


def test_it_looks_until_the_sensor_is_done(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        back_up(store, NOON + timedelta(hours=len(pauses) - 2))

    monkeypatch.setattr("holdfast_airflow.triggers.poke.asyncio.sleep", pause)
    assert wait(store, NOON)["value"] == {"restorable_to": "2026-03-01T12:00:00.000000Z", "commit": 2}
    assert pauses == [30, 30]


def test_a_failure_is_told_with_its_exit_code(store: ObjectStore) -> None:
    back_up(store, NOON)
    back_up(store, NOON + timedelta(hours=2))
    told = wait(store, NOON + timedelta(hours=1))
    assert (told["state"], told["exit_code"]) == ("failed", 5)
    assert "it lies in a gap" in told["message"]
