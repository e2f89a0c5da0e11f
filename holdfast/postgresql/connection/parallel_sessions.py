"""Parallel work in several sessions of a database."""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Self, TypeVar

import psycopg

from holdfast.postgresql.connection.session import NOTICE_CLIENTS, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_T = TypeVar("_T")
_R = TypeVar("_R")

_CANCEL_S = 5.0


class Sessions:
    """Pool of sessions of a database, each opened when first needed.

    :param settings: statement that each begins with.
    """

    def __init__(self, address: Address, most: int, *, settings: str = "") -> None:
        self._address = address
        self._most = most
        self._settings = settings
        self._opened: list[Connection] = []
        self._closing = ExitStack()

    def run(
        self,
        items: Sequence[_T],
        work: Callable[[Connection, _T], _R],
        *,
        at_once: int | None = None,
        after: Mapping[int, Collection[int]] | None = None,
    ) -> list[_R]:
        """Call `work(session, item)` for every item and return the results in order.

        The first error ends it: what other sessions are at is cancelled.

        :param at_once: so many, at most; 1: one after the other, in their order.
        :param after: by an item's place, the places of those that must be done before it.
        """
        order = TopologicalSorter({place: (after or {}).get(place, ()) for place in range(len(items))})
        order.prepare()
        results: dict[int, _R] = {}
        idle = self._open(min(at_once or self._most, self._most, len(items)))
        ready: deque[int] = deque()
        running: dict[Future[_R], tuple[int, Connection]] = {}
        with ThreadPoolExecutor(len(idle) or 1, thread_name_prefix="sessions") as pool:
            try:
                while order.is_active():
                    ready.extend(order.get_ready())
                    while ready and idle:
                        place, session = ready.popleft(), idle.pop()
                        running[pool.submit(work, session, items[place])] = (place, session)
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        place, session = running.pop(done)
                        results[place] = done.result()
                        idle.append(session)
                        order.done(place)
            except BaseException:
                self._cancel()
                raise
        return [results[place] for place in sorted(results)]

    def _open(self, number: int) -> list[Connection]:
        while len(self._opened) < number:
            session = self._closing.enter_context(connect(self._address))
            with suppress(psycopg.errors.InvalidParameterValue):  # not every platform can
                session.execute(NOTICE_CLIENTS)
            if self._settings:
                session.execute(self._settings.encode())
            self._opened.append(session)
        return self._opened[:number]

    def _cancel(self) -> None:
        for session in self._opened:
            with suppress(psycopg.Error):
                session.cancel_safe(timeout=_CANCEL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, error, trace)  # after an error sessions roll back, and say nothing of their own


class OneSession(Sessions):
    """One open session in place of a pool.

    It may be in a transaction.
    """

    def __init__(self, session: Connection) -> None:
        self._session = session

    def run(
        self,
        items: Sequence[_T],
        work: Callable[[Connection, _T], _R],
        *,
        at_once: int | None = None,
        after: Mapping[int, Collection[int]] | None = None,
    ) -> list[_R]:
        """Call `work(session, item)` for one item after the other; each comes behind those it waits for."""
        del at_once, after
        return [work(self._session, item) for item in items]
