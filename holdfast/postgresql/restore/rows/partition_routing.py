"""Hash partitions whose rows belong elsewhere in another database, and are loaded through their root.

An enum's values are hashed by the oids of its labels, which are each database's own, and so is what has some in it;
names such as regclass by what they stand for; text of a collation that is not deterministic by a library's version, and
in an encoding. pg_dump loads through the root where a key is an enum (flagInhTables() and getPartitioningInfo() of
PostgreSQL's source); this asks which keys are safe instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.postgresql.connection.sql import qualified

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

# What a key's type is below domains and arrays; expressions have that of their operator class.
_UNSAFE = """
with recursive key (root, opclass, coll, type) as (
  select p.partrelid, c.opcnamespace, k.coll, coalesce(a.atttypid, c.opcintype)
  from pg_catalog.pg_partitioned_table p
  cross join lateral rows from (unnest(p.partattrs), unnest(p.partclass), unnest(p.partcollation))
    as k(number, class, coll)
  join pg_catalog.pg_opclass c on c.oid = k.class
  left join pg_catalog.pg_attribute a on a.attrelid = p.partrelid and a.attnum = k.number and k.number > 0
  where p.partstrat = 'h'
), below (root, type) as (
  select root, type from key
  union
  select b.root, case t.typtype when 'd' then t.typbasetype else t.typelem end
  from below b join pg_catalog.pg_type t on t.oid = b.type
  where t.typtype = 'd' or (t.typcategory = 'A' and t.typelem <> 0)
)
select root from key left join pg_catalog.pg_collation l on l.oid = coll
where opclass <> 'pg_catalog'::regnamespace or not coalesce(l.collisdeterministic, true)
union
select root from below b join pg_catalog.pg_type t on t.oid = b.type
where t.typtype not in ('d', 'b', 'r', 'm') or (t.typtype <> 'd' and t.typnamespace <> 'pg_catalog'::regnamespace)
  or pg_catalog.starts_with(t.typname, 'reg')
union
select partrelid from pg_catalog.pg_partitioned_table where partstrat = 'h' and %(other)s
"""

# What is partly on another server is left as it is: rows would go there.
_ROOTS = f"""
with recursive unsafe (root) as ({_UNSAFE}),
above (place, relation, height) as (
  select s.place, s.name::regclass::oid, 0 from unnest(%(names)s::text[]) with ordinality s (name, place)
    where exists (select from unsafe)
  union all
  select b.place, i.inhparent, b.height + 1 from above b join pg_catalog.pg_class c on c.oid = b.relation
  join pg_catalog.pg_inherits i on i.inhrelid = b.relation where c.relispartition
), highest (place, root) as (
  select distinct on (place) place, relation from above where relation in (select root from unsafe)
  order by place, height desc
)
select h.place - 1, n.nspname::text, c.relname::text,
  array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0
    and not a.attisdropped order by a.attnum)
from highest h join pg_catalog.pg_class c on c.oid = h.root join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not exists (select from pg_catalog.pg_partition_tree(h.root) t join pg_catalog.pg_class f on f.oid = t.relid
  where f.relkind = 'f')
"""


def partition_roots(session: Connection, tables: Sequence[Table], *, same_encoding: bool) -> Mapping[int, Table]:
    """Return the tables that partitions' rows are loaded through, by the partition's oid.

    Such a table is called as the highest table that hashes its rows in a way of this database's own, and has the
    columns of the partition, in the order of that table.

    :param tables: as they are called in the target.
    :param same_encoding: the target's is that of the source.
    """
    names = [qualified(table.table_schema, table.name) for table in tables]
    found = {}
    for place, schema, name, columns in session.execute(_ROOTS, {"names": names, "other": not same_encoding}):
        table = tables[place]
        order = {column: number for number, column in enumerate(columns)}
        ordered = tuple(sorted(table.columns, key=lambda column: order[column.name]))
        found[table.oid] = table.model_copy(
            update={"table_schema": schema, "name": name, "kind": "p", "columns": ordered}
        )
    return found
