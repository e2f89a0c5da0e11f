"""Read tables inside a held snapshot, in pieces that many sessions can share.

A piece is a range of a table's heap pages (a TID range scan, PostgreSQL 14 and later), the last one
open-ended; tables without a heap are read whole.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import adbc_driver_postgresql.dbapi
from adbc_driver_manager import Error as AdbcError

from holdfast.errors import HoldfastError
from holdfast.sources.postgresql.decode import Decoder, ValueTooLargeError
from holdfast.sources.postgresql.session import connect, setting_statements
from holdfast.sources.postgresql.snapshot import QUEUE_WAIT_S, enter_snapshot, queued_behind
from holdfast.sources.postgresql.sql import literal, qualified

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection, Cursor

    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.catalog import Table
    from holdfast.sources.postgresql.snapshot import Snapshot

PIECE_BYTES = 64 << 20
"""How much of a table, with its TOAST, one piece reads at most."""

BATCH_BYTES = 8 << 20
"""How much the driver collects before it hands over a batch."""

_LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True)
class Piece:
    """Heap pages `first` up to `end` of a table; the last piece has no end, a whole table neither bound."""

    table: Table
    number: int
    first: int | None
    end: int | None
    weight: int

    def condition(self) -> str:
        """Return the WHERE clause, or nothing for a whole table."""
        bounds = [f"ctid >= '({self.first},0)'::tid"] if self.first else []
        bounds += [f"ctid < '({self.end},0)'::tid"] if self.end is not None else []
        return f" where {' and '.join(bounds)}" if bounds else ""


def cut(table: Table, piece_bytes: int = PIECE_BYTES) -> tuple[Piece, ...]:
    """Cut a table into pieces of about `piece_bytes`, of a heap page at least."""
    wanted = min(-(-table.size // piece_bytes), table.pages)
    if table.access_method != "heap" or wanted <= 1:
        return (Piece(table, 0, None, None, table.size),)
    step = -(-table.pages // wanted)
    starts = range(0, table.pages, step)
    return tuple(
        Piece(
            table,
            number,
            start,
            start + step if start + step < table.pages else None,
            table.size // len(starts),
        )
        for number, start in enumerate(starts)
    )


@contextmanager
def open_reader(address: Address, snapshot: Snapshot, tables: Sequence[Table]) -> Iterator[Reader]:
    """Open a session that reads in the snapshot, with the tables locked.

    :raises BusyError: somebody waits to change one of them, and does not give way in QUEUE_WAIT_S.
    """
    with connect(address) as session:
        version = session.info.server_version
    connection = _open(address)
    try:
        with connection.cursor() as cursor:
            for statement in [
                *setting_statements(version),
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
                f"SET TRANSACTION SNAPSHOT {literal(snapshot.name)}",
            ]:
                cursor.execute(statement)
            _make_sure(cursor, snapshot)
            cursor.execute(f"SET lock_timeout = {int(QUEUE_WAIT_S * 1000)}")
            for table in tables:
                cursor.execute(f"LOCK TABLE ONLY {qualified(table.table_schema, table.name)} IN ACCESS SHARE MODE")
            cursor.execute("SET lock_timeout = 0")
        yield Reader(connection, address, snapshot)
    except AdbcError as error:
        if error.sqlstate == _LOCK_NOT_AVAILABLE:
            raise queued_behind(address) from error
        raise _read_error(address, error) from error
    finally:
        connection.close()


class Reader:
    """A session inside the snapshot."""

    def __init__(self, connection: Connection, address: Address, snapshot: Snapshot) -> None:
        self._connection = connection
        self._address = address
        self._snapshot = snapshot

    def batches(self, piece: Piece, decoder: Decoder) -> Iterator[pa.RecordBatch]:
        """Yield a piece's rows as they go into Parquet.

        :raises ValueTooLargeError: naming table, column and row.
        """
        table = piece.table
        query = f"select {decoder.select_list()} from only {qualified(table.table_schema, table.name)}"
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
            cursor.execute(query + piece.condition())
            seen = 0
            for batch in cursor.fetch_record_batch():
                rows = batch.num_rows
                try:
                    decoded = decoder.decode(batch)
                except ValueTooLargeError as error:
                    row = self._row_name(piece, seen + error.row)
                    raise error.of(table.label, row) from error
                # Large values would be held twice while the next batch is read.
                del batch
                yield decoded
                del decoded
                seen += rows

    def _row_name(self, piece: Piece, number: int) -> str:
        """Say which row of a piece it is, as a ctid that psql takes."""
        table = qualified(piece.table.table_schema, piece.table.name)
        query = f"select ctid::text from only {table}{piece.condition()} offset {number} limit 1"
        with connect(self._address) as session:
            enter_snapshot(session, self._snapshot)
            found = session.execute(query.encode()).fetchone()
            session.execute("ROLLBACK")
        return f"row with ctid = '{found[0]}'" if found else f"row {number}"


def _open(address: Address) -> Connection:
    try:
        connection: Connection = adbc_driver_postgresql.dbapi.connect(address.conninfo(), autocommit=False)
    except AdbcError as error:
        raise _read_error(address, error) from error
    return connection


def _make_sure(cursor: Cursor, snapshot: Snapshot) -> None:
    cursor.execute("select pg_catalog.pg_current_snapshot()::text")
    seen = cursor.fetchone()
    if seen is None or seen[0] != snapshot.marker:
        raise HoldfastError(f"a session reads in snapshot {seen}, not in {snapshot.marker}: is a pooler in between?")


def _read_error(address: Address, error: AdbcError) -> HoldfastError:
    """One sentence for what the driver says; its message may not repeat the connection's password."""
    said = " ".join(str(error).split())
    if address.password:
        said = said.replace(address.password, "***")
    return HoldfastError(f"reading from {address.url} failed: {said[:600]}")
