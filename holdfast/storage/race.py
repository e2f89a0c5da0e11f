"""Race of many conditional writes on one object, of which one may succeed."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING

from holdfast.common.side_by_side import do_side_by_side
from holdfast.storage.contract.object_store import ObjectChanged
from locking.store import ObjectExists, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.storage.contract.object_store import ObjectStore

START_LIMIT = 10.0  # seconds to wait for a contender that does not come as far as the others


class _Start:
    """Barrier that opens once all contenders have come, or after a limit of time."""

    def __init__(self, contenders: int) -> None:
        self._missing = contenders
        self._guard = Lock()
        self._open = Event()

    def wait(self) -> None:
        with self._guard:
            self._missing -= 1
            if self._missing <= 0:
                self._open.set()
        self._open.wait(START_LIMIT)
        self._open.set()


@dataclass(frozen=True)
class Race:
    """Outcome of one race, with the contents of the writes that succeeded, or whose outcome is not known."""

    contenders: int
    won: list[bytes]
    unsure: list[bytes]

    def what_went_wrong(self, kept: bytes | None) -> str:
        """Return why the store did not keep to one winner; "" where it may have."""
        if len(self.won) > 1:
            return f"{len(self.won)} of {self.contenders} concurrent requests succeeded where one may"
        if not self.won and not self.unsure:
            return f"none of {self.contenders} concurrent requests succeeded"
        if kept not in (self.won or self.unsure):
            return "what was kept is not what the winner wrote"
        return ""


def race(store: ObjectStore, attempt: Callable[[ObjectStore, bytes], object], contenders: int, size: int) -> Race:
    """Make one attempt from each of many threads at once.

    Where the store can do that, every request is sent but for its last byte before any is ended: so each is under way
    at the server before one of them can have succeeded.

    :param attempt: writes these bytes to the store it is given; raises where the condition does not hold.
    :param size: bytes of each content, at least; all are of different lengths, so that a mixture would be seen.
    """
    together = _Start(contenders)
    last_byte = store.gated(_Start(contenders).wait)

    def contend(number: int) -> tuple[bytes, bool | None]:
        body = b"contender %d " % number
        body *= size // len(body) + number + 1
        together.wait()
        try:
            attempt(last_byte, body)
        except (ObjectExists, ObjectChanged, StoreUnavailable):
            return body, False
        except StoreOutcomeUnknown:
            return body, None
        return body, True

    results = do_side_by_side(contend, range(contenders), at_once=contenders)
    return Race(
        contenders=contenders,
        won=[body for body, won in results if won],
        unsure=[body for body, won in results if won is None],
    )
