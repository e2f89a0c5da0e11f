"""What clients say to a PostgreSQL server, recorded on its way."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bench.support.faults.network import CHUNK, Relay, carrying

_PROTOCOL_3 = 3
_SETTING = re.compile(r"-c ([\w.]+)=((?:\\.|[^\s\\])*)")


class Said:
    """What one connection has sent so far. Source: PostgreSQL manual, 'Message Formats'."""

    def __init__(self) -> None:
        self.sent = b""

    @property
    def parameters(self) -> dict[str, str]:
        """Return what the connection began with; nothing where it asked for something else than a session."""
        return self._read()[0]

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that its `options` make."""
        found = _SETTING.findall(self.parameters.get("options", ""))
        return {name: re.sub(r"\\(.)", r"\1", value) for name, value in found}

    @property
    def statements(self) -> list[str]:
        """Return the statements that were sent, in their order."""
        return self._read()[1]

    def _read(self) -> tuple[dict[str, str], list[str]]:
        rest = self.sent
        parameters: dict[str, str] = {}
        while not parameters and len(rest) >= 8:
            size, code = struct.unpack("!II", rest[:8])
            if code >> 16 == _PROTOCOL_3:
                words = rest[8:size].decode().split("\0")
                parameters = dict(zip(words[::2], words[1::2], strict=False))
            rest = rest[size:]
        statements = []
        while len(rest) >= 5:
            kind, size = rest[:1], int.from_bytes(rest[1:5], "big")
            body, rest = rest[5 : size + 1], rest[size + 1 :]
            if kind == b"Q":
                statements.append(body.rstrip(b"\0").decode())
            elif kind == b"P":
                statements.append(body.split(b"\0")[1].decode())
        return parameters, statements


class Recorder(Relay):
    """Carries bytes both ways, and keeps those to the server."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.connections: list[Said] = []

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = Said()
        self.connections.append(said)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, to_server]
        with suppress(asyncio.CancelledError):  # the recorder is stopped
            await asyncio.gather(self._carry(reader, to_server, said), self._carry(from_server, writer, None))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: Said | None) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if said is not None:
                    said.sent += chunk
                writer.write(chunk)
                await writer.drain()
        writer.close()


@contextmanager
def recorded(target: int) -> Iterator[Recorder]:
    """Record what is said to a port of this machine, until the block ends."""
    recorder = Recorder(target)
    with carrying(recorder):
        yield recorder
