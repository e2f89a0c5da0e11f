"""Search paths lent to functions that refuse rows without one.

A session of ours has none, as pg_restore's has none, so that no name means anything else than what it says. Functions
that conditions and generated columns ask may have been called under one that the application had set. It is set on the
function itself, for as long as the restore takes: what our own statements mean does not depend on it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.dump.dump_entries import TABLES
from holdfast.postgresql.dump.sql_tokens import solid, tokens
from holdfast.postgresql.restore.plan.ledger import (
    forget_step,
    note_left_out,
    note_result,
    note_step,
    once,
    read_left_out,
    read_steps,
)
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.rights.target_rights import has_words, owner_statements, settings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry


LENT = "search_path of "
"""Begins the notes of functions that have a path of ours."""

_GIVEN_BACK = "search_paths given back"

_ASKED = f"""
with recursive named (name) as (select * from pg_catalog.unnest(%s::text[])),
above (name, relation) as (
  select name, name::regclass::oid from named
  union select name, p.relid from named, pg_catalog.pg_partition_tree(name::regclass) p
  union select name, i.inhparent from above join pg_catalog.pg_inherits i on i.inhrelid = relation
), types (name, type) as (
  select name, a.atttypid from above join pg_catalog.pg_attribute a on a.attrelid = relation and not a.attisdropped
  union select name, t.typbasetype from types join pg_catalog.pg_type t on t.oid = type and t.typtype = 'd'
), asking (name, class, object) as (
  select name, 'pg_catalog.pg_attrdef'::regclass::oid, f.oid from above
    join pg_catalog.pg_attribute a on a.attrelid = relation and a.attgenerated <> ''
    join pg_catalog.pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
  union select name, 'pg_catalog.pg_constraint'::regclass::oid, c.oid from above
    join pg_catalog.pg_constraint c on c.conrelid = relation and c.contype = 'c'
  union select name, 'pg_catalog.pg_constraint'::regclass::oid, c.oid from types
    join pg_catalog.pg_constraint c on c.contypid = type and c.contype = 'c'
  union select name, 'pg_catalog.pg_class'::regclass::oid, relation from above
    join pg_catalog.pg_partitioned_table p on p.partrelid = relation and p.partexprs is not null
), asked (name, routine) as (
  select name, d.refobjid from asking join pg_catalog.pg_depend d on d.classid = class and d.objid = object
    and d.refclassid = 'pg_catalog.pg_proc'::regclass
  union select name, o.oprcode from asking join pg_catalog.pg_depend d on d.classid = class and d.objid = object
    and d.refclassid = 'pg_catalog.pg_operator'::regclass join pg_catalog.pg_operator o on o.oid = d.refobjid
)
select name, p.oid::regprocedure::text, n.nspname from asked
join pg_catalog.pg_proc p on p.oid = routine join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where n.nspname <> 'pg_catalog'
  and not exists (select from pg_catalog.unnest(p.proconfig) s where s like 'search_path=%%')
  and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_proc'::regclass
    and d.objid = p.oid and d.deptype = 'e')
  and (not exists (select from {LEDGER}.created)
    or ('pg_catalog.pg_proc'::regclass::oid, p.oid) in (select class, object from {LEDGER}.created))
"""
"""Functions of the restore's own that conditions, formulas and partition keys of tables ask.

Rows of some partitions come through a table above theirs, and meet what any of its partitions asks.
"""


_LENT = """
select p.oid::regprocedure::text, pg_catalog.substr(s, pg_catalog.length('search_path=') + 1)
from pg_catalog.pg_proc p, pg_catalog.unnest(p.proconfig) s where p.oid::regprocedure::text = any(%(noted)s)
  and s like 'search_path=%%' order by 1
"""

_WITH_PATH = """
select oid::regprocedure::text from pg_catalog.pg_proc p
where exists (select from pg_catalog.unnest(p.proconfig) s where s like 'search_path=%')
"""


def asked_by(session: Connection, tables: Collection[Table]) -> Mapping[int, Sequence[tuple[str, str]]]:
    """Return the functions without a search_path that rows meet, each with a path to try, by table oid."""
    called: dict[str, list[Table]] = {}
    for table in tables:
        called.setdefault(qualified(table.table_schema, table.name), []).append(table)
    found: dict[int, list[tuple[str, str]]] = {}
    for name, routine, schema in session.execute(_ASKED, (list(called),)).fetchall():
        for table in called[name]:
            found.setdefault(table.oid, []).append((routine, path_of(schema, table.table_schema)))
    return found


def path_of(schema: str, table_schema: str) -> str:
    """Return the search_path to try for a function that a table asks."""
    return ", ".join(map(ident, dict.fromkeys((schema, "public", table_schema))))


def lend_search_paths(session: Connection, functions: Collection[tuple[str, str]]) -> None:
    """Give functions a search_path until the restore has come to its end."""
    for routine, path in functions:
        with once(session, f"{LENT}{routine}") as is_new:
            if is_new:
                session.execute(f"alter function {routine} set search_path = {path}".encode())
                note_result(session, f"{LENT}{routine}", json.dumps(path))


def lend_by(session: Connection, altered: str, path: str) -> None:
    """Give a function without a search_path one, in the caller's transaction; `altered` begins that statement."""
    before = session.execute(_WITH_PATH).fetchall()
    session.execute(f"{altered} set search_path = {path}".encode())
    for row in session.execute(_WITH_PATH).fetchall():
        if row not in before and note_step(session, step := f"{LENT}{row[0]}"):
            note_result(session, step, json.dumps(path))


def take_back(session: Connection, routines: Collection[str]) -> None:
    """Reset the search_path that was lent to functions."""
    for routine in routines:
        with session.transaction():
            if forget_step(session, f"{LENT}{routine}"):
                session.execute(f"alter function {routine} reset search_path".encode())


def give_back(session: Connection) -> tuple[NotRestored, ...]:
    """Reset all search_paths that were lent, once, and report that functions need them."""
    with once(session, _GIVEN_BACK) as is_new:
        if is_new:
            steps = read_steps(session)
            noted = [step.removeprefix(LENT) for step in steps if step.startswith(LENT)]
            lent = session.execute(_LENT, {"noted": noted}).fetchall()
            note_left_out(session, _GIVEN_BACK, [_given_back(session, *each) for each in lent])
    return tuple(read_left_out(session, _GIVEN_BACK))


def _given_back(session: Connection, routine: str, path: str) -> NotRestored:
    session.execute(f"alter function {routine} reset search_path".encode())
    reason = (
        f"what conditions, generated columns or partition keys ask it could be answered only with search_path = {path}"
        ", which is no part of the backup: rows that come under another one may be refused"
    )
    again = f"alter function {routine} set search_path = {path};"
    return NotRestored(f"search_path of function {routine}", reason, again)


def lend_to_read(session: Connection, entry: DumpEntry, entries: Mapping[int, DumpEntry]) -> bool:
    """Lend a search_path to functions that a table's creation inlines; return whether there are some.

    It puts their text into a partition key or a generated column's formula, and finds nothing there without a path. One
    that has a setting of its own is left as it is. Source: inline_function() of PostgreSQL's optimizer.
    """
    functions = [each for each in _needed(entry, entries) if _is_read(each)] if entry.kind in TABLES else []
    for function in functions:
        for statement, _ in owner_statements(function.sql):
            altered = statement.rpartition(" OWNER TO ")[0]
            schema = solid(tokens(altered))[2].identifier
            lend_by(session, altered, path_of(schema, entry.schema))
    return bool(functions)


def _needed(entry: DumpEntry, entries: Mapping[int, DumpEntry]) -> Iterator[DumpEntry]:
    """Yield the entries that an entry needs, with those of its operators."""
    for need in entry.needs:
        if (needed := entries.get(need)) is not None:
            yield needed
            if needed.kind == "OPERATOR":
                yield from _needed(needed, entries)


def _is_read(entry: DumpEntry) -> bool:
    if entry.kind != "FUNCTION" or not has_words(entry.sql, "LANGUAGE", "SQL"):
        return False
    return not any(setting.split()[1] == "search_path" for setting in settings_of(entry.sql))
