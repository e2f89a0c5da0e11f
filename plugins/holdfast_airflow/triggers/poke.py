"""Trigger that looks in a sensor's place."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.triggers.pauses import SettledTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import BaseSensorOperator


class PokeTrigger(SettledTrigger):
    """Trigger that pokes as a sensor does, until that is done or fails.

    :param sensor: path of its class.
    :param arguments: what it is made with, beside its task's id.
    """

    stored = ("sensor", "arguments", "every_s")

    def __init__(self, *, sensor: str, arguments: Mapping[str, Any], every_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sensor = sensor
        self.arguments = dict(arguments)
        self.every_s = every_s

    async def wait(self) -> dict[str, Any]:
        sensor = self._made()
        while True:
            try:
                result = await asyncio.to_thread(sensor.poke, {})
            except JobFailed as error:
                return {"state": "failed", "message": str(error), "exit_code": error.exit_code}
            if result:
                return {"state": "done", "value": getattr(result, "xcom_value", None)}
            await asyncio.sleep(self.every_s)

    def _made(self) -> BaseSensorOperator:
        module, _, name = self.sensor.rpartition(".")
        kind: type[BaseSensorOperator] = getattr(import_module(module), name)
        return kind(task_id="poke", **self.arguments)
