"""A session of ours that a program of PostgreSQL's uses, over a socket in a folder of its own.

pg_dump opens its session itself, so that nothing can be run in it beforehand, such as to take a lock by which another
session waits for it. What it asks is sent on in ours, as simple queries, and answered in the server's protocol.

Source: PostgreSQL manual, 'Frontend/Backend Protocol'.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import psycopg

from holdfast.postgresql.connection.address import Address

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    from psycopg.pq.abc import PGresult

    from holdfast.postgresql.connection.session import Connection

_PORT: Final = 5432
_ENCRYPTION: Final = (80877103, 80877104)
"""Requests for TLS and GSS, which are not needed within one machine."""

_REPORTED: Final = (
    *("server_version", "server_encoding", "client_encoding", "is_superuser", "session_authorization"),
    *("DateStyle", "IntervalStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings"),
)
_STATES: Final = {
    psycopg.pq.TransactionStatus.IDLE: b"I",
    psycopg.pq.TransactionStatus.INTRANS: b"T",
    psycopg.pq.TransactionStatus.INERROR: b"E",
}


@contextmanager
def lent(session: Connection) -> Iterator[Address]:
    """Yield an address at which one program can use a session while the block runs."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(folder) / f".s.PGSQL.{_PORT}"))
        listener.listen(1)
        thread = threading.Thread(target=_serve, args=(listener, session), name="lent session", daemon=True)
        thread.start()
        user, database = quote(session.info.user, safe=""), quote(session.info.dbname, safe="")
        try:
            yield Address(f"postgresql://{user}@/{database}?host={quote(folder, safe='')}&port={_PORT}")
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # the thread that waits for the program is woken
            thread.join()


def _serve(listener: socket.socket, session: Connection) -> None:
    with suppress(OSError, EOFError):
        client, _ = listener.accept()
        with client, client.makefile("rwb") as stream:
            _Answers(stream, session).run()


class _Answers:
    def __init__(self, stream: io.BufferedRWPair, session: Connection) -> None:
        self._stream = stream
        self._session = session
        self._reported: dict[str, bytes] = {}

    def run(self) -> None:
        while _number(self._body()) in _ENCRYPTION:
            self._stream.write(b"N")
            self._stream.flush()
        self._send(b"R", struct.pack("!i", 0))
        self._send(b"K", struct.pack("!ii", 0, 0))
        self._ready()
        while (kind := self._stream.read(1)) not in (b"", b"X"):
            body = self._body()
            if kind == b"Q":
                self._query(body[:-1])
            else:
                self._error("ERROR", "0A000", "only simple queries are sent on")
            self._ready()

    def _body(self) -> bytes:
        size = _number(self._read(4)) - 4
        return self._read(size)

    def _read(self, size: int) -> bytes:
        octets = self._stream.read(size)
        if len(octets) < size:
            raise EOFError
        return octets

    def _query(self, statement: bytes) -> None:
        try:
            cursor = self._session.execute(statement)
            while True:
                if cursor.pgresult is not None:
                    self._result(cursor.pgresult)
                if not cursor.nextset():
                    return
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error)
            self._error(error.diag.severity_nonlocalized or "ERROR", error.sqlstate or "XX000", said)

    def _result(self, result: PGresult) -> None:
        if result.nfields:
            fields = range(result.nfields)
            described = b"".join(_field(result, number) for number in fields)
            self._send(b"T", struct.pack("!h", result.nfields) + described)
            for row in range(result.ntuples):
                values = b"".join(_value(result.get_value(row, number)) for number in fields)
                self._send(b"D", struct.pack("!h", result.nfields) + values)
        self._send(b"C", (result.command_status or b"") + b"\0")

    def _error(self, severity: str, code: str, message: str) -> None:
        fields = {b"S": severity, b"V": severity, b"C": code, b"M": message}
        self._send(b"E", b"".join(field + text.encode() + b"\0" for field, text in fields.items()) + b"\0")

    def _ready(self) -> None:
        connection = self._session.pgconn
        for name in _REPORTED:
            value = connection.parameter_status(name.encode()) or b""
            if self._reported.get(name) != value:
                self._reported[name] = value
                self._send(b"S", name.encode() + b"\0" + value + b"\0")
        self._send(b"Z", _STATES.get(psycopg.pq.TransactionStatus(connection.transaction_status), b"E"))
        self._stream.flush()

    def _send(self, kind: bytes, body: bytes) -> None:
        self._stream.write(kind + struct.pack("!i", len(body) + 4) + body)


def _number(octets: bytes) -> int:
    return int(struct.unpack("!i", octets[:4])[0])


def _field(result: PGresult, number: int) -> bytes:
    about = (result.ftable(number), result.ftablecol(number), result.ftype(number), result.fsize(number))
    return (result.fname(number) or b"") + b"\0" + struct.pack("!IhIhih", *about, result.fmod(number), 0)


def _value(value: bytes | None) -> bytes:
    return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
