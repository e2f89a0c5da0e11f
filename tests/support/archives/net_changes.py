"""Net changes of tables as restores have them, and what applying them makes of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from holdfast.common.field_ids import field_id, number_of
from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.restore.rows.apply import Applied, apply_net
from holdfast.postgresql.values.decode import Decoder
from tests.support.databases.tables import Tables

_OP = pa.field("__op", pa.string())
_UNCHANGED = pa.field("__unchanged", pa.list_(pa.int32()))
_COUNT = pa.field("__count", pa.int64())


def rows(tables: Tables, table: str, where: str = "true") -> pa.RecordBatch:
    """Return rows of a table as a file of changes keeps them: without generated columns."""
    decoder = Decoder([column for column in tables.columns(table) if not column.generated])
    found = tables.read_by_query(f"{table} where {where} order by 1" if decoder.columns else table, decoder)
    batches = pa.Table.from_batches(found, decoder.schema).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=decoder.schema)


def keyed(found: pa.RecordBatch, op: str, unchanged: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return changes of one kind; columns that did not change hold nothing."""
    return _changes(found, op, unchanged or (), unchanged)


def deleted(found: pa.RecordBatch, key: Sequence[int]) -> pa.RecordBatch:
    """Return deletions, of which only the key is there."""
    return _changes(found, "D", {number_of(field_id(field)) for field in found.schema}.difference(key), None)


def _changes(found: pa.RecordBatch, op: str, blank: Collection[int], unchanged: Sequence[int] | None) -> pa.RecordBatch:
    count = found.num_rows
    arrays = [
        pa.nulls(count, field.type) if number_of(field_id(field)) in blank else array
        for field, array in zip(found.schema, found.columns, strict=True)
    ]
    arrays += [pa.array([op] * count, _OP.type), pa.array([unchanged] * count, _UNCHANGED.type)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*found.schema, _OP, _UNCHANGED]))


def copies(found: pa.RecordBatch, op: str, *counts: int) -> pa.RecordBatch:
    """Return changes of a table without a key."""
    arrays = [*found.columns, pa.array([op] * found.num_rows, _OP.type), pa.array(counts, _COUNT.type)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*found.schema, _OP, _COUNT]))


def nothing(tables: Tables, table: str) -> pa.RecordBatch:
    """Return a row that has no values, as it stands for a table that was emptied."""
    return pa.RecordBatch.from_pylist([{}], schema=rows(tables, table, "false").schema)


def record(tables: Tables, name: str) -> Table:
    """Return the catalog's record of a table, given by its quoted and qualified name."""
    return next(each for each in read_tables(tables.session) if f"{each.table_schema}.{ident(each.name)}" == name)


def apply(tables: Tables, table: str, key: tuple[int, ...], *batches: pa.RecordBatch) -> Applied:
    """Apply changes and compare what the table has with what is foretold."""
    base = tables.hash(table, tables.columns(table))
    with tables.session.transaction():
        done = apply_net(tables.session, record(tables, table), key, batches)
    assert done.after(base) == tables.hash(table, tables.columns(table))
    left = "select count(*) from pg_class where relname = 'holdfast_changes'"
    assert tables.session.execute(left).fetchone() == (0,)
    return done


def texts(tables: Tables, table: str) -> list[str]:
    """Return all rows as text, sorted."""
    return sorted(str(row[0]) for row in tables.session.execute(f"select t::text from only {table} t".encode()))
