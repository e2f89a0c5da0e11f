"""Migrations of real applications, replayed: a mark before and after each, and what the database was at each mark."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from holdfast.operations.marks import set_mark
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.following.followed import Followed

_numbers = itertools.count(1)

_TABLES = """
select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
  and relname not in ('alembic_version', 'django_migrations') order by c.oid
"""
"""But those in which tools of migration keep what they have done."""

_COLUMNS = """
select a.attname::text, t.typname::text, t.typcategory::text, a.atttypmod, a.attnotnull,
  (select min(enumlabel)::text from pg_enum e where e.enumtypid = t.oid)
from pg_attribute a join pg_type t on t.oid = a.atttypid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped and a.attidentity = '' and a.attgenerated = ''
  and coalesce(pg_get_expr(d.adbin, d.adrelid) !~ '^nextval', true)
order by a.attnum
"""

_REFERENCES = """
select a.attname::text, quote_ident(f.attname), c.confrelid::regclass::text
from pg_constraint c cross join lateral unnest(c.conkey, c.confkey) k(own, other)
join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
join pg_attribute f on f.attrelid = c.confrelid and f.attnum = k.other
where c.contype = 'f' and c.conrelid = %s::regclass
"""

_SEQUENCES = (
    "select schemaname, sequencename, last_value from pg_sequences where schemaname !~ '^holdfast' order by 1, 2"
)

_VALUES: Mapping[str, object] = {
    **dict.fromkeys(("numeric", "float4", "float8"), 1),
    **dict.fromkeys(("json", "jsonb"), '{"title": "a page"}'),  # Wagtail's own migrations look for that
    **dict.fromkeys(("timestamp", "timestamptz", "date"), "2026-01-01"),
    "bool": True,
    "bytea": b"x",
    "inet": "127.0.0.1",
    "interval": "1 day",
}

_CASTS = re.compile(r"::(character varying|text)(\[\])?|[()]")
"""PostgreSQL writes an array of constants otherwise once it has read what it wrote."""


@dataclass(frozen=True)
class State:
    """What a database is at a moment."""

    schema: Sequence[str]
    rows: Mapping[str, str]
    sequences: Sequence[tuple[Any, ...]]


def state_of(address: Address) -> State:
    """Return what a database is, but for what is ours in it."""
    lines = [line for line in schema_of(address, "--no-publications", "--exclude-schema=holdfast_log")
             if "holdfast_" not in line]  # fmt: skip
    with connect(address) as session:
        sequences = session.execute(_SEQUENCES).fetchall()
    return State([_CASTS.sub("", line) for line in lines], hashes(address), sequences)


def replay(
    followed: Followed, migrations: Sequence[tuple[str, Callable[[Address], None]]], *, empty: Collection[str] = ()
) -> dict[str, State]:
    """Run migrations, with rows of an application before each; return what the database was at each mark.

    Behind each comes a backup, then the mark after it, then another one: as `protect` does it.

    :param empty: tables that no row is inserted into, since a migration understands none that is made up.
    """
    states: dict[str, State] = {}
    (_, begin), *others = migrations
    begin(followed.address)
    fill(followed.address, empty)
    followed.back_up()
    for name, migrate in others:
        fill(followed.address, empty)
        states |= _marked(followed, f"before {name}")
        migrate(followed.address)
        assert not followed.back_up()["waiting"]
        states |= _marked(followed, f"after {name}")
        followed.back_up()
    return states


def _marked(followed: Followed, name: str) -> dict[str, State]:
    done = set_mark(followed.archive(), [followed.store], followed.address, "shop", name)
    assert done.why_unknown == ""
    return {name: state_of(followed.address)}


def fill(address: Address, empty: Collection[str] = ()) -> int:
    """Insert a row into every table that takes one made of its columns' types; return how many did."""
    with connect(address) as session:
        waiting = [table for (table,) in session.execute(_TABLES).fetchall() if table not in empty]
        before = len(waiting)
        for _ in range(3):  # what refers to others needs these first
            waiting = [table for table in waiting if not _insert(session, table)]
        return before - len(waiting)


def _insert(session: psycopg.Connection[Any], table: str) -> bool:
    values = dict(_row(session, table))
    names = ", ".join(f'"{name}"' for name in values)
    places = ", ".join(["%s"] * len(values))
    row = f"({names}) values ({places})" if values else "default values"
    try:
        session.execute(f"insert into {table} {row}".encode(), list(values.values()))
    except psycopg.Error:
        return False
    return True


def _row(session: psycopg.Connection[Any], table: str) -> Iterator[tuple[str, object]]:
    references = {own: rest for own, *rest in session.execute(_REFERENCES, (table,))}
    number = next(_numbers)
    for name, kind, category, limit, needed, label in session.execute(_COLUMNS, (table,)).fetchall():
        if name in references:
            other, parent = references[name]
            row = session.execute(f"select {other} from {parent} order by 1 desc limit 1".encode()).fetchone()
            value = row[0] if row else None
        else:
            value = label or _value(kind, category, limit, number)
        if value is not None or needed:
            yield name, value


def _value(kind: str, category: str, limit: int, number: int) -> object:
    if kind in ("int2", "int4", "int8"):
        return number
    if kind == "uuid":
        return f"00000000-0000-0000-0000-{number:012d}"
    if category == "A":
        return "{}"
    if category == "S":
        return f"v{number}"[-(limit - 4) :] if limit > 4 else f"v{number}"
    return _VALUES.get(kind)
