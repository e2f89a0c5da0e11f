"""Definitions with the operators and functions that they ask, as PostgreSQL's dependencies have them.

A definition's text does not tell all of it: NULLIF, CASE x WHEN, IS DISTINCT FROM and JOIN USING have no place for the
name of an operator. Only definitions that ask an operator other than PostgreSQL's own are recorded: of these there is
a record (pg_depend), and only these can be read as something else.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from holdfast.postgresql.catalog.record import CatalogRecord

if TYPE_CHECKING:
    from holdfast.postgresql.connection.session import Connection


class NamedObject(CatalogRecord):
    """Object as `pg_identify_object_as_address` names it, which `pg_get_object_address` takes.

    :param names: for an operator or a function, its schema and name.
    :param args: types of its arguments.
    """

    kind: str
    names: tuple[str, ...]
    args: tuple[str, ...]

    def __str__(self) -> str:
        """Return it for people, and to compare: who writes a type's name may quote it or not."""
        args = f"({', '.join(self.args)})" if self.args else ""
        return f"{self.kind} {'.'.join(self.names)}{args}".replace('"', "")


class Definition(CatalogRecord):
    """Definition that asks operators.

    :param objects: by catalog's oid and oid: itself, and the object that it may be a part of.
    :param uses: all operators and functions that it asks, but for PostgreSQL's own.
    """

    objects: tuple[tuple[int, int], ...]
    named: NamedObject
    uses: tuple[NamedObject, ...]

    def __str__(self) -> str:
        return str(self.named)


_ASKED = "d.deptype = 'n' and d.refclassid in ('pg_catalog.pg_operator'::regclass, 'pg_catalog.pg_proc'::regclass)"

_ASKING = f"""
with asking (class, object) as (
  select d.classid, d.objid from pg_catalog.pg_depend d
  where d.deptype = 'n' and d.refclassid = 'pg_catalog.pg_operator'::regclass and d.classid in (
    'pg_catalog.pg_rewrite'::regclass, 'pg_catalog.pg_constraint'::regclass, 'pg_catalog.pg_attrdef'::regclass,
    'pg_catalog.pg_policy'::regclass, 'pg_catalog.pg_trigger'::regclass, 'pg_catalog.pg_class'::regclass,
    'pg_catalog.pg_statistic_ext'::regclass, 'pg_catalog.pg_type'::regclass, 'pg_catalog.pg_proc'::regclass,
    'pg_catalog.pg_publication_rel'::regclass)
  group by 1, 2
), whole (class, object, of_class, of_object) as (
  select a.class, a.object, 'pg_catalog.pg_class'::regclass::oid, r.ev_class
    from asking a join pg_catalog.pg_rewrite r on a.class = 'pg_catalog.pg_rewrite'::regclass and r.oid = a.object
  union all select a.class, a.object, 'pg_catalog.pg_class'::regclass, f.adrelid
    from asking a join pg_catalog.pg_attrdef f on a.class = 'pg_catalog.pg_attrdef'::regclass and f.oid = a.object
  union all select a.class, a.object, case when c.conrelid <> 0 then 'pg_catalog.pg_class'::regclass
      else 'pg_catalog.pg_type'::regclass end, case when c.conrelid <> 0 then c.conrelid else c.contypid end
    from asking a join pg_catalog.pg_constraint c on a.class = 'pg_catalog.pg_constraint'::regclass and c.oid = a.object
), uses (class, object, type, names, args) as materialized (
  select u.class, u.object, i.type, i.object_names, i.object_args
  from (select distinct d.refclassid, d.refobjid from pg_catalog.pg_depend d
    join asking a on d.classid = a.class and d.objid = a.object where {_ASKED}) u (class, object),
  lateral pg_catalog.pg_identify_object_as_address(u.class, u.object, 0) i
)
select a.class::int8, a.object::int8, coalesce(w.of_class, a.class)::int8, coalesce(w.of_object, a.object)::int8,
  i.type, i.object_names, i.object_args, u.type, u.names, u.args
from asking a left join whole w on (w.class, w.object) = (a.class, a.object)
join (select distinct classid, objid, refclassid, refobjid from pg_catalog.pg_depend d where {_ASKED}) d
  on d.classid = a.class and d.objid = a.object
join uses u on (u.class, u.object) = (d.refclassid, d.refobjid),
lateral pg_catalog.pg_identify_object_as_address(a.class, a.object, 0) i
where not exists (select from pg_catalog.pg_depend e where e.deptype = 'e'
  and e.classid = coalesce(w.of_class, a.class) and e.objid = coalesce(w.of_object, a.object))
order by 1, 2, u.type, u.names, u.args
"""

_USES = f"""
select distinct i.type, i.object_names, i.object_args
from pg_catalog.pg_get_object_address(%s, %s::text[], %s::text[]) o
join pg_catalog.pg_depend d on d.classid = o.classid and {_ASKED} and d.objid = o.objid,
lateral pg_catalog.pg_identify_object_as_address(d.refclassid, d.refobjid, 0) i
"""


def read_definitions(connection: Connection) -> tuple[Definition, ...]:
    """Read the definitions that ask operators other than PostgreSQL's own."""
    found = []
    for (own, whole, named), rows in groupby(
        connection.execute(_ASKING), key=lambda row: (row[:2], row[2:4], row[4:7])
    ):
        uses = tuple(_named(row[7:]) for row in rows)
        found.append(Definition(objects=tuple(dict.fromkeys((own, whole))), named=_named(named), uses=uses))
    return tuple(found)


def read_uses(session: Connection, definition: Definition) -> set[str]:
    """Return the operators and functions that a definition of the session's database asks, as text.

    :param definition: its name is the one that it has there.
    """
    named = definition.named
    rows = session.execute(_USES, (named.kind, list(named.names), list(named.args)))
    return {str(_named(row)) for row in rows}


def _named(row: tuple[Any, ...]) -> NamedObject:
    kind, names, args = row
    return NamedObject(kind=kind, names=tuple(names), args=tuple(args))
