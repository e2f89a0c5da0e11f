"""The way to the S3 server: it fails as the weather says, and records what is asked of locks.

Requests are passed on as they are, signatures included. A request that fails by the weather either did nothing (503,
cut before it was sent on) or was carried out and its answer lost (cut behind it): both happen.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soak.journal import Journal

_LIMIT = 1 << 16
_ONE_HOP = (b"expect", b"connection", b"keep-alive")
_BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s" % (
    len(body := b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"),
    body,
)


@dataclass(frozen=True)
class Weather:
    """How the store fares: shares of its requests, and what becomes of them.

    :param busy: are answered 503, and do nothing.
    :param cut: end with their connection, and do nothing.
    :param lost: are carried out, and end with their connection.
    :param torn: have an answer that ends in its middle.
    :param slow: wait first, for as much as `pause` seconds.
    :param clock: seconds by which the store's clock is wrong.
    """

    busy: float = 0.0
    cut: float = 0.0
    lost: float = 0.0
    torn: float = 0.0
    slow: float = 0.0
    pause: float = 0.0
    clock: float = 0.0


CALM = Weather()


@dataclass(frozen=True)
class _Head:
    """The head of a request or an answer."""

    first: bytes
    fields: tuple[tuple[bytes, bytes], ...]

    def get(self, name: bytes) -> bytes:
        return next((value for key, value in self.fields if key.lower() == name), b"")

    def to_bytes(self) -> bytes:
        return b"\r\n".join([self.first, *(b"%s: %s" % field for field in self.fields), b"", b""])

    @property
    def length(self) -> int:
        return int(self.get(b"content-length") or 0)


class StoreProxy:
    """Passes requests on to a port of this machine.

    :ivar weather: what becomes of requests from now on.
    :ivar failed: requests that failed by the weather, by how.
    """

    def __init__(self, target: int, journal: Journal, seed: int) -> None:
        self.weather = CALM
        self.failed: Counter[str] = Counter()
        self.passed = 0
        self.port = 0
        self._target = target
        self._journal = journal
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ready = threading.Event()

    def set_clock(self, seconds: float) -> None:
        """Set the store's clock wrong, and leave the rest of the weather."""
        self.weather = replace(self.weather, clock=seconds)

    def run(self) -> None:
        """Serve until `stop`."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """End."""
        self._loop.call_soon_threadsafe(self._end.set)

    def wait_until_ready(self) -> None:
        """Return when it listens."""
        self._ready.wait(10)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0, limit=_LIMIT)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while True:
                head = await _read_head(reader)
                if b"100-continue" in head.get(b"expect").lower():
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(head.length)
                upstream = upstream or await asyncio.open_connection("127.0.0.1", self._target, limit=_LIMIT)
                if not await self._exchange(head, body, writer, *upstream):
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, upstream[1] if upstream else None):
                if end is not None:
                    end.transport.abort()

    async def _exchange(
        self,
        head: _Head,
        body: bytes,
        client: asyncio.StreamWriter,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
    ) -> bool:
        """Carry one request and its answer; return whether the connection goes on."""
        began = time.time()
        fate = await self._fate()
        if fate == "busy":
            self._note(head, body, began, fate, 503)
            client.write(_BUSY)
            await client.drain()
            return True
        if fate == "cut":
            self._note(head, body, began, fate, 0)
            return False
        kept = tuple(field for field in head.fields if field[0].lower() not in _ONE_HOP)
        server.write(_Head(head.first, kept).to_bytes() + body)
        await server.drain()
        answer = await _read_head(reader)
        status = int(answer.first.split()[1])
        if fate == "lost":
            self._note(head, body, began, fate, status)
            return False
        client.write(self._on_our_clock(answer).to_bytes())
        without_body = head.first.startswith(b"HEAD ") or status in (204, 304)
        whole = await _carry_body(reader, client, 0 if without_body else None, answer, torn=fate == "torn")
        await client.drain()
        self._note(head, body, began, "" if whole else fate, status)
        return whole

    async def _fate(self) -> str:
        weather = self.weather
        if weather.slow and self._random.random() < weather.slow:
            self.failed["slow"] += 1
            await asyncio.sleep(self._random.uniform(0, weather.pause))
        drawn = self._random.random()
        for name in ("busy", "cut", "lost", "torn"):
            drawn -= getattr(weather, name)
            if drawn < 0:
                self.failed[name] += 1
                return name
        return ""

    def _on_our_clock(self, answer: _Head) -> _Head:
        if not self.weather.clock:
            return answer
        date = parsedate_to_datetime(answer.get(b"date").decode()).timestamp() + self.weather.clock
        told = formatdate(date, usegmt=True).encode()
        return _Head(answer.first, tuple((k, told if k.lower() == b"date" else v) for k, v in answer.fields))

    def _note(self, head: _Head, body: bytes, began: float, fate: str, status: int) -> None:
        """Record what was asked of a lock.

        :param fate: "" where the answer has come to the client.
        """
        self.passed += 1
        method, target = head.first.decode("latin-1").split()[:2]
        path = unquote(urlsplit(target).path)
        if method in ("PUT", "DELETE") and "/locks/" in path:
            self._journal.write(
                "lock request",
                at=began,
                method=method,
                path=path,
                status=status,
                ended=time.time(),
                fate=fate,
                body=body.decode("utf-8", "replace") if method == "PUT" else "",
            )
        elif method == "POST" and b"<Delete" in body[:400] and b"locks/" in body:
            self._journal.write("locks deleted together", path=path, body=body.decode("utf-8", "replace"))


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    fields = tuple((name, value.strip()) for name, _, value in (line.partition(b":") for line in lines[1:]))
    return _Head(lines[0], fields)


async def _carry_body(
    reader: asyncio.StreamReader, client: asyncio.StreamWriter, length: int | None, answer: _Head, *, torn: bool
) -> bool:
    """Carry the body of an answer; return whether all of it was.

    :param length: its bytes; None where the head says.
    """
    if length is None and b"chunked" in answer.get(b"transfer-encoding").lower():
        return await _carry_chunks(reader, client, torn=torn)
    left = answer.length if length is None else length
    enough = left // 2 if torn and left > 1 else 0
    while left > enough:
        chunk = await reader.read(min(left - enough, _LIMIT))
        if not chunk:
            return False
        client.write(chunk)
        await client.drain()
        left -= len(chunk)
    return left == 0


async def _carry_chunks(reader: asyncio.StreamReader, client: asyncio.StreamWriter, *, torn: bool) -> bool:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        client.write(line + await reader.readexactly(size + 2))
        await client.drain()
        if size == 0:
            return True
        if torn:
            return False


@contextmanager
def proxied(target: int, journal: Journal, seed: int) -> Iterator[StoreProxy]:
    """Run a proxy before a port until the block ends."""
    proxy = StoreProxy(target, journal, seed)
    thread = threading.Thread(target=proxy.run, name="store proxy", daemon=True)
    thread.start()
    proxy.wait_until_ready()
    try:
        yield proxy
    finally:
        with suppress(RuntimeError):
            proxy.stop()
        thread.join(10)
