"""Streams of changes of a real server: a slot and a publication of a test's own, and what its rows come to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa

from holdfast.common.field_ids import LSN, OP, SEQ, UNCHANGED
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.window_reader import ChangeBatch, Window, WindowRequest, read_window

_numbers = itertools.count(1)
_OURS = {LSN: "lsn", SEQ: "seq", OP: "op", UNCHANGED: "unchanged"}


@dataclass(frozen=True)
class Change:
    """A row of a change file; `values` by the columns' numbers, sidecars left out."""

    lsn: int
    seq: int
    op: str
    unchanged: tuple[int, ...]
    values: dict[int, Any]


class Stream:
    """A slot and a publication of the same name."""

    def __init__(self, address: Address, session: psycopg.Connection[Any], name: str) -> None:
        self.address = address
        self.session = session
        self.name = name
        self.before = self.catalog()

    def catalog(self) -> Catalog:
        return read_catalog(self.session, read_tables(self.session))

    def oid(self, table: str) -> int:
        row = self.session.execute("select %s::regclass::oid::int8", (table,)).fetchone()
        assert row is not None
        return int(row[0])

    def position(self) -> str:
        """Return the end of the log, all of it written."""
        self.session.execute("create table if not exists public.flushed (); drop table public.flushed")
        row = self.session.execute("select pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])

    def request(self, upto: str = "", **given: Any) -> WindowRequest:
        after = self.catalog()
        followed = {table.oid for catalog in (self.before, after) for table in catalog.tables}
        return WindowRequest(
            **{
                "slot": self.name,
                "publication": self.name,
                "start": None,
                "upto": upto or self.position(),
                "most_changes": None,
                "followed": frozenset(followed),
                "before": self.before,
                "after": after,
                "max_value_bytes": 1 << 28,
                **given,
            }
        )

    def read(self, upto: str = "", **given: Any) -> tuple[list[ChangeBatch], Window]:
        """Return all that is read of a window; the slot stays where it is."""
        request = self.request(upto, **given)
        with ArrowSession(self.address) as session:
            reader = read_window(session, self.address, request)
            batches = list(reader)
            for batch in batches:
                batch.rows.validate(full=True)
            return batches, reader.end

    def changes(self, table: str, **given: Any) -> list[Change]:
        """Return a table's changes."""
        batches, _ = self.read(**given)
        return changes_of(batches, self.oid(table))


@contextmanager
def open_stream(address: Address, tables: str) -> Iterator[Stream]:
    """Make a slot and a publication for tables, which are dropped in the end.

    :param tables: with commas, as they stand in FOR TABLE.
    """
    name = f"stream_{next(_numbers)}"
    with connect(address) as session:
        session.execute(f"create publication {name} for table {tables}".encode())
        session.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
        try:
            yield Stream(address, session, name)
        finally:
            session.execute("select pg_drop_replication_slot(%s)", (name,))


def changes_of(batches: list[ChangeBatch], oid: int) -> list[Change]:
    """Return the rows of a table's batches."""
    return [change for batch in batches if batch.form.oid == oid for change in _changes(batch.rows)]


def _changes(rows: pa.RecordBatch) -> Iterator[Change]:
    numbers = [int(field.metadata[b"PARQUET:field_id"]) for field in rows.schema]
    for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        row = dict(zip(numbers, values, strict=True))
        ours = {name: row.pop(number) for number, name in _OURS.items()}
        kept = {number: value for number, value in row.items() if number < 100_000}
        yield Change(ours["lsn"], ours["seq"], ours["op"], tuple(ours["unchanged"] or ()), kept)


def replayed(changes: list[Change], key: tuple[int, ...], rows: list[dict[int, Any]]) -> list[dict[int, Any]]:
    """Return what rows become by changes, by the plainest reading of what these mean.

    :param rows: by the columns' numbers.
    """
    now = [dict(row) for row in rows]
    removed: dict[int, Any] = {}
    for change in changes:
        found = next((row for row in now if change.op in "UD" and _is(row, change, key)), None)
        if change.op == "T":
            now = []
        elif change.op == "I":
            now.append({**change.values, **{each: removed[each] for each in change.unchanged}})
        else:
            assert found is not None, change
            now.remove(found)
            removed = found
            if change.op == "U":
                now.append({**change.values, **{each: found[each] for each in change.unchanged}})
    return now


def _is(row: dict[int, Any], change: Change, key: tuple[int, ...]) -> bool:
    return all(row[number] == change.values[number] for number in key or row)
