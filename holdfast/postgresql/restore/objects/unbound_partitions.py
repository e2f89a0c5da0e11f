"""Partitions of unknown bounds, attached once their rows are there.

Their rows tell the least bound that they can have had. Partitions of one table never overlap, so with it each is beside
its neighbours as it was; what another one has taken meanwhile, the server refuses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.postgresql.catalog.table import UNKNOWN_BOUND
from holdfast.postgresql.connection.session import is_refusal, server_error
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.restore.plan.ledger import note_result, once, read_result
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.connection.parallel_sessions import Sessions
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.restore.plan.plan import PlannedTable, RestorePlan

_IN_NONE: Final = "it came and went between two backups, and is in none"

_HASHED: Final = "its rows do not tell which part of a hash it was"
_EMPTY: Final = "it has no rows here: it had none, or its changes are of rows from before it was attached"

# The lowest ones first: the rows of one below them break the bound of none above.
_PARTITIONED: Final = """
select t.relid::regclass::text, p.partstrat::text, pg_catalog.pg_get_partkeydef(t.relid), array(
  select pg_catalog.quote_ident(a.attname) from unnest(p.partattrs) with ordinality k (number, place)
  join pg_catalog.pg_attribute a on a.attrelid = t.relid and a.attnum = k.number and k.number > 0 order by k.place
), p.partnatts::int
from pg_catalog.pg_partition_tree(%s::regclass) t join pg_catalog.pg_partitioned_table p on p.partrelid = t.relid
order by t.level desc, 1
"""

# What follows a value, as near as its type has it; NULL behind the last one, and behind infinity and NaN.
_NEXT: Final = {
    "smallint": "nullif({0}, 32767) + 1",
    "integer": "nullif({0}, 2147483647) + 1",
    "bigint": "nullif({0}, 9223372036854775807) + 1",
    "date": "nullif({0} + 1, {0})",
    **dict.fromkeys(
        ("timestamp without time zone", "timestamp with time zone"),
        "nullif({0} + pg_catalog.interval '1 microsecond', {0})",
    ),
    "numeric": "{0} + pg_catalog.round(10.0 ^ (-pg_catalog.scale({0})), pg_catalog.scale({0}))",
    **dict.fromkeys(("text", "character varying"), "{0} || pg_catalog.chr(1)"),
}


def attach_unbound(sessions: Sessions, plan: RestorePlan) -> tuple[NotRestored, ...]:
    """Attach partitions of unknown bounds with the indexes of their roots; return what is not known."""
    roots = {table.source.oid: table.target for table in plan.tables}
    unbound = [
        (table, next((roots[parent] for parent in table.source.parents if parent in roots), None))
        for table in plan.tables
        if table.source.bound == UNKNOWN_BOUND
    ]
    names = [(table, qualified(root.table_schema, root.name) if root else "") for table, root in unbound]
    return tuple(sessions.run(names, _attach_once, at_once=1))


def _attach_once(session: Connection, pair: tuple[PlannedTable, str]) -> NotRestored:
    table, root = pair
    step = f"attach {table.source.oid}"
    try:
        with once(session, step) as is_new:
            if is_new:
                note_result(session, step, json.dumps(_attach(session, table, root).describe()))
            return NotRestored.from_dict(json.loads(read_result(session, step)))
    except psycopg.Error as error:
        raise server_error(f"{table.target.label} could not be attached", error) from error


def _attach(session: Connection, table: PlannedTable, root: str) -> NotRestored:
    """Attach a table where it fits, and return what is not known of it."""
    name = qualified(table.target.table_schema, table.target.name)
    is_empty = session.execute(f"select from {name} limit 1".encode()).fetchone() is None
    if not root:
        reason = f"{_IN_NONE}; nor is known what it was part of{f'; {_EMPTY}' if is_empty else ''}"
        return NotRestored(f"indexes and conditions of table {name}", reason)
    partitioned = [] if is_empty else session.execute(_PARTITIONED.encode(), (root,)).fetchall()
    refused = _EMPTY if is_empty else ""
    for above, strategy, definition, columns, count in partitioned:
        key = columns if len(columns) == count else [definition.partition(" (")[2].removesuffix(")")]
        try:
            with session.transaction():
                bound = _bound(session, name, strategy, key)
                if not bound:
                    refused = refused or _HASHED
                    continue
                session.execute(f"alter table {above} attach partition {name} {bound}".encode())
        except psycopg.Error as error:
            if not is_refusal(session, error):
                raise
            refused = refused or words(error)
            continue
        what = f"bound, indexes and conditions of its own of partition {name}"
        return NotRestored(what, f"{_IN_NONE}; as its rows tell, it is attached {bound}")
    reason = f"{_IN_NONE}, and is a table of its own here: {refused}"
    return NotRestored(f"attached partition {name}", reason, f"alter table {root} attach partition {name} …;")


def _bound(session: Connection, table: str, strategy: str, key: Sequence[str]) -> str:
    """Return the least bound of a table's rows; "" where they tell none.

    :param key: names of columns, or one expression.
    """
    if strategy == "h":
        return ""
    if strategy == "l":
        found = session.execute(f"select distinct pg_catalog.quote_nullable(({key[0]})::text) from {table}".encode())
        return f"for values in ({', '.join(sorted(value for (value,) in found))})"
    has_null = " or ".join(f"({each}) is null" for each in key)
    query = f"select pg_catalog.pg_typeof({key[-1]})::text, exists (select from {table} where {has_null})"
    ((kind, is_default),) = session.execute(f"{query} from {table} limit 1".encode())
    if is_default:  # no other range takes a NULL
        return "default"
    first = _edge(session, table, key, "asc", key)
    if kind not in _NEXT:
        return f"for values from ({first}) to ({', '.join(['maxvalue'] * len(key))})"
    last = [*key[:-1], _NEXT[kind].format(f"({key[-1]})")]
    return f"for values from ({first}) to ({_edge(session, table, key, 'desc', last)})"


def _edge(session: Connection, table: str, key: Sequence[str], order: str, shown: Sequence[str]) -> str:
    """Return values of a key's first or last row, as SQL writes them; NULL is above all."""
    values = ", ".join(f"coalesce(pg_catalog.quote_literal(({each})::text), 'maxvalue')" for each in shown)
    ordered = ", ".join(f"{each} {order}" for each in key)
    (row,) = session.execute(f"select {values} from {table} order by {ordered} limit 1".encode())
    return ", ".join(row)
