"""Conditions that give way to rows of another moment: found by what a server says of them, dropped, and named.

Beside other things, only what the restore itself has made gives way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.sources.postgresql.ledger import LEDGER
from holdfast.sources.postgresql.plan import NotRestored
from holdfast.sources.postgresql.sql import ident

if TYPE_CHECKING:
    Connection = psycopg.Connection[tuple[Any, ...]]

_REASON = "rows of another moment break it"

_ABOVE = f"""
with recursive above (relation, height) as (
  select %(table)s::regclass::oid, 0
  union all select i.inhparent, height + 1 from above join pg_catalog.pg_inherits i on i.inhrelid = relation
), own (relation, height) as (
  select b.relation, b.height from above b join pg_catalog.pg_class p on p.oid = b.relation
  where not exists (select from {LEDGER}.created) or exists (
    select from above t join {LEDGER}.created n on n.class = 'pg_catalog.pg_class'::regclass and n.object = t.relation
    where t.relation = b.relation or (p.relispartition and t.height > b.height))
)
"""
"""A table with all that it inherits from: what is dropped there is dropped here, too.

The ledger does not name partitions of what was created: they go with it.
"""

_CHECK = f"""
{_ABOVE} select relation::regclass::text, pg_catalog.pg_get_constraintdef(c.oid)
from own join pg_catalog.pg_constraint c on c.conrelid = relation and c.conname = %(name)s and c.contype = 'c'
order by height desc limit 1
"""

_NOT_NULL = f"""
{_ABOVE} select relation::regclass::text, c.conname::text, pg_catalog.pg_get_constraintdef(c.oid)
from own join pg_catalog.pg_attribute a on a.attrelid = relation and a.attname = %(name)s and a.attnotnull
left join pg_catalog.pg_constraint c on c.conrelid = relation and c.contype = 'n' and c.conkey = array[a.attnum]
order by height desc limit 1
"""

_BOUND = f"""
{_ABOVE} select i.inhparent::regclass::text, relation::regclass::text, pg_catalog.pg_get_expr(c.relpartbound, c.oid)
from own join pg_catalog.pg_class c on c.oid = relation and c.relispartition
join pg_catalog.pg_inherits i on i.inhrelid = relation where height = 0
"""

_DETACHED = f"""
insert into {LEDGER}.created (class, object) select 'pg_catalog.pg_class'::regclass, %(table)s::regclass
where exists (select from {LEDGER}.created)
"""
"""Notes a partition that goes with nothing else any more, should the restore be undone."""

_OF_DOMAIN = f"""
with recursive below (domain, depth) as (
  select t.oid, 0 from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
    where n.nspname = %(schema)s and t.typname = %(domain)s
  union all select t.typbasetype, depth + 1 from below join pg_catalog.pg_type t on t.oid = domain and t.typtype = 'd'
)
select t.oid::regtype::text, pg_catalog.pg_get_constraintdef(c.oid)
from below join pg_catalog.pg_type t on t.oid = domain and t.typtype = 'd'
left join pg_catalog.pg_constraint c on c.contypid = t.oid and c.contype = 'c' and c.conname = %(name)s
where (case when %(is_check)s then c.oid is not null else t.typnotnull end) and (
  not exists (select from {LEDGER}.created)
  or ('pg_catalog.pg_type'::regclass::oid, t.oid) in (select class, object from {LEDGER}.created))
order by depth desc limit 1
"""
"""The server tells the domain of a column, and what is broken may be a condition of one that it is over."""


@dataclass(frozen=True)
class _Condition:
    """A condition that rows break.

    :param what: it is, for people.
    :param on: what it belongs to, as ALTER names it.
    :param drop: what ends it there; `add` begins it again.
    :param is_bound: it makes a partition of a table.
    """

    what: str
    on: str
    drop: str
    add: str
    is_bound: bool = False


def drop_condition(session: Connection, table: str, error: psycopg.IntegrityError) -> NotRestored | None:
    """Drop the condition that rows of a table break; None where it is none that gives way.

    :param table: as the server writes it.
    """
    condition = _broken(session, table, error)
    if condition is None:
        return None
    try:
        with session.transaction():
            session.execute(f"alter {condition.on} {condition.drop}".encode())
            if condition.is_bound:
                session.execute(_DETACHED, {"table": table})
    except psycopg.ProgrammingError:  # it is inherited from what gives no way
        return None
    return NotRestored(condition.what, _REASON, f"alter {condition.on} {condition.add};")


def _broken(session: Connection, table: str, error: psycopg.IntegrityError) -> _Condition | None:
    is_check = isinstance(error, psycopg.errors.CheckViolation)
    if not is_check and not isinstance(error, psycopg.errors.NotNullViolation):
        return None
    if error.diag.datatype_name:
        return _of_domain(session, error, is_check=is_check)
    if not is_check:
        return _not_null(session, table, error.diag.column_name)
    name = error.diag.constraint_name
    return _check(session, table, name) if name else _bound(session, table)


def _check(session: Connection, table: str, name: str) -> _Condition | None:
    row = session.execute(_CHECK, {"table": table, "name": name}).fetchone()
    return None if row is None else _constraint(f"CHECK {name} of {row[0]}", f"table {row[0]}", name, row[1])


def _not_null(session: Connection, table: str, name: str | None) -> _Condition | None:
    row = session.execute(_NOT_NULL, {"table": table, "name": name}).fetchone()
    if row is None or name is None:
        return None
    what, on, column = f"NOT NULL of {name} of {row[0]}", f"table {row[0]}", f"alter column {ident(name)}"
    if row[1] is not None:  # it has a name, from PostgreSQL 18 on
        return _constraint(what, on, row[1], row[2])
    return _Condition(what, on, f"{column} drop not null", f"{column} set not null")


def _bound(session: Connection, table: str) -> _Condition | None:
    """Return what makes a table a partition, whose rows need not be within a bound without that."""
    row = session.execute(_BOUND, {"table": table}).fetchone()
    if row is None:
        return None
    root, partition, bound = row
    what = f"partition {partition}"
    return _Condition(f"{what} of {root}", f"table {root}", f"detach {what}", f"attach {what} {bound}", is_bound=True)


def _of_domain(session: Connection, error: psycopg.IntegrityError, *, is_check: bool) -> _Condition | None:
    named = error.diag
    names = {"name": named.constraint_name, "schema": named.schema_name, "domain": named.datatype_name}
    domain, check = session.execute(_OF_DOMAIN, {**names, "is_check": is_check}).fetchone() or (None, None)
    if domain is None:
        return None
    on = f"domain {domain}"
    if not is_check:
        # Before PostgreSQL 17 a session goes on to check it for domains over this one, until any constraint is changed.
        noticed = f"alter {on} add constraint holdfast_restore check (true) not valid"
        drop = f"drop not null; {noticed}; alter {on} drop constraint holdfast_restore"
        return _Condition(f"NOT NULL of {on}", on, drop, "set not null")
    name = named.constraint_name
    return _constraint(f"CHECK {name} of {on}", on, name, check) if name and check else None


def _constraint(what: str, on: str, name: str, definition: str) -> _Condition:
    return _Condition(what, on, f"drop constraint {ident(name)}", f"add constraint {ident(name)} {definition}")
