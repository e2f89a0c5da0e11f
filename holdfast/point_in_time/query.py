"""SQL on the tables of a recovery target, without a restore.

DuckDB reads the files of the archive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from holdfast.archive.format.document import iso
from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.merge_on_read import TableView, explain
from holdfast.archive.scan.projection import name_of, quoted, sql_type
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.point_in_time.dropped_tables import with_last_moment
from holdfast.point_in_time.recovery_target import catalog_of, catalog_reader, history_of, parts_of
from holdfast.sources.postgresql.values.type_mapping import Form, form_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.history.timeline import Moment
    from holdfast.sources.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore

ROWS: Final = 2048
"""In a batch of the result."""

_NAMED: Final = 20
_READS: Final = frozenset({"SELECT", "EXPLAIN"})
_WORD: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+")
_WRONG: Final = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


@dataclass(frozen=True, slots=True)
class _Named:
    """A table under the name it has here.

    DuckDB takes names that differ by case alone for the same.
    """

    table: Table
    schema: str
    name: str

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


def _unused(name: str, taken: set[str]) -> str:
    while name.casefold() in taken:
        name += "_"
    taken.add(name.casefold())
    return name


def _name_all(tables: Sequence[Table]) -> list[_Named]:
    taken: dict[str, set[str]] = {}
    found = []
    for table in tables:
        names = taken.setdefault(table.table_schema.casefold(), set())
        found.append(_Named(table, table.table_schema, _unused(table.name, names)))
    return found


def _words(sql: str) -> set[str]:
    """Return all words of a statement that may be names.

    DuckDB's own `get_table_names` fails where a join says `using`, since the tables are not there yet.
    """
    found = (word[1:-1].replace('""', '"') if word[0] == '"' else word for word in _WORD.findall(sql))
    return {word.casefold() for word in found}


class Query:
    """One statement on the tables of a source at a recovery target.

    Each table is a view `schema.table`. Where no other schema has a table of its name, the name alone will do. Only
    tables that the statement names are looked at.

    :param memory_bytes: DuckDB's limit; a few row groups of each file being read come on top.
    :param spill: an existing empty folder, for what does not fit into memory and for net changes.
    :param notes: in words, what of the tables used is not as it is in the database.
    :raises UsageError: it is not one statement that reads, or wrong.
    """

    def __init__(self, store: ObjectStore, moment: Moment, sql: str, *, memory_bytes: int, spill: Path) -> None:
        self._store = store
        self._moment = moment
        self._text = sql
        self._memory = memory_bytes
        self._spill = spill
        self._catalog = catalog_of(store, moment)
        self._parts, self._unfit = parts_of(store, moment, self._catalog)
        self._tables = _name_all(self._catalog.tables)
        self._views: dict[int, str] = {}
        self._files: list[FileRecord] = []
        self.notes: list[str] = [moment.approximate] if moment.approximate else []

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Run the statement and yield its result.

        The first batch is yielded also where it has no rows.

        :raises DamagedError: a file of the archive is not what was written.
        """
        with open_engine(self._memory, self._spill) as connection:
            try:
                self._prepare(connection)
                yield from _first_at_least(connection.sql(self._text).to_arrow_reader(ROWS))
            except (duckdb.Error, OSError) as error:
                raise self._explained(error) from error

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        statements = connection.extract_statements(self._text)
        if len(statements) != 1 or statements[0].type.name not in _READS:
            raise UsageError("a query is one statement that reads, such as: select count(*) from shop.orders")
        named = _words(self._text)
        used = [each for each in self._tables if each.name.casefold() in named]
        for schema in {each.schema for each in used or self._tables}:
            connection.execute(f"create schema if not exists {quoted(schema)}")
        for each in used:
            self._create(connection, each)
        for each in () if used else self._tables:
            connection.execute(f"create view {each.sql} as {_unread(each.table, 'no query names it')}")
        bare = [each.name.casefold() for each in self._tables]
        for each in used or self._tables:
            if bare.count(each.name.casefold()) == 1 and each.schema.casefold() != "main":
                connection.execute(f"create view main.{quoted(each.name)} as from {each.sql}")

    def _create(self, connection: duckdb.DuckDBPyConnection, named: _Named) -> None:
        """Create the view of a table.

        Of a partitioned one, those of its partitions are created, too.
        """
        table = named.table
        if table.oid in self._views:
            return
        self._views[table.oid] = named.sql
        if table.kind == "p":
            leaves = [each for each in self._tables if table.oid in each.table.parents]
            for leaf in leaves:
                connection.execute(f"create schema if not exists {quoted(leaf.schema)}")
                self._create(connection, leaf)
            body = " union all by name ".join(f"from {leaf.sql}" for leaf in leaves)
            connection.execute(f"create view {named.sql} as {body or _unread(table, '') + ' limit 0'}")
            return
        connection.execute(f"create view {named.sql} as {self._body(connection, table)}")

    def _body(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        parts = self._parts.get(str(table.oid))
        if parts is None:
            unfit = self._unfit.get(str(table.oid))
            return _unread(table, unfit.why_unfit if unfit else "its rows are in no backup of that moment")
        if parts.stale:
            self.notes.append(f"{table.label} is shown as of {iso(parts.as_of)}: {parts.stale}")
        self._note_columns(table)
        history = history_of(parts, table)
        self._files += history.base
        folder = self._spill / str(table.oid)
        folder.mkdir()
        view = TableView(connection, self._store, history, name=str(table.oid), memory_bytes=self._memory, spill=folder)
        taken: set[str] = set()
        names = [f"{name_of(field)} as {quoted(_unused(field.name, taken))}" for field in history.wanted]
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

    def _explained(self, error: Exception) -> Exception:
        said = " ".join(str(error).split("\n\n", 1)[0].split())
        if isinstance(error, _WRONG):
            known = [each.table.label for each in self._tables]
            more = f"; tables here are {', '.join(known[:_NAMED])}{' …' if known[_NAMED:] else ''}"
            if "does not exist" in said and "Table" in said:
                words, read, wrong = _words(self._text), catalog_reader(self._store), UsageError(said + more)
                return with_last_moment(
                    read, self._moment, self._catalog, wrong, lambda label: label.split(".")[-1].casefold() in words
                )
            return UsageError(said)
        found = explain(error, self._store, self._files)
        if found is not error:
            return found
        if isinstance(error, duckdb.OutOfMemoryException):
            return HoldfastError(f"the query needs more memory than --memory allows: {said}")
        return UsageError(said) if isinstance(error, duckdb.Error) else error


def _first_at_least(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a result.

    DuckDB gives none where there are no rows: the columns are then told by an empty one.
    """
    first = next(reader, None)
    yield pa.RecordBatch.from_pylist([], schema=reader.schema) if first is None else first
    yield from reader


def _unread(table: Table, why: str) -> str:
    """Return a query that fails where it is read.

    It has the table's columns.
    """
    taken: set[str] = set()
    fields = schema_of([column for column in table.columns if not column.generated])
    columns = [f"null::{sql_type(field.type)} as {quoted(_unused(field.name, taken))}" for field in fields]
    text = f"{table.label} cannot be read: {why}".replace("'", "''")
    return f"select {', '.join(columns)} where error('{text}')::boolean"
