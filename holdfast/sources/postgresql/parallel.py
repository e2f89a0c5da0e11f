"""Work for several sessions of a database at once."""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from holdfast.sources.postgresql.session import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from holdfast.sources.postgresql.address import Address

    Connection = psycopg.Connection[tuple[Any, ...]]

_T = TypeVar("_T")
_R = TypeVar("_R")

_CANCEL_S = 5.0

_NOTICE_CLIENTS = "set client_connection_check_interval = '5s'"
"""Else a long statement goes on for a client that was killed, and keeps its locks."""


def run_parallel(
    address: Address,
    items: Sequence[_T],
    work: Callable[[Connection, _T], _R],
    *,
    sessions: int,
    settings: Iterable[str] = (),
    after: Mapping[int, Collection[int]] | None = None,
) -> list[_R]:
    """Call `work(session, item)` for every item and return what it returned, in the order of the items.

    The first error ends it: what other sessions are at is cancelled.

    :param sessions: how many, at most.
    :param settings: statements that each session begins with.
    :param after: by an item's place, the places of those that must be done before it.
    """
    order = TopologicalSorter({place: (after or {}).get(place, ()) for place in range(len(items))})
    order.prepare()
    results: dict[int, _R] = {}
    with ExitStack() as stack:
        idle = [stack.enter_context(_open(address, settings)) for _ in range(min(sessions, len(items)))]
        everyone = tuple(idle)
        pool = stack.enter_context(ThreadPoolExecutor(len(idle) or 1, thread_name_prefix="sessions"))
        ready: deque[int] = deque()
        running: dict[Future[_R], tuple[int, Connection]] = {}
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
            for session in everyone:
                with suppress(psycopg.Error):
                    session.cancel_safe(timeout=_CANCEL_S)
            raise
    return [results[place] for place in sorted(results)]


def _open(address: Address, settings: Iterable[str]) -> Connection:
    session = connect(address)
    with suppress(psycopg.errors.InvalidParameterValue):  # not every platform can
        session.execute(_NOTICE_CLIENTS)
    for setting in settings:
        session.execute(setting.encode())
    return session
