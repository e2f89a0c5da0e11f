"""Readers of tables in a held snapshot, in pieces that many sessions share.

A piece is a range of a table's heap pages (a TID range scan, PostgreSQL 14 and later), the last one
open-ended; tables without a heap are read whole.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.common.errors import HoldfastError
from holdfast.sources.postgresql.connection.arrow_session import ArrowSession, SessionError
from holdfast.sources.postgresql.connection.session import SETTINGS_QUERY, connect
from holdfast.sources.postgresql.connection.sql import literal, qualified
from holdfast.sources.postgresql.snapshot.export import enter_snapshot
from holdfast.sources.postgresql.snapshot.snapshot import QUEUE_WAIT_S, queued_behind
from holdfast.sources.postgresql.values.arrow import numbers
from holdfast.sources.postgresql.values.decode import Decoder, UnkeepableValueError
from holdfast.sources.postgresql.values.hashing import ContentHash, digests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.sources.postgresql.catalog.table import Table
    from holdfast.sources.postgresql.connection.address import Address
    from holdfast.sources.postgresql.snapshot.export import Snapshot

PIECE_BYTES = 64 << 20
"""How much of a table, with its TOAST, one piece reads at most."""

_PAGES_AT_ONCE = 16
"""Pages whose rows come together, column by column: some thousand rows, and 32 MB if all is compressed by 255."""

_NO_PAGE = 0xFFFFFFFF
"""Is past the number of every page."""

_BLOCK_BYTES = 8192

_LEAST_PAGES = 4 * _PAGES_AT_ONCE
"""Of fewer pages, the longer query takes more time to plan than its answer saves."""

_READING = """
select pg_catalog.set_config(name, value, false) from (values
    ('max_parallel_workers_per_gather', '0'), ('jit', 'off'), ('enable_tidscan', 'on'), ('enable_memoize', 'off')
) s(name, value)
"""
"""Settings of a reader: rows of pieces come in order of the pieces; pages are read once, and not kept."""

_BY_COLUMNS = """
select pg_catalog.getdatabaseencoding() = 'UTF8' and not exists (
    select from pg_catalog.pg_constraint where conrelid = {oid} and contype = 'n' and not convalidated)
"""
"""Since PostgreSQL 18 a column may be NOT NULL, but not in the rows that were there before."""

_LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True)
class Piece:
    """Range of a table's heap pages, from `first` up to `end`.

    The last piece has no end. A whole table has neither bound.
    """

    table: Table
    number: int
    first: int | None
    end: int | None
    weight: int

    def condition(self) -> str:
        """Return the WHERE clause, or nothing for a whole table."""
        bounds = [self.table.kept_rows] if self.table.kept_rows else []
        bounds += [f"ctid >= '({self.first},0)'::tid"] if self.first else []
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


class RowsOfPiece(NamedTuple):
    """Some rows of one of several pieces that are read together.

    :param place: of the piece among them.
    """

    place: int
    rows: pa.RecordBatch
    digest: ContentHash


@contextmanager
def open_reader(address: Address, snapshot: Snapshot, tables: Sequence[Table]) -> Iterator[SnapshotTableReader]:
    """Open a session that reads in the snapshot, with the tables locked.

    :raises BusyError: somebody waits to change one of them, and does not give way in QUEUE_WAIT_S.
    """
    with ArrowSession(address) as session:
        session.value(SETTINGS_QUERY)
        session.execute(_READING)
        reader = SnapshotTableReader(session, address, snapshot)
        reader.take(tables)
        yield reader


class SnapshotTableReader:
    """Session that reads tables inside a snapshot."""

    def __init__(self, session: ArrowSession, address: Address, snapshot: Snapshot) -> None:
        self._session = session
        self._address = address
        self._snapshot = snapshot

    def take(self, tables: Sequence[Table]) -> None:
        """Lock these tables and release those locked before.

        A server has room for some thousand locks.

        :raises BusyError: somebody waits to change one of them, and does not give way in QUEUE_WAIT_S.
        """
        session = self._session
        session.execute("ROLLBACK")
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute(f"SET TRANSACTION SNAPSHOT {literal(self._snapshot.name)}")
        _make_sure(session, self._snapshot)
        if not tables:
            return
        names = ", ".join(f"ONLY {qualified(table.table_schema, table.name)}" for table in tables)
        session.execute(f"SET LOCAL lock_timeout = {int(QUEUE_WAIT_S * 1000)}")
        try:
            session.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE")
        except SessionError as error:
            if error.sqlstate == _LOCK_NOT_AVAILABLE:
                raise queued_behind(self._address) from error
            raise
        session.execute("SET LOCAL lock_timeout = 0")

    def parts(self, pieces: Sequence[Piece], decoder: Decoder) -> Iterator[RowsOfPiece]:
        """Yield the rows of several pieces, as they go into Parquet.

        Tables of the pieces have the same columns. The rows come in order of the pieces.

        All are read by one query, since to the server and to us each costs as much as thousands of rows.

        :param decoder: of the columns of each.
        :raises UnkeepableValueError: naming table, column and row.
        """
        if len(pieces) == 1:
            for rows in self.batches(pieces[0], decoder):
                yield RowsOfPiece(0, rows, decoder.digest(rows))
            return
        try:
            yield from self._together(pieces, decoder)
        except UnkeepableValueError:
            for piece in pieces:
                for _ in self.batches(piece, decoder):
                    pass
            raise

    def batches(self, piece: Piece, decoder: Decoder) -> Iterator[pa.RecordBatch]:
        """Yield a piece's rows as they go into Parquet.

        :raises UnkeepableValueError: naming table, column and row.
        """
        seen = 0
        for batch in self._read(piece, decoder):
            rows = batch.num_rows
            try:
                decoded = decoder.decode(batch)
            except UnkeepableValueError as error:
                row = self._row_name(piece, seen + error.row)
                raise error.of(piece.table.label, row) from error
            # Large values would be held twice while the next batch is read.
            del batch
            yield decoded
            del decoded
            seen += rows

    def _read(self, piece: Piece, decoder: Decoder) -> Iterator[pa.RecordBatch]:
        """Yield a piece's rows as the decoder takes them."""
        if not self._comes_by_columns(piece, decoder):
            yield from self._session.batches(f"select {decoder.select_list()} {_rows_of(piece)}")
            return
        for batch in self._session.batches(_columns_of(piece, decoder)):
            yield decoder.columnar.rows(batch)
            del batch

    def _comes_by_columns(self, piece: Piece, decoder: Decoder) -> bool:
        """Return whether the server can send a piece's rows column by column.

        It holds those of some pages in its memory: not where values are stored outside of the pages, which may have a
        gigabyte each.
        """
        table = piece.table
        pages = table.pages if piece.end is None else piece.end
        return (
            table.access_method == "heap"
            and not table.kept_rows
            and pages - (piece.first or 0) >= _LEAST_PAGES
            and table.size <= table.pages * _BLOCK_BYTES
            and decoder.columnar.is_possible
            and self._session.value(_BY_COLUMNS.format(oid=table.oid))
        )

    def _together(self, pieces: Sequence[Piece], decoder: Decoder) -> Iterator[RowsOfPiece]:
        values = decoder.select_list()
        query = " union all ".join(
            f"select {place}::pg_catalog.int4, {values} {_rows_of(piece)}" for place, piece in enumerate(pieces)
        )
        last = 0
        for batch in self._session.batches(query):
            if not batch.num_rows:
                continue
            places = numbers(batch.column(0), np.int32)
            steps = np.diff(places, prepend=last)
            if steps.min() < 0:
                raise HoldfastError("rows of several tables came in another order than asked for")
            last = int(places[-1])
            rows = decoder.decode(pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:]))
            starts = np.flatnonzero(steps[1:]) + 1
            first = 0
            ends = [*starts.tolist(), len(places)]
            for end, digest in zip(ends, digests(decoder.columns, rows, starts), strict=True):
                yield RowsOfPiece(int(places[first]), rows.slice(first, end - first), digest)
                first = end

    def _row_name(self, piece: Piece, number: int) -> str:
        """Return the name of a piece's row, as a ctid that psql takes."""
        query = f"select ctid::text {_rows_of(piece)} offset {number} limit 1"
        with connect(self._address) as session:
            enter_snapshot(session, self._snapshot)
            found = session.execute(query.encode()).fetchone()
            session.execute("ROLLBACK")
        return f"row with ctid = '{found[0]}'" if found else f"row {number}"


def _rows_of(piece: Piece) -> str:
    return f"from only {qualified(piece.table.table_schema, piece.table.name)}{piece.condition()}"


def _columns_of(piece: Piece, decoder: Decoder) -> str:
    """Return the query of a piece's rows, column by column, some pages in each row of the answer."""
    table = piece.table
    end, bound = (table.pages, _NO_PAGE) if piece.end is None else (piece.end, piece.end)
    return (
        f"select answer.* from pg_catalog.generate_series({piece.first or 0}::pg_catalog.int8, {end - 1}, "
        f"{_PAGES_AT_ONCE}) as page(first), lateral (select {decoder.columnar.select_list()} "
        f"from only {qualified(table.table_schema, table.name)} as t "
        "where ctid >= pg_catalog.format('(%s,0)', page.first)::pg_catalog.tid and ctid < pg_catalog.format('(%s,0)', "
        f"case when page.first + {_PAGES_AT_ONCE} < {end} then page.first + {_PAGES_AT_ONCE} else {bound} end"
        ")::pg_catalog.tid) as answer"
    )


def _make_sure(session: ArrowSession, snapshot: Snapshot) -> None:
    seen = session.value("select pg_catalog.pg_current_snapshot()::text")
    if seen != snapshot.marker:
        raise HoldfastError(f"a session reads in snapshot {seen}, not in {snapshot.marker}: is a pooler in between?")
