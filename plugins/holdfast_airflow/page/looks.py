"""Looks at stores within a time limit: one that hangs must not stop the API server."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LIMIT_S = 15.0
"""So long a request waits for a store."""

MOST = 8
"""Looks under way at a time. Those that have timed out count until they end."""


class LookTimedOutError(Exception):
    """A store did not answer in time, or too many looks have not ended."""


class Looks:
    """Looks at stores, each in a thread that an exit of the process does not wait for.

    :param limit_s: seconds for each.
    :param most: how many may be under way at a time.
    """

    def __init__(self, limit_s: float = LIMIT_S, most: int = MOST) -> None:
        self._limit_s = limit_s
        self._most = most
        self._free = threading.BoundedSemaphore(most)

    async def within(self, look: Callable[[], T]) -> T:
        """Return what `look` returns, or raise what it raises.

        :raises LookTimedOutError: it has not ended in time; it goes on, and its result is dropped.
        """
        if not self._free.acquire(blocking=False):
            raise LookTimedOutError(f"{self._most} looks at stores have not ended yet: try again in a minute")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, error = None, None
            try:
                result = look()
            except BaseException as raised:  # noqa: BLE001 - it is raised where the result is waited for
                error = raised
            finally:
                self._free.release()
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=run, name="look at a store", daemon=True).start()
        try:
            return await asyncio.wait_for(answer, self._limit_s)
        except TimeoutError:
            raise LookTimedOutError(f"the archive's store has not answered within {self._limit_s:.0f} s") from None
