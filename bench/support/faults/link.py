"""The way of one client to a server: cut again and again, at chosen moments of its transactions, and mended."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, get_args

from bench.support.faults.network import CHUNK, NEVER, Fault, Relay, break_off, carrying

Moment = Literal["now", "request", "answer", "late"]
"""At once; or at a COMMIT: it is lost, its answer is lost, or it comes to the server when its client has long gone."""

_COMMIT = b"COMMIT\0"
_APPEND = b'"kind":"backup"'
"""Bytes that only an append of a backup to the log sends: they begin the JSON of its entry."""

_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Cut:
    """Fault of all connections of a client.

    :param appending: its moment is the COMMIT of a transaction that appends a backup; else that of any.
    :param patience: seconds; where the moment has not come by then, it is cut all the same.
    :param lasting: seconds; so long the client cannot connect again either.
    :param late: seconds behind these until a COMMIT comes that is `late`.
    """

    fault: Fault = "reset"
    moment: Moment = "now"
    appending: bool = True
    patience: float = NEVER
    lasting: float = 0.0
    late: float = 0.0

    @classmethod
    def drawn(cls, drawn: random.Random, moments: tuple[Moment, ...]) -> Cut:
        """Draw one; after most of those that are no silence, the client can connect again at once."""
        fault: Fault = drawn.choice(("reset", "closed", "silent"))
        lasts = fault == "silent" or drawn.random() < 0.3
        return cls(
            fault,
            drawn.choice(moments),
            appending=drawn.random() < 0.6,
            patience=_PATIENCE_S,
            lasting=drawn.uniform(0.1, 1.5) if lasts else 0.0,
            late=drawn.choice((0.0, drawn.uniform(0.0, 1.0))),
        )


@dataclass
class _Expected:
    """A cut that has been asked for.

    :param came: its moment has come.
    :param kept: a COMMIT that is to come late, and whom to.
    """

    cut: Cut
    came: asyncio.Event = field(default_factory=asyncio.Event)
    kept: tuple[asyncio.StreamWriter, bytes] | None = None


@dataclass(eq=False)
class _Connection:
    """One connection, carried both ways until it is broken.

    :param expected: the cut whose moment is the server's next answer.
    """

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_broken: bool = False
    expected: _Expected | None = None


class Link(Relay):
    """Carries bytes but for the time of each cut.

    :ivar cuts: how many of each fault there were at each moment.
    """

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self._connections: set[_Connection] = set()
        self._expected: _Expected | None = None
        self._fault: Fault | None = None  # where it is cut just now
        self._broken: list[asyncio.StreamWriter] = []
        self._mended = asyncio.Event()
        self.cuts: Counter[str] = Counter()

    def cut(self, cut: Cut) -> Future[bool]:
        """Cut once; return whether its moment came, when that is over."""
        return asyncio.run_coroutine_threadsafe(self._cut(cut), self._loop)

    def mend(self) -> None:
        """End a cut before its time."""
        self._loop.call_soon_threadsafe(self._mended.set)

    def cut_again_and_again(self, seed: float, *, pause: float, moments: tuple[Moment, ...] = get_args(Moment)) -> None:
        """Cut as drawn until this is stopped.

        :param pause: seconds between two cuts, at most.
        """
        drawn = random.Random(seed)  # noqa: S311 - draws faults
        asyncio.run_coroutine_threadsafe(self._cut_again_and_again(drawn, pause, moments), self._loop)

    async def _cut_again_and_again(self, drawn: random.Random, pause: float, moments: tuple[Moment, ...]) -> None:
        while True:
            await asyncio.sleep(drawn.uniform(0.0, pause))
            await self._cut(Cut.drawn(drawn, moments))

    async def _cut(self, cut: Cut) -> bool:
        expected = self._expected = _Expected(cut)
        if cut.moment != "now":
            await _waited(expected.came, cut.patience)
        came = expected.came.is_set()
        if not came:
            self._break(expected)
        self.cuts[f"{cut.fault} {cut.moment if came else 'now'}"] += 1
        if cut.lasting:
            await _waited(self._mended, cut.lasting)
        self._mend()
        if expected.kept is not None:
            self._loop.call_later(cut.late, _deliver, *expected.kept)
        return came

    def _break(self, expected: _Expected) -> None:
        """Break all connections, but for one by which a COMMIT is to come late."""
        self._expected = None
        self._fault = expected.cut.fault
        self._mended.clear()
        kept = expected.kept[0] if expected.kept else None
        ends = (end for each in self._connections for end in (each.client, each.server))
        self._broken = [end for end in ends if end is not kept]
        for connection in self._connections:
            connection.is_broken = True
        for writer in self._broken:
            break_off(writer, self._fault)

    def _mend(self) -> None:
        """Let the client connect again, and tell whoever has not noticed yet that the connections are lost."""
        for writer in self._broken if self._fault == "silent" else ():
            break_off(writer, "reset")
        self._fault = None
        self._mended.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._fault is not None:
            await self._refuse(writer)
            return
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the server is away
            break_off(writer, "reset")
            return
        self._writers.append(to_server)
        connection = _Connection(writer, to_server)
        self._connections.add(connection)
        with suppress(asyncio.CancelledError):  # the link is stopped
            await asyncio.gather(self._carry_there(reader, connection), self._carry_back(from_server, connection))
            self._connections.remove(connection)

    async def _refuse(self, writer: asyncio.StreamWriter) -> None:
        if self._fault == "silent":
            break_off(writer, self._fault)
            with suppress(asyncio.CancelledError):  # the link is stopped
                await self._mended.wait()
        break_off(writer, "reset")

    async def _carry_there(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        appending = False
        with suppress(OSError):
            while (chunk := await reader.read(CHUNK)) and not connection.is_broken:
                appending = appending or _APPEND in chunk
                if _COMMIT in chunk:
                    self._commits(connection, chunk, appending=appending)
                    appending = False
                if connection.is_broken:
                    return
                connection.server.write(chunk)
                await connection.server.drain()
        if not connection.is_broken:
            connection.server.close()

    def _commits(self, connection: _Connection, chunk: bytes, *, appending: bool) -> None:
        """Let a cut happen, if this is its moment.

        :param chunk: with a COMMIT that has not come to the server yet.
        :param appending: of a transaction that appends a backup.
        """
        expected = self._expected
        if expected is None or (expected.cut.appending and not appending):
            return
        if expected.cut.moment == "answer":
            self._expected, connection.expected = None, expected
            return
        if expected.cut.moment == "late":
            expected.kept = (connection.server, chunk)
        self._come(expected)

    def _come(self, expected: _Expected) -> None:
        self._break(expected)
        expected.came.set()

    async def _carry_back(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        with suppress(OSError):
            while (chunk := await reader.read(CHUNK)) and not connection.is_broken:
                if connection.expected is not None:
                    self._come(connection.expected)
                    return
                connection.client.write(chunk)
                await connection.client.drain()
        if not connection.is_broken:
            connection.client.close()


async def _waited(event: asyncio.Event, most: float) -> None:
    """Wait for an event, so many seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(most):
            await event.wait()


def _deliver(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    with suppress(OSError):
        writer.write(chunk)
        writer.close()


@contextmanager
def linked(target: int) -> Iterator[Link]:
    """Run a link to a port until the block ends."""
    link = Link(target)
    with carrying(link):
        yield link
