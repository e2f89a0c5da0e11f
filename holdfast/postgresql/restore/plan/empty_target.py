"""Check of a target that a restore of everything needs empty.

Imports nothing of rows: the process that starts a restore checks its target, and is to start soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.common.words import named
from holdfast.postgresql.connection.session import first_column

if TYPE_CHECKING:
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_USER_OBJECTS = """
with recursive extensions (class, object) as (
  select classid, objid from pg_catalog.pg_depend where deptype = 'e'
  union select d.classid, d.objid from extensions join pg_catalog.pg_depend d
    on (d.refclassid, d.refobjid) = (class, object) and d.deptype = 'i'
), users as (
  select oid, nspname, nspacl from pg_catalog.pg_namespace
  where nspname not in ('pg_catalog', 'information_schema') and nspname !~ '^pg_(toast|temp)'
), objects (class, object, what) as (
  select 'pg_catalog.pg_class'::regclass::oid, c.oid, format('%I.%I', n.nspname, c.relname)
  from pg_catalog.pg_class c join users n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
  union all
  select 'pg_catalog.pg_proc'::regclass, p.oid, format('function %s', p.oid::regprocedure)
  from pg_catalog.pg_proc p join users n on n.oid = p.pronamespace
  union all
  select 'pg_catalog.pg_type'::regclass, t.oid, format('type %s', t.oid::regtype)
  from pg_catalog.pg_type t join users n on n.oid = t.typnamespace
  where t.typtype in ('e', 'd', 'r', 'b') and t.typcategory <> 'A'
  union all
  select 'pg_catalog.pg_namespace'::regclass, n.oid, format('schema %I', n.nspname)
  from users n left join pg_catalog.pg_extension e on e.extnamespace = n.oid
  where n.nspname <> 'public' and e.oid is null and n.nspacl is not null
)
select what from objects where (class, object) not in (select class, object from extensions)
union all
(select format('large object %s', oid) from pg_catalog.pg_largeobject_metadata order by oid limit 100)
order by 1
"""


def check_empty(session: Connection, address: Address) -> None:
    """Make sure that nothing is there that a restore of everything could meet.

    :raises RefusedError: something is; names it.
    """
    found = first_column(session, _USER_OBJECTS)
    if found:
        raise RefusedError(
            f"{address.url} is not empty: it has {named(found, 5)}. Restore into an empty database "
            "(createdb makes one), or choose --tables"
        )
