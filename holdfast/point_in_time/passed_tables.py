"""Tables that were made and dropped between two backups, put together of what the log has of them.

No catalog has them, and no dump. The log announces a table's name, its columns and its key with its changes. Only
partitions are published without a backup in between, and one has the columns of its partitioned table. What else it had
(its bound, indexes and conditions of its own) is not known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.archive.format.document import TableRecord
from holdfast.archive.history.recovery_target import TableParts
from holdfast.common.lsn import PG_CLASS, parse_position
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import UNKNOWN_BOUND, Table
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.dump.sql_tokens import tokens
from holdfast.postgresql.restore.plan.name_maps import fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.postgresql.catalog.catalog import Catalog


def with_passed(target: RecoveryTarget, catalog: Catalog) -> Catalog:
    """Return the objects of a recovery target with the tables that neither of two backups has.

    One with changes of several forms is left out, and one with types or in a schema that the target lacks.

    :param catalog: of the schema that is taken.
    """
    if not target.passed:
        return catalog
    records = _records(target)
    taken = {table.label for table in catalog.tables} | {
        f"{each.sequence_schema}.{each.name}" for each in catalog.sequences
    }
    tables = {table.oid: table for table in catalog.tables}
    restored: list[Table] = []
    for passed in sorted(target.passed, key=lambda each: not each.is_certain):
        table = _table(tables, records.get(passed.record.oid, ()))
        if table is None or table.oid in tables:
            continue
        if table.label in taken:  # another table has that name in the schema that is taken
            table = table.model_copy(update={"name": fitted(table.name, f"_{table.oid}")})
        taken.add(table.label)
        restored.append(table)
    return catalog.model_copy(update={"tables": (*catalog.tables, *restored)}) if restored else catalog


def passed_parts(target: RecoveryTarget, tables: Iterable[Table]) -> Mapping[str, TableParts]:
    """Return the parts of such tables, by table id: all of their rows are in the changes."""
    passed = {each.record.oid for each in target.passed}
    restored = [table for table in tables if table.oid in passed and table.bound == UNKNOWN_BOUND]
    records = _records(target) if restored else {}
    return {
        str(table.oid): TableParts(
            base=TableRecord(
                id=str(table.oid), table_schema=table.table_schema, name=table.name, rows=0, digest="", files=()
            ),
            catalog=target.schema.block.catalog,
            since=0,
            begun=target.at,
            upto=target.position,
            as_of=target.at,
            changes=tuple(records[table.oid]),
        )
        for table in restored
    }


def passed_entries(tables: Iterable[Table], entries: Sequence[DumpEntry]) -> Sequence[DumpEntry]:
    """Return the entries of a dump with those that create such tables, as pg_dump creates partitions."""
    passed = [table for table in tables if table.bound == UNKNOWN_BOUND]
    if not passed:
        return entries
    by_oid = {entry.oid: entry for entry in entries if entry.class_oid == PG_CLASS and entry.kind == "TABLE"}
    schemas = {entry.name: entry.id for entry in entries if entry.kind == "SCHEMA"}
    number = max((entry.id for entry in entries), default=0)
    made: list[DumpEntry] = []
    for table in passed:
        parent = next((by_oid[each] for each in table.parents if each in by_oid), None)
        columns = (_columns(parent.sql) if parent else "") or _plain_columns(table)
        name = qualified(table.table_schema, table.name)
        owner = f"\n\n\nALTER TABLE {name} OWNER TO {ident(table.owner)};" if table.owner else ""
        needs = {
            *(parent.needs if parent else ()),
            *(schemas[each] for each in [table.table_schema] if each in schemas),
        }
        number += 1
        made.append(
            DumpEntry(
                id=number,
                section="pre-data",
                kind="TABLE",
                class_oid=PG_CLASS,
                oid=table.oid,
                schema=table.table_schema,
                name=table.name,
                needs=tuple(sorted(needs)),
                sql=f"CREATE TABLE {name} {columns};{owner}",
                settings=parent.settings if parent else "",
            )
        )
    before = [entry for entry in entries if entry.section == "pre-data"]
    return (*before, *made, *(entry for entry in entries if entry.section != "pre-data"))


def _columns(sql: str) -> str:
    """Return the columns and conditions of a CREATE TABLE, in their parentheses; "" for others."""
    text, depth = "", 0
    for token in tokens(sql):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth or text:
            text += token.text
        if text and not depth:
            return text
        if token.word == "OF":
            break
    return ""


def _plain_columns(table: Table) -> str:
    columns = (f"{ident(each.name)} {each.type}" for each in table.columns)
    return f"({', '.join(columns)})"


def _records(target: RecoveryTarget) -> Mapping[int, Sequence[TableRecord]]:
    """Return the changes of tables that the archive has all changes of, up to a recovery target.

    A run that was ended may have known a table that the next one does not, and have left its changes for a snapshot.
    """
    kept = {each.record.oid for each in target.passed if each.record.kept}
    found: dict[int, dict[int, TableRecord]] = {}
    left: set[str] = set()
    for placed in target.changes if kept else ():
        for record in placed.block.tables:
            oid = int(record.id)
            if oid in kept and parse_position(record.first or "") < target.position:
                if oid not in found and record.label in left:
                    kept.discard(oid)
                else:
                    found.setdefault(oid, {})[id(record)] = record  # as parts of one block tell the same
        stream = placed.head.stream
        left = set() if placed.head.is_cut or stream is None else left | stream.not_followed.keys()
    return {table: [*records.values()] for table, records in found.items()}


def _table(tables: Mapping[int, Table], records: Sequence[TableRecord]) -> Table | None:
    """Return a table by its changes; None where they do not say enough."""
    forms = {(repr(record.columns), record.key) for record in records}
    if len(forms) != 1:
        return None
    record = records[-1]
    columns = tuple(Column.from_dict(each) for each in record.columns)
    root = _root(tables, columns, record.key)
    types = {column.type for table in tables.values() for column in table.columns}
    is_known = all(each.base_schema == "pg_catalog" or each.type in types for each in columns)
    if not is_known or not any(record.table_schema == table.table_schema for table in tables.values()):
        return None
    names = {column.number: column.name for column in columns}
    return Table(
        oid=int(record.id),
        table_schema=record.table_schema,
        name=record.name,
        kind="r",
        persistence="p",
        replica_identity="d",
        access_method=root.access_method if root else None,
        parents=(root.oid,) if root else (),
        bound=UNKNOWN_BOUND,
        owner=root.owner if root else "",
        columns=_as_of_root(columns, root) if root else columns,
        key=tuple(names[number] for number in record.key),
        pages=0,
        size=0,
        estimated_rows=0,
    )


def _root(tables: Mapping[int, Table], columns: Sequence[Column], key: Sequence[int]) -> Table | None:
    """Return the only partitioned table that may have had a partition with such columns, or None."""
    wanted = {(column.name, column.type) for column in columns}
    alike = [
        table
        for table in tables.values()
        if table.kind == "p" and {(each.name, each.type) for each in table.columns if not each.generated} == wanted
    ]
    names = {column.number: column.name for column in columns}
    identity = {names[number] for number in key}
    tops = {_top(tables, table): table for table in alike}
    if len(tops) > 1:
        tops = {top: table for top, table in tops.items() if set(table.key) == identity}
    return tables[next(iter(tops))] if len(tops) == 1 else None


def _top(tables: Mapping[int, Table], table: Table) -> int:
    while table.bound is not None and (above := next(iter(table.parents), 0)) in tables:
        table = tables[above]
    return table.oid


def _as_of_root(columns: Sequence[Column], root: Table) -> tuple[Column, ...]:
    """Return a partition's columns, in the order of its root; generated ones are not in the log."""
    numbers = {column.name: column.number for column in columns}
    last = max(numbers.values(), default=0)
    return tuple(
        replace(column, number=numbers.get(column.name, last + place), missing=None)
        for place, column in enumerate(root.columns, 1)
    )
