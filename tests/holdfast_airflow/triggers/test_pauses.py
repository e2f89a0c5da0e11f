"""How long triggers pause between two looks, and before their event."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast_airflow.triggers import pauses
from holdfast_airflow.triggers.pauses import SHORTEST_S, SettledTrigger, next_pause


def test_what_has_just_begun_is_looked_at_again_soon() -> None:
    assert next_pause(0.0, 10.0) == SHORTEST_S
    assert next_pause(3 * SHORTEST_S, 10.0) == SHORTEST_S


def test_a_pause_is_a_quarter_of_what_was_waited_up_to_the_longest() -> None:
    assert next_pause(20.0, 10.0) == 5.0
    assert next_pause(3600.0, 10.0) == 10.0


@pytest.mark.parametrize("waited", [0.0, 3600.0])
def test_no_pause_is_longer_than_was_asked_for(waited: float) -> None:
    assert next_pause(waited, 0.01) == 0.01


class After(SettledTrigger):
    """Trigger that has what it waits for after some seconds of a clock of its own."""

    settle_s = 5.0

    def __init__(self, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds = seconds
        self.now = 100.0

    async def wait(self) -> dict[str, str]:
        self.now += self.seconds
        return {"state": "found"}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "", {}


@pytest.mark.parametrize(("seconds", "pause"), [(0.0, [5.0]), (3.5, [1.5]), (5.0, []), (600.0, [])])
def test_no_event_comes_before_airflow_can_take_it(
    seconds: float, pause: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, slept = After(seconds), []

    async def sleep(length: float) -> None:
        slept.append(length)

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    monkeypatch.setattr(pauses, "time", SimpleNamespace(monotonic=lambda: trigger.now))
    monkeypatch.setattr("holdfast_airflow.triggers.pauses.asyncio.sleep", sleep)
    assert asyncio.run(events()) == [{"state": "found"}]
    assert slept == pause
