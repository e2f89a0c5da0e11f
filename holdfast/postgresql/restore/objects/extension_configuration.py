"""Configuration rows of extensions, in place of the rows that the extensions made in a target."""

from __future__ import annotations

import json
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.postgresql.catalog.extension_rows import column_list, read_rows, table_name
from holdfast.postgresql.connection.session import is_refusal
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.restore.plan.ledger import note_result, once, read_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.postgresql.catalog.extension_rows import Configuration
    from holdfast.postgresql.connection.session import Connection

    _Key = tuple[str, str, str]

_STEP: Final = "configuration"

# What tells the user's rows from the extension's is the target's own condition: it may have another version.
_HERE = """
select e.extname::text, n.nspname::text, c.relname::text, coalesce(k.condition, ''), c.oid::regclass::text,
  array(select f.confrelid::regclass::text from pg_catalog.pg_constraint f where f.conrelid = c.oid and f.contype = 'f'
    and f.confrelid <> c.oid)
from pg_catalog.pg_extension e cross join lateral unnest(e.extconfig, e.extcondition) k (oid, condition)
join pg_catalog.pg_class c on c.oid = k.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r'
"""


def restore_configuration(session: Connection, tables: Sequence[Configuration]) -> dict[str, str]:
    """Put configuration rows back, once: all together, or else table by table what can be.

    :return: by their labels, why some are not as they were.
    """
    if not tables:
        return {}
    with once(session, _STEP) as is_new:
        if is_new:
            note_result(session, _STEP, json.dumps(_restore(session, tables)))
    left: dict[str, str] = json.loads(read_steps(session)[_STEP])
    return left


def _restore(session: Connection, tables: Sequence[Configuration]) -> dict[str, str]:
    conditions, names, needs = {}, {}, {}
    for extension, schema, table, condition, name, referred in session.execute(_HERE).fetchall():
        conditions[extension, schema, table] = condition
        names[name] = extension, schema, table
        needs[extension, schema, table] = referred
    left = {
        table.label: "no extension of the target keeps any there" for table in tables if table.key not in conditions
    }
    there = _ordered([table for table in tables if table.key in conditions], names, needs)
    if _refused(session, there, conditions):
        for each in there:
            if why := _refused(session, [each], conditions):
                left[each.label] = why
    for each in there:
        if each.label not in left and read_rows(session, each, conditions[each.key]) != each.rows:
            left[each.label] = "the extension has made others of them as they came"
    return left


def _ordered(
    tables: Sequence[Configuration], names: Mapping[str, _Key], needs: Mapping[_Key, Sequence[str]]
) -> list[Configuration]:
    """Return tables behind those that they refer to, where there is such an order."""
    known = {table.key: table for table in tables}
    graph = {key: [names[each] for each in needs[key] if names.get(each) in known] for key in known}
    try:
        return [known[key] for key in TopologicalSorter(graph).static_order()]
    except CycleError:
        return list(tables)


def _refused(session: Connection, tables: Sequence[Configuration], conditions: Mapping[_Key, str]) -> str:
    """Replace the rows of tables, or none of them; return why that is refused."""
    try:
        with session.transaction():
            for each in reversed(tables):
                session.execute(f"delete from only {table_name(each)} {conditions[each.key]}".encode())
            for each in tables:
                with session.cursor().copy(
                    f"copy {table_name(each)} ({column_list(each)}) from stdin".encode()
                ) as copy:
                    copy.write("".join(f"{row}\n" for row in each.rows).encode())
    except psycopg.Error as error:
        if not is_refusal(session, error):
            raise
        return words(error)
    return ""
