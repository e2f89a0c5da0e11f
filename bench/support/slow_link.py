"""A server that is as far away as one says: each connection to it has a latency and a rate of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Distance:
    """Distance of a server.

    :param latency: seconds that bytes are under way, in each direction.
    :param rate: bytes a second that one connection carries in each direction; two connections carry twice as many.
    """

    latency: float
    rate: float


@contextlib.contextmanager
def slow_link(port: int, distance: Distance) -> Iterator[int]:
    """Listen on a free loopback port and pass on what comes to another one, late; stop when the block ends.

    Bytes of one connection wait one behind the other: what is sent meanwhile stays with its sender.

    :return: the port to connect to.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    link = _Link(port, distance)
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(link.connect, "127.0.0.1", 0), loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(link.stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Link:
    def __init__(self, port: int, distance: Distance) -> None:
        self._port = port
        self._distance = distance
        self._connections: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to carry the bytes of one connection."""
        task = asyncio.create_task(self._carry_both(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def stop(self, server: asyncio.Server) -> None:
        """Take no more connections, and end those that are there."""
        server.close()
        ending = list(self._connections)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _carry_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._carry(reader, to_server), self._carry(from_server, writer))
        finally:
            for end in (writer, to_server):
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await asyncio.sleep(self._distance.latency + len(chunk) / self._distance.rate)
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()
