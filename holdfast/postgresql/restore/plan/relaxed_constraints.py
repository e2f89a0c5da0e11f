"""Relaxed constraints, by the server's errors: dropped for rows, reported, added again where possible.

Beside other things, only what the restore itself has made gives way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.session import refusal_of
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.postgresql.connection.session import Connection

OTHER_MOMENT = "rows of another moment break it"

NOT_VALID = "new rows are checked, but those that are there are not (NOT VALID): "
"""Begins the reason where a condition is there, but rows break it."""

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
"""A table with all that it inherits from: what is dropped there is dropped in it, too.

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

_BELONGING = "select coalesce(pg_catalog.pg_get_partition_constraintdef(%s::regclass), 'true')"
"""The condition by which a row belongs to a partition: it calls the functions of all keys above that."""

_DETACHED = f"""
insert into {LEDGER}.detached (relation) select %(table)s::regclass where exists (select from {LEDGER}.created)
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
"""The server names the domain of a column; what is broken may be a condition of one that it is over."""


_USES = """exists (select from pg_catalog.pg_depend d where d.classid = {catalog}::regclass and d.objid = {oid}
  and d.refclassid in ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass))"""
"""Test for functions or operators that are not PostgreSQL's own, which keeps no account of those."""

_ASKING = f"""
{_ABOVE} select c.conname::text from own join pg_catalog.pg_constraint c on c.conrelid = relation and c.contype = 'c'
where {_USES.format(catalog="'pg_catalog.pg_constraint'", oid="c.oid")} order by height desc, 1 limit 1
"""

_ASKING_DOMAIN = f"""
with recursive below (domain) as (
  select a.atttypid from pg_catalog.pg_attribute a where a.attrelid = %(table)s::regclass and not a.attisdropped
  union select t.typbasetype from below join pg_catalog.pg_type t on t.oid = domain and t.typtype = 'd'
)
select domain::regtype::text, c.conname::text, pg_catalog.pg_get_constraintdef(c.oid)
from below join pg_catalog.pg_constraint c on c.contypid = domain and c.contype = 'c'
where {_USES.format(catalog="'pg_catalog.pg_constraint'", oid="c.oid")} and (
  not exists (select from {LEDGER}.created)
  or ('pg_catalog.pg_type'::regclass::oid, domain) in (select class, object from {LEDGER}.created))
order by 1, 2 limit 1
"""

_FORMULAS = f"""
{_ABOVE} select a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
  pg_catalog.pg_get_expr(f.adbin, f.adrelid), relation::regclass::text
from own join pg_catalog.pg_attribute a on a.attrelid = relation and a.attgenerated = 's' and a.attinhcount = 0
join pg_catalog.pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
where a.attname <> all (%(kept)s)
  and {_USES.format(catalog="'pg_catalog.pg_attrdef'", oid="f.oid")} order by height desc, a.attnum limit 1
"""
"""A formula that a partition has from its root gives way there, for all others, whose rows keep their values."""


@dataclass(frozen=True)
class _Condition:
    """Condition that rows break, what it belongs to (as ALTER names it), and what ends it and begins it.

    :param name: of a constraint, quoted; "" for what is none.
    :param is_bound: it makes a partition of a table.
    """

    what: str
    on: str
    drop: str
    add: str
    name: str = ""
    is_bound: bool = False


@dataclass(frozen=True)
class RelaxedConstraint:
    """Condition or formula that was dropped so that a table takes its rows.

    :param not_valid: the statement that adds it for new rows only; `validate` then checks the others; or "".
    :param column: whose formula it is; "" for a condition.
    """

    not_restored: NotRestored
    not_valid: str = ""
    validate: str = ""
    column: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the values for another process."""
        more = {"not_valid": self.not_valid, "validate": self.validate, "column": self.column}
        return {**self.not_restored.describe(), **more}

    @classmethod
    def from_dict(cls, described: Mapping[str, str]) -> RelaxedConstraint:
        """Return the object that `to_dict` described; an earlier release did not record all of it."""
        more = (described.get(name, "") for name in ("not_valid", "validate", "column"))
        return cls(NotRestored.from_dict(described), *more)


def drop_condition(
    session: Connection, table: str, rows: str, error: psycopg.Error, reason: str = ""
) -> RelaxedConstraint | None:
    """Drop the condition that a table's rows break; None if none gives way.

    Where a server does not say which one it is, since a function of one failed, the bound of a partition goes if it is
    what fails, or else the first condition that asks functions.

    :param table, rows: the table, and the one that the rows are in, as the server writes them.
    :param reason: why it gives way, or else what the server says.
    """
    condition = _broken(session, table, error)
    if condition is None:
        is_bound = failure_of_bound(session, table, rows) is not None
        condition = _bound(session, table) if is_bound else _asking(session, table)
    return None if condition is None else _drop(session, table, condition, reason or words(error))


def failure_of_bound(session: Connection, table: str, rows: str) -> psycopg.Error | None:
    """Return the error of a key's function that keeps rows of a table from a partition, or None."""
    (belonging,) = session.execute(_BELONGING, (table,)).fetchone() or ("true",)
    return refusal_of(session, f"select count(*) from {rows} where {belonging}")


def detach(session: Connection, table: str, error: psycopg.Error) -> RelaxedConstraint | None:
    """Detach a partition from its table; None where it is none, or was there before."""
    condition = _bound(session, table)
    return None if condition is None else _drop(session, table, condition, words(error))


def _drop(session: Connection, table: str, condition: _Condition, reason: str) -> RelaxedConstraint | None:
    try:
        with session.transaction():
            session.execute(f"alter {condition.on} {condition.drop}".encode())
            if condition.is_bound:
                session.execute(_DETACHED, {"table": table})
    except psycopg.ProgrammingError:  # it is inherited from what gives no way
        return None
    added = f"alter {condition.on} {condition.add}"
    return RelaxedConstraint(
        NotRestored(condition.what, reason, f"{added};"),
        f"{added} not valid;" if condition.name else "",
        f"alter {condition.on} validate constraint {condition.name};" if condition.name else "",
    )


def drop_expression(
    session: Connection, table: str, kept: Sequence[str], error: psycopg.Error
) -> RelaxedConstraint | None:
    """Drop the expression of a stored generated column, if its functions may fail, or return None.

    :param kept: names of columns that are ordinary already.
    """
    row = session.execute(_FORMULAS, {"table": table, "kept": list(kept)}).fetchone()
    if row is None:
        return None
    name, kind, formula, on = (str(each) for each in row)
    column = ident(name)
    session.execute(f"alter table {on} alter column {column} drop expression".encode())
    again = f"alter table {on} drop column {column}, add column {column} {kind} generated always as ({formula}) stored;"
    reason = f"the column has the values of the backup, and none is computed any more: {words(error)}"
    return RelaxedConstraint(NotRestored(f"formula of {name} of {on}, {formula}", reason, again), column=name)


def add_again(session: Connection, dropped: RelaxedConstraint) -> NotRestored | None:
    """Add a dropped condition again, or for new rows only where rows still break it.

    :return: what to report of it; None where it is as it was.
    """
    report = dropped.not_restored
    if dropped.column:
        return report
    error = refusal_of(session, report.statement)
    if error is None:
        return None
    if dropped.not_valid and refusal_of(session, dropped.not_valid) is None:
        return NotRestored(report.what, NOT_VALID + words(error), dropped.validate)
    return NotRestored(report.what, words(error), report.statement)


def _asking(session: Connection, table: str) -> _Condition | None:
    """Return a condition of the table or of a domain that calls functions or operators."""
    if (row := session.execute(_ASKING, {"table": table}).fetchone()) is not None:
        return _check(session, table, row[0])
    if (row := session.execute(_ASKING_DOMAIN, {"table": table}).fetchone()) is not None:
        domain, name, check = row
        return _constraint(f"CHECK {name} of domain {domain}", f"domain {domain}", name, check)
    return None


def _broken(session: Connection, table: str, error: psycopg.Error) -> _Condition | None:
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
    """Return the condition that makes a table a partition."""
    row = session.execute(_BOUND, {"table": table}).fetchone()
    if row is None:
        return None
    root, partition, bound = row
    what = f"partition {partition}"
    return _Condition(f"{what} of {root}", f"table {root}", f"detach {what}", f"attach {what} {bound}", is_bound=True)


def _of_domain(session: Connection, error: psycopg.Error, *, is_check: bool) -> _Condition | None:
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
    quoted = ident(name)
    return _Condition(what, on, f"drop constraint {quoted}", f"add constraint {quoted} {definition}", quoted)
