"""A network between clients and a server of this machine, that is cut or falls silent at a chosen moment."""

from __future__ import annotations

import asyncio
import ctypes
import re
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from holdfast.postgresql.connection.address import Address

Fault = Literal["reset", "closed", "silent"]
"""Fault of every connection: it is reset, ended as if by the other side, or no packet comes through any more."""

NEVER = float("inf")

_SOON = "?keepalives_idle=1&keepalives_interval=1&keepalives_count=2&tcp_user_timeout=2000"
"""A client that asks after one second whether the other side is there."""

CHUNK = 1 << 14
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h


class Relay(ABC):
    """Carries bytes to a port of this machine and back."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def way_to(self, address: Address) -> Address:
        """Return the address of a database as it is reached through this, by who soon notices a silence."""
        return Address(re.sub(r":\d+/", f":{self.port}/", address.url) + _SOON, address.password)

    def run(self) -> None:
        """Serve until `stop`; its thread does nothing else."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """End all connections and `run`."""
        self._loop.call_soon_threadsafe(self._end.set)

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._accept, sock=self._listener):
            await self._end.wait()
            for writer in self._writers:
                break_off(writer, "reset")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)  # also of who is still on the way to the server when this is stopped
        await self._connect(reader, writer)

    @abstractmethod
    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what a client sends, and what it is answered."""


class Proxy(Relay):
    """Carries bytes until the fault.

    :param to_server, to_client: the fault happens when so many bytes went that way in one connection.
    :param lasting: nobody can connect after the fault.
    """

    def __init__(self, target: int, fault: Fault, *, to_server: float, to_client: float, lasting: bool) -> None:
        super().__init__(target)
        self._fault = fault
        self._most = {"server": to_server, "client": to_client}
        self._lasting = lasting
        self._broken: set[asyncio.StreamWriter] = set()
        self.happened = threading.Event()

    def break_now(self) -> None:
        """Let the fault happen, whatever has been carried."""
        self._loop.call_soon_threadsafe(self._break)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.happened.is_set() and self._lasting:
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.append(to_server)
        with suppress(asyncio.CancelledError):  # the proxy is stopped
            await asyncio.gather(
                self._carry(reader, to_server, self._most["server"]),
                self._carry(from_server, writer, self._most["client"]),
            )

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: float) -> None:
        carried = 0
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                carried += len(chunk)
                if carried >= most and not self.happened.is_set():
                    self._break()
                if writer in self._broken:
                    break
                writer.write(chunk)
                await writer.drain()
        if writer not in self._broken:
            writer.close()

    def _break(self) -> None:
        self.happened.set()
        self._broken = set(self._writers)
        for writer in self._writers:
            break_off(writer, self._fault)


def break_off(writer: asyncio.StreamWriter, fault: Fault) -> None:
    """Let a fault happen to a connection, if it has not ended by itself."""
    with suppress(OSError):
        _BREAK[fault](writer.transport)


def _reset(transport: asyncio.WriteTransport) -> None:
    """End a connection so that the other side knows at once, also where it was silent."""
    connection = transport.get_extra_info("socket")
    with suppress(OSError):  # there was no filter
        connection.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _silence(transport: asyncio.WriteTransport) -> None:
    """Drop what comes before it is acknowledged, as where a cable was pulled or a host has lost its power."""
    drop_everything = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # one instruction: return 0
    program = struct.pack("HP", 1, ctypes.addressof(drop_everything))
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


_BREAK = {"reset": _reset, "closed": lambda transport: transport.close(), "silent": _silence}


@contextmanager
def carrying(relay: Relay) -> Iterator[None]:
    """Run a relay until the block ends."""
    thread = threading.Thread(target=relay.run, name="relay")
    thread.start()
    try:
        yield
    finally:
        relay.stop()
        thread.join()


@contextmanager
def faulty_network(
    target: int, fault: Fault, *, to_server: float = NEVER, to_client: float = NEVER, lasting: bool = True
) -> Iterator[Proxy]:
    """Run a proxy before a port, until the block ends."""
    proxy = Proxy(target, fault, to_server=to_server, to_client=to_client, lasting=lasting)
    with carrying(proxy):
        yield proxy
