"""A table of a backup at a recovery target, as Arrow batches: for DuckDB, Spark and other readers of Arrow.

orders = table_at("s3://backups/shop", "public.orders", at="2026-03-01T12:00:00Z")
duckdb.sql("select count(*), sum(price) from orders")
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.archive import Archive, locks
from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import only_source
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.common.errors import RefusedError, UsageError
from holdfast.common.lsn import show_position
from holdfast.point_in_time.dropped_tables import with_last_moment
from holdfast.point_in_time.schema_choice import parse_schema, resolve
from holdfast.point_in_time.target_contents import catalog_of, catalog_reader, history_of, parts_of
from holdfast.postgresql.values.stored_columns import schema_of
from holdfast.replication.work.consistent_read import open_to_read, parse_consistency
from holdfast.storage import open_store
from locking import Owner
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.common.choices import Schema
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table

MEMORY_BYTES = 256 << 20
"""DuckDB's, for joining a snapshot with its changes; what is more goes to a temporary folder."""

LOCK_WAIT_S = 60.0

_LOG = line_logger(__name__)


@dataclass(frozen=True)
class ArchivedTable:
    """Table at a recovery target, with all that a process needs to read it.

    :param label: `schema.name`.
    :param position: what of the source's log is in it.
    :param schema: of its rows; types without a form of their own in Parquet are text, generated columns left out.
    :param parts: ids of what holds its rows: itself, or its partitions.
    :param taken: which schema, where it is in doubt.
    """

    url: str
    source: str
    label: str
    position: str
    schema: pa.Schema
    parts: tuple[str, ...]
    taken: Schema = "auto"

    def batches(self, part: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part, under the locks of a reader, in bounded memory.

        :raises LockBusy: vacuum is at work.
        :raises DamagedError: a file is not what was written.
        :raises RefusedError: its rows are only known in a form that it had before.
        """
        store = open_store(self.url)
        with (
            locks.acquire(store, "query", owner=Owner(), purpose=f"reading {self.label}", wait=LOCK_WAIT_S) as held,
            TemporaryDirectory(prefix="holdfast-table-", ignore_cleanup_errors=True) as spill,
        ):
            moment = resolve(
                Archive.open(store, before_damage=True).state, store, self.source, f"lsn:{self.position}", self.taken
            )
            catalog = catalog_of(store, moment)
            table = next(each for each in catalog.tables if str(each.oid) == part)
            fit, unfit = parts_of(catalog_reader(store), moment, catalog)
            if part in unfit:
                raise RefusedError(f"{table.label} cannot be read: {unfit[part].why_unfit}")
            if (found := fit.get(part)) is None:
                return
            if found.stale:
                _LOG.warning("%s is read as of %s: %s", table.label, iso(found.as_of), found.stale)
            history = history_of(found, table)
            for batch in as_of(store, history, memory_bytes=MEMORY_BYTES, spill=Path(spill)):
                yield batch.select(self.schema.names).cast(self.schema)
            held.check()


def find_table(
    url: str,
    table: str,
    *,
    at: str = "latest",
    source: str | None = None,
    schema: Schema = "auto",
    consistency: str = "eventual",
    coordination: str | None = None,
) -> ArchivedTable:
    """Find a table of a backup at a recovery target.

    :param table: `schema.name`, or the name alone where no other schema has it.
    :param at: as for a restore.
    :param source: needed where the archive holds several.
    :param schema: `earlier` or `later`, where it was changed between two backups, and it is not known when; `auto` for
        the one that serves best.
    :param consistency: of a replica: `sequential` for what has succeeded and nothing else, or `eventual` for what it
        has. It decides which moments there are; the rows of one never change.
    :param coordination: address of the coordination store; None for what HOLDFAST_STORE says.
    :raises UsageError: there is no such table, or several; or no such schema or consistency.
    :raises RefusedError: that moment cannot be restored.
    :raises BusyError: the replica lacks something that has succeeded.
    """
    store = open_store(url)
    schema = parse_schema(schema)
    state = open_to_read(store, parse_consistency(consistency), address=coordination).state
    moment = resolve(state, store, only_source(state, source, at), at, schema)
    catalog = catalog_of(store, moment)
    try:
        found = _named(catalog, table)
    except UsageError as error:
        read = catalog_reader(store)
        raise with_last_moment(read, moment, catalog, error, lambda label: f".{label}".endswith(f".{table}")) from error
    form = schema_of([column for column in found.columns if not column.generated])
    parts = tuple(str(each.oid) for each in _with_rows(catalog, found))
    return ArchivedTable(
        url, moment.source, found.label, show_position(moment.position), pa.schema(map(_plain, form)), parts, schema
    )


def table_at(
    url: str,
    table: str,
    *,
    at: str = "latest",
    source: str | None = None,
    schema: Schema = "auto",
    consistency: str = "eventual",
    coordination: str | None = None,
) -> pa.RecordBatchReader:
    """Return a table's rows at a recovery target, to be read once.

    `find_table` documents parameters and errors. A reader's locks are held from the first batch to the last.
    """
    found = find_table(
        url, table, at=at, source=source, schema=schema, consistency=consistency, coordination=coordination
    )
    return pa.RecordBatchReader.from_batches(
        found.schema, (batch for part in found.parts for batch in found.batches(part))
    )


def _plain(field: pa.Field) -> pa.Field:
    return pa.field(field.name, field.type)


def _named(catalog: Catalog, name: str) -> Table:
    found = [table for table in catalog.tables if name in (table.label, table.name)]
    exact = [table for table in found if table.label == name] or found
    if len(exact) == 1:
        return exact[0]
    several = ", ".join(table.label for table in exact)
    raise UsageError(f"{name} names {f'several tables: {several}' if exact else 'no table of that moment'}")


def _with_rows(catalog: Catalog, table: Table) -> Iterator[Table]:
    if table.kind != "p":
        yield table
        return
    for each in catalog.tables:
        if table.oid in each.parents:
            yield from _with_rows(catalog, each)


__all__ = ["ArchivedTable", "find_table", "table_at"]
