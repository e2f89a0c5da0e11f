"""Readers of tables in a held snapshot, in pieces that many sessions share.

A table is read by a plain COPY, which plans nothing (`owners_code`). Queries are for tables of which no code of their
owners' would run: large ones, of which a piece is a range of heap pages (a TID range scan, PostgreSQL 14 and later),
the last one open-ended; and those with stored generated columns, which COPY does not give.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import psycopg

from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS
from holdfast.postgresql.connection.copy_out import BATCH_BYTES, copy_out, named_errors
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.connection.value_settings import KeptSettings
from holdfast.postgresql.snapshot.export import enter_snapshot
from holdfast.postgresql.snapshot.snapshot import queue_wait, queued_behind
from holdfast.postgresql.values.content_hash import ContentHash, digests
from holdfast.postgresql.values.copy_decoder import CopyDecoder, from_binary
from holdfast.postgresql.values.decode import Decoder, UnkeepableValueError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.snapshot.export import Snapshot

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
    ('max_parallel_workers_per_gather', '0'), ('jit', 'off'), ('enable_tidscan', 'on'), ('enable_memoize', 'off'),
    ('synchronize_seqscans', 'off'), ('constraint_exclusion', 'off')
) s(name, value)
"""
"""Settings of a reader: rows come in the order of the pages, which are read once and not kept; CHECKs are not looked
at."""

_BY_COLUMNS = """
select pg_catalog.getdatabaseencoding() operator(pg_catalog.=) 'UTF8' and not exists (
    select from pg_catalog.pg_constraint
    where conrelid operator(pg_catalog.=) {oid} and contype operator(pg_catalog.=) 'n' and not convalidated)
"""
"""Since PostgreSQL 18 a column may be NOT NULL, but not in the rows that were there before."""


@dataclass(frozen=True)
class Piece:
    """Part of a table that is read at once: the whole, or some of its heap's pages, from `first` up to `end`.

    The last piece has no end. A whole table has neither bound.

    :param by_query: it is read by a query, which the server plans.
    """

    table: Table
    number: int
    first: int | None
    end: int | None
    weight: int
    by_query: bool = False

    def condition(self) -> str:
        """Return the WHERE clause, or nothing for a whole table."""
        bounds = [self.table.kept_rows] if self.table.kept_rows else []
        bounds += [f"ctid operator(pg_catalog.>=) '({self.first},0)'::pg_catalog.tid"] if self.first else []
        bounds += [f"ctid operator(pg_catalog.<) '({self.end},0)'::pg_catalog.tid"] if self.end is not None else []
        return f" where {' and '.join(bounds)}" if bounds else ""


def cut(table: Table, piece_bytes: int = PIECE_BYTES, *, queries: bool = False) -> tuple[Piece, ...]:
    """Cut a table into pieces of about `piece_bytes`, of a heap page at least.

    :param queries: nothing of its owner's would run if queries of it were planned: it stays whole without, and COPY
        refuses a stored generated column.
    """
    queries = queries or table.oid == LARGE_OBJECTS
    wanted = min(-(-table.size // piece_bytes), table.pages)
    if not queries or table.access_method != "heap" or wanted <= 1:
        by_query = queries and (bool(table.kept_rows) or table.has_stored)
        return (Piece(table, 0, None, None, table.size, by_query),)
    step = -(-table.pages // wanted)
    starts = range(0, table.pages, step)
    return tuple(
        Piece(
            table,
            number,
            start,
            start + step if start + step < table.pages else None,
            table.size // len(starts),
            by_query=True,
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
    :raises RefusedError: its settings are others at the end.
    """
    with connect(address) as session:
        with named_errors(session, address):
            session.execute(_READING.encode())
        reader = SnapshotTableReader(session, address, snapshot)
        reader.take(tables)
        yield reader
        reader.check()


class SnapshotTableReader:
    """Session that reads tables inside a snapshot."""

    def __init__(self, session: Connection, address: Address, snapshot: Snapshot) -> None:
        self._session = session
        self._address = address
        self._snapshot = snapshot
        self._settings: KeptSettings | None = None

    def take(self, tables: Sequence[Table]) -> None:
        """Lock these tables and release those locked before.

        A server has room for some thousand locks.

        :raises BusyError: somebody waits to change one of them, and does not give way in QUEUE_WAIT_S.
        :raises RefusedError: the session's settings are others than when it took the last ones.
        """
        self.check()
        session = self._session
        with named_errors(session, self._address):
            session.execute("ROLLBACK")
            enter_snapshot(session, self._snapshot)
            self._settings = KeptSettings(session)
            if not tables:
                return
            names = ", ".join(f"ONLY {_name(table)}" for table in tables)
            wait = queue_wait(self._snapshot)
            session.execute(f"SET LOCAL lock_timeout = {int(wait * 1000)}".encode())
            try:
                session.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())
            except psycopg.errors.LockNotAvailable as error:
                raise queued_behind(self._address, wait) from error
            session.execute("SET LOCAL lock_timeout = 0")

    def check(self) -> None:
        """Refuse what was read under settings that have changed since.

        :raises RefusedError: they are.
        """
        if self._settings is not None and not self._session.closed:  # a COPY that was given up has closed it
            with named_errors(self._session, self._address):
                self._settings.check()

    def parts(self, pieces: Sequence[Piece], decoder: Decoder) -> Iterator[RowsOfPiece]:
        """Yield the rows of several pieces, as they go into Parquet.

        Tables of the pieces have the same columns. The rows come in order of the pieces.

        Whole tables are asked for by one request and decoded together, since to us each costs as much as thousands of
        rows.

        :param decoder: of the columns of each.
        :raises UnkeepableValueError: naming table, column and row.
        """
        if len(pieces) == 1 or any(piece.by_query for piece in pieces):
            for place, piece in enumerate(pieces):
                for rows in self.batches(piece, decoder):
                    yield RowsOfPiece(place, rows, decoder.digest(rows))
            return
        yield from self._together(pieces, decoder)

    def batches(self, piece: Piece, decoder: Decoder) -> Iterator[pa.RecordBatch]:
        """Yield a piece's rows as they go into Parquet.

        :raises UnkeepableValueError: naming table, column and row.
        """
        seen = 0
        copied = CopyDecoder(decoder)
        by_columns = piece.by_query and self._comes_by_columns(piece, decoder)
        for octets, sizes in self._sent(piece, decoder, copied, by_columns=by_columns):
            count = len(sizes)
            try:
                if by_columns:
                    rows = decoder.columnar.rows(decoder.columnar.answers(octets, sizes))
                    count = rows.num_rows
                    decoded = decoder.decode(rows)
                    del rows
                elif piece.by_query:
                    decoded = decoder.decode(from_binary(decoder.stored, octets, sizes))
                else:
                    decoded = copied.decode(octets, sizes)
            except UnkeepableValueError as error:
                raise error.of(piece.table.label, self._row_name(piece, seen + error.row)) from error
            del octets  # or large values would be held while the next ones are read
            yield decoded
            del decoded
            seen += count

    def _sent(
        self, piece: Piece, decoder: Decoder, copied: CopyDecoder, *, by_columns: bool
    ) -> Iterator[tuple[bytes, list[int]]]:
        if not piece.by_query:
            statement = copied.statement(_name(piece.table))
        else:
            query = _columns_of(piece, decoder) if by_columns else f"select {decoder.select_list()} {_rows_of(piece)}"
            statement = f"COPY ({query}) TO STDOUT (FORMAT binary)"
        for _, octets, sizes in copy_out(self._session, self._address, [statement]):
            yield octets, sizes
            del octets

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
            and self._session.execute(_BY_COLUMNS.format(oid=table.oid).encode()).fetchone() == (True,)
        )

    def _together(self, pieces: Sequence[Piece], decoder: Decoder) -> Iterator[RowsOfPiece]:
        copied = CopyDecoder(decoder)
        statements = [copied.statement(_name(piece.table)) for piece in pieces]
        parts: list[bytes] = []
        counts: dict[int, list[int]] = {}
        seen = [0] * len(pieces)
        for place, octets, sizes in copy_out(self._session, self._address, statements):
            parts.append(octets)
            counts.setdefault(place, []).extend(sizes)
            if sum(map(len, parts)) > BATCH_BYTES:
                yield from _decoded(pieces, decoder, copied, parts, counts, seen)
                parts, counts = [], {}
        if counts:
            yield from _decoded(pieces, decoder, copied, parts, counts, seen)

    def _row_name(self, piece: Piece, number: int) -> str:
        """Return the name of a piece's row: as a ctid that psql takes, where a query may be planned."""
        if not piece.by_query:
            return _copied_row(number)
        query = f"select ctid::pg_catalog.text {_rows_of(piece)} offset {number} limit 1"
        with connect(self._address) as session:
            enter_snapshot(session, self._snapshot)
            session.execute(_READING.encode())
            found = session.execute(query.encode()).fetchone()
            session.execute("ROLLBACK")
        return f"row with ctid = '{found[0]}'" if found else f"row {number + 1}"


def _decoded(
    pieces: Sequence[Piece],
    decoder: Decoder,
    copied: CopyDecoder,
    parts: Sequence[bytes],
    sizes: Mapping[int, Sequence[int]],
    seen: list[int],
) -> Iterator[RowsOfPiece]:
    """Yield the rows of several pieces.

    :param sizes: of the rows of each piece, by its place, in order.
    :param seen: counts the rows of each piece.
    """
    counts = [len(some) for some in sizes.values()]
    ends = np.cumsum(counts)
    try:
        rows = copied.decode(b"".join(parts), [size for some in sizes.values() for size in some])
    except UnkeepableValueError as error:
        which = int(np.searchsorted(ends, error.row, side="right"))
        place = list(sizes)[which]
        row = seen[place] + error.row - int(ends[which] - counts[which])
        raise error.of(pieces[place].table.label, _copied_row(row)) from error
    found = digests(decoder.columns, rows, ends[:-1])
    for place, count, end, digest in zip(sizes, counts, ends.tolist(), found, strict=True):
        yield RowsOfPiece(place, rows.slice(end - count, count), digest)
        seen[place] += count


def _copied_row(number: int) -> str:
    return f"row {number + 1} of those that COPY gives"


def _name(table: Table) -> str:
    return qualified(table.table_schema, table.name)


def _rows_of(piece: Piece) -> str:
    return f"from only {_name(piece.table)}{piece.condition()}"


def _columns_of(piece: Piece, decoder: Decoder) -> str:
    """Return the query of a piece's rows, column by column, some pages in each row of the answer."""
    table = piece.table
    end, bound = (table.pages, _NO_PAGE) if piece.end is None else (piece.end, piece.end)
    least, less, plus = (f"operator(pg_catalog.{each})" for each in (">=", "<", "+"))
    return (
        f"select answer.* from pg_catalog.generate_series({piece.first or 0}::pg_catalog.int8, {end - 1}, "
        f"{_PAGES_AT_ONCE}) as page(first), lateral (select {decoder.columnar.select_list()} "
        f"from only {_name(table)} as t where ctid {least} pg_catalog.format('(%s,0)', page.first)::pg_catalog.tid "
        f"and ctid {less} pg_catalog.format('(%s,0)', case when page.first {plus} {_PAGES_AT_ONCE} {less} {end} "
        f"then page.first {plus} {_PAGES_AT_ONCE} else {bound} end)::pg_catalog.tid) as answer"
    )
