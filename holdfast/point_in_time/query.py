"""SQL on the tables of a recovery target, without a restore: DuckDB reads the archive's files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from holdfast.archive.format.document import iso
from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.merge_on_read import TableView, explain
from holdfast.archive.scan.projection import name_of, sql_type
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.point_in_time.dropped_tables import with_last_moment
from holdfast.point_in_time.engine_names import EngineNames
from holdfast.point_in_time.target_contents import catalog_of, catalog_reader, history_of, parts_of
from holdfast.postgresql.values.stored_columns import Form, form_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore

ROWS: Final = 2048
"""In a batch of the result."""

_NAMED: Final = 20
_READS: Final = frozenset({"SELECT", "EXPLAIN"})
_WRONG: Final = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


class Query:
    """One statement on the tables of a source at a recovery target.

    Each table is a view `schema.table`. Where no other schema has a table of its name, the name alone will do. Names
    mean what they mean in PostgreSQL. Only tables that the statement names are looked at.

    :param memory_bytes: DuckDB's limit; a few row groups of each file being read come on top.
    :param spill: an existing empty folder, for what does not fit into memory and for net changes.
    :param notes: in words, what of the tables used is not as it is in the database.
    :raises UsageError: it is not one statement that reads, or wrong.
    """

    def __init__(self, store: ObjectStore, target: RecoveryTarget, sql: str, *, memory_bytes: int, spill: Path) -> None:
        self._store = store
        self._moment = target
        self._text = sql
        self._memory = memory_bytes
        self._spill = spill
        self._catalog = catalog_of(store, target)
        self._parts, self._unfit = parts_of(catalog_reader(store), target, self._catalog)
        self._tables = self._catalog.tables
        self._names = EngineNames(sql, self._tables)
        self._views: set[int] = set()
        self._files: list[FileRecord] = []
        self.notes: list[str] = [target.approximate] if target.approximate else []

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Run the statement and yield its result, at least one batch, which may be empty."""
        with open_engine(self._memory, self._spill) as connection:
            try:
                self._prepare(connection)
                for batch in _first_at_least(connection.sql(self._names.statement()).to_arrow_reader(ROWS)):
                    yield self._names.shown_batch(batch)
            except (duckdb.Error, OSError) as error:
                raise self._explained(error) from error

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        statements = connection.extract_statements(self._text)
        if len(statements) != 1 or statements[0].type.name not in _READS:
            raise UsageError("a query is one statement that reads, such as: select count(*) from shop.orders")
        used = [table for table in self._tables if table.name in self._names.written]
        for schema in {table.table_schema for table in used or self._tables}:
            connection.execute(f"create schema if not exists {self._names.sql_of(schema)}")
        for table in used:
            self._create(connection, table)
        for table in () if used else self._tables:
            connection.execute(f"create view {self._sql_of(table)} as {self._unread(table, 'no query names it')}")
        bare = Counter(table.name for table in self._tables)
        for table in used or self._tables:
            if bare[table.name] == 1 and table.table_schema != "main":
                name = self._names.sql_of(table.name)
                connection.execute(f"create view main.{name} as from {self._sql_of(table)}")

    def _sql_of(self, table: Table) -> str:
        return f"{self._names.sql_of(table.table_schema)}.{self._names.sql_of(table.name)}"

    def _create(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        if table.oid in self._views:
            return
        self._views.add(table.oid)
        if table.kind == "p":
            leaves = [each for each in self._tables if table.oid in each.parents]
            for leaf in leaves:
                connection.execute(f"create schema if not exists {self._names.sql_of(leaf.table_schema)}")
                self._create(connection, leaf)
            body = " union all by name ".join(f"from {self._sql_of(leaf)}" for leaf in leaves)
            body = body or self._unread(table, "") + " limit 0"
        else:
            body = self._body(connection, table)
        connection.execute(f"create view {self._sql_of(table)} as {body}")

    def _body(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        parts = self._parts.get(str(table.oid))
        if parts is None:
            unfit = self._unfit.get(str(table.oid))
            return self._unread(table, unfit.why_unfit if unfit else "its rows are in no backup of that moment")
        if parts.stale:
            self.notes.append(f"{table.label} is shown as of {iso(parts.as_of)}: {parts.stale}")
        self._note_columns(table)
        history = history_of(parts, table)
        self._files += history.base
        folder = self._spill / str(table.oid)
        folder.mkdir()
        unlike = f"{self._names.mark}{table.oid}"  # no table of the source is called so
        view = TableView(connection, self._store, history, name=unlike, memory_bytes=self._memory, spill=folder)
        names = [f"{name_of(field)} as {self._names.sql_of(field.name)}" for field in history.wanted]
        return f"select {', '.join(names)} from ({view.rows()})"

    def _note_columns(self, table: Table) -> None:
        generated = [column.name for column in table.columns if column.generated]
        if generated:
            self.notes.append(f"{table.label}: generated columns are left out: {', '.join(generated)}")
        text = [
            f"{column.name} ({column.type})"
            for column in table.columns
            if not column.generated and form_of(column)[0] is Form.OUTPUT
        ]
        if text:
            self.notes.append(f"{table.label}: as the text that PostgreSQL writes: {', '.join(text)}")

    def _unread(self, table: Table, why: str) -> str:
        """Return a query with the table's columns that fails where it is read."""
        fields = schema_of([column for column in table.columns if not column.generated])
        columns = [f"null::{sql_type(field.type)} as {self._names.sql_of(field.name)}" for field in fields]
        text = f"{table.label} cannot be read: {why}".replace("'", "''")
        return f"select {', '.join(columns)} where error('{text}')::boolean"

    def _explained(self, error: Exception) -> Exception:
        said = self._names.shown(" ".join(str(error).split("\n\n", 1)[0].split()))
        if isinstance(error, _WRONG):
            labels = [table.label for table in self._tables]
            hint = self._names.hint()
            more = f"{hint}; tables here are {', '.join(labels[:_NAMED])}{' …' if labels[_NAMED:] else ''}"
            if "does not exist" in said and "Table" in said:
                wrong = UsageError(said.split(" Did you mean ")[0] + more)  # DuckDB suggests what is ours, too
                names, read = self._names.written, catalog_reader(self._store)
                return with_last_moment(
                    read, self._moment, self._catalog, wrong, lambda label: label.split(".")[-1] in names
                )
            return UsageError(said + hint)
        explained = explain(error, self._store, self._files)
        if explained is not error:
            return explained
        if isinstance(error, duckdb.OutOfMemoryException):
            return HoldfastError(f"the query needs more memory than --memory allows: {said}")
        return UsageError(said) if isinstance(error, duckdb.Error) else error


def _first_at_least(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield a result's batches; DuckDB gives none without rows, then an empty one has the columns."""
    first = next(reader, None)
    yield pa.RecordBatch.from_pylist([], schema=reader.schema) if first is None else first
    yield from reader
