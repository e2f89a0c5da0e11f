"""Pauses between two looks of a trigger, and before its event."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from locking.one_line import LogsLines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SHORTEST_S: Final = 1.0

_SHARE: Final = 4


def next_pause(waited_s: float, longest_s: float) -> float:
    """Return the seconds until the next look: a quarter of those waited so far.

    What ends soon is noticed soon, and a long wait costs few looks.
    """
    return min(longest_s, max(SHORTEST_S, waited_s / _SHARE))


class SettledTrigger(LogsLines, BaseTrigger):
    """Trigger with one event, which comes when Airflow can take it.

    Airflow 3.3 fails a task that goes on before its scheduler has read that the deferred process ended: it calls it
    killed from outside (apache/airflow#67287, #71580, #72716, up to 7 s after the deferral on a busy machine).

    :cvar settle_s: seconds from the trigger's start to its event, at least.
    :cvar stored: names of the arguments, which are attributes, too.
    """

    settle_s = 5.0
    stored: ClassVar[tuple[str, ...]] = ()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {name: getattr(self, name) for name in self.stored}

    @abstractmethod
    async def wait(self) -> dict[str, str]:
        """Wait and return the event's payload."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        began = time.monotonic()
        result = await self.wait()
        if (early := began + self.settle_s - time.monotonic()) > 0:
            await asyncio.sleep(early)
        yield TriggerEvent(result)  # type: ignore[no-untyped-call]


def event(state: str, message: str = "") -> dict[str, str]:
    """Return the payload of an event."""
    return {"state": state, "message": message}
