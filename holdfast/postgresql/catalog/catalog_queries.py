"""Queries that read the catalog of a database into its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.postgresql.catalog.catalog import Catalog, NamedRelation
from holdfast.postgresql.catalog.columns import read_columns
from holdfast.postgresql.catalog.database_settings import read_database_settings
from holdfast.postgresql.catalog.definitions import read_definitions
from holdfast.postgresql.catalog.extension_rows import CONFIGURED, READABLE, read_configuration
from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS, read_groups
from holdfast.postgresql.catalog.own_objects import LEDGER, PUBLISH_SCHEMA
from holdfast.postgresql.catalog.roles import read_roles
from holdfast.postgresql.catalog.sequences import read_sequences
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.catalog.tablespaces import read_tablespaces
from holdfast.postgresql.connection.session import first_column

if TYPE_CHECKING:
    from holdfast.postgresql.connection.session import Connection

_NOT_USERS = f"'pg_catalog', 'information_schema', '{LEDGER}', '{PUBLISH_SCHEMA}'"

USER_SCHEMA = f"n.nspname not in ({_NOT_USERS}) and n.nspname !~ '^pg_(toast|temp)'"
"""Of a query's pg_namespace `n`; what is ours there, or what a restore has left, is not the user's."""

NO_EXTENSION = """not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::regclass
  and d.objid = c.oid and d.deptype = 'e')"""
"""Of a query's pg_class `c`: what belongs to an extension comes back with it."""

_TABLES = f"""
select c.oid::int8 as oid, n.nspname as table_schema, c.relname as name, c.relkind::text as kind,
  c.relpersistence::text as persistence, c.relreplident::text as replica_identity, a.amname as access_method,
  array(select i.inhparent::int8 from pg_catalog.pg_inherits i where i.inhrelid = c.oid order by i.inhseqno) as parents,
  pg_catalog.pg_get_expr(c.relpartbound, c.oid) as bound, pg_catalog.pg_get_userbyid(c.relowner) as owner,
  array(select att.attname::text from pg_catalog.pg_index x, unnest(x.indkey) with ordinality k(number, place),
    pg_catalog.pg_attribute att where x.indrelid = c.oid and x.indisprimary and x.indimmediate and att.attrelid = c.oid
    and att.attnum = k.number and k.place <= x.indnkeyatts order by k.place) as key,
  case when c.relkind = 'r'
    then coalesce(pg_catalog.pg_relation_size(c.oid), 0) / current_setting('block_size')::int8 else 0 end as pages,
  case when c.relkind = 'r' then coalesce(pg_catalog.pg_relation_size(c.oid), 0)
    + coalesce(pg_catalog.pg_relation_size(c.reltoastrelid), 0) else 0 end as size,
  greatest(c.reltuples, 0)::int8 as estimated_rows, c.relfilenode::int8 as filenode,
  c.reltoastrelid::int8 as toast,
  array(select k.number::int4 from pg_catalog.pg_index x, unnest(x.indkey) with ordinality k(number, place)
    where x.indrelid = c.oid and x.indisreplident and k.place <= x.indnkeyatts order by k.place) as identity,
  (select count(*) || ':' || coalesce(sum(pg_catalog.hashtextextended(f.attnum || ' ' || f.xmin, 0)), 0)
    from pg_catalog.pg_attribute f where f.attrelid = c.oid and f.attnum > 0) as form,
  coalesce((select n.xmin || ' ' || y.xmin || ' ' || f.xmin from pg_catalog.pg_type y, pg_catalog.pg_attribute f
    where y.oid = c.reltype and f.attrelid = c.oid and f.attnum = -1), '') as naming,
  coalesce((select p.oid::int8 from pg_catalog.pg_constraint p where p.conrelid = c.oid and p.contype = 'p'
    and not p.condeferrable), 0) as key_oid,
  array(select d.adnum || ' ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) from pg_catalog.pg_attrdef d,
    pg_catalog.pg_attribute att where d.adrelid = c.oid and att.attrelid = c.oid and att.attnum = d.adnum
    and att.attgenerated <> '' order by d.adnum) as expressions
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_am a on a.oid = c.relam
where c.relkind in ('r', 'p', 'f') and {USER_SCHEMA} and {NO_EXTENSION}
  or c.oid = {LARGE_OBJECTS} and exists (select from pg_catalog.pg_largeobject_metadata)
order by n.nspname, c.relname
"""

_SEQUENCES = f"""
select c.oid::int8, n.nspname, c.relname, coalesce(e.extname::text, '')
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_depend m on m.classid = 'pg_catalog.pg_class'::regclass and m.objid = c.oid and m.deptype = 'e'
left join pg_catalog.pg_extension e on e.oid = m.refobjid
where c.relkind = 'S' and ({USER_SCHEMA} and {NO_EXTENSION} or {CONFIGURED} and {READABLE}) order by 2, 3
"""

# A materialised view comes after every other one that it reads, through however many plain views.
_MATERIALIZED_VIEWS = f"""
with recursive reads(reader, target) as (
  select r.ev_class, d.refobjid from pg_catalog.pg_depend d join pg_catalog.pg_rewrite r on r.oid = d.objid
  where d.classid = 'pg_catalog.pg_rewrite'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass
    and d.refobjid <> r.ev_class
), below(reader, target, depth) as (
  select reader, target, 1 from reads
  union select b.reader, r.target, b.depth + 1 from below b join reads r on r.reader = b.target where b.depth < 100
)
select n.nspname, c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'm' and c.relispopulated and {USER_SCHEMA} and {NO_EXTENSION}
order by coalesce((select max(b.depth) from below b join pg_catalog.pg_class t on t.oid = b.target
  where b.reader = c.oid and t.relkind in ('m', 'v')), 0), 1, 2
"""

# Those of partitions come with their parent's.
_REFERENCES = """
select conrelid::int8, confrelid::int8 from pg_catalog.pg_constraint
where contype = 'f' and conparentid = 0 order by 1, 2
"""

# What initdb's own superuser (oid 10) owns, pg_shdepend does not tell; objects below oid 16384 are initdb's, too.
_ROLES = f"""
select r.rolname from pg_catalog.pg_shdepend s join pg_catalog.pg_roles r on r.oid = s.refobjid
where s.refclassid = 'pg_catalog.pg_authid'::regclass and s.deptype in ('o', 'a', 'r')
  and s.dbid = (select oid from pg_catalog.pg_database where datname = current_database()) and r.rolname !~ '^pg_'
  and not exists (select from pg_catalog.pg_namespace n where n.nspname = '{LEDGER}' and (
    s.classid = 'pg_catalog.pg_namespace'::regclass and s.objid = n.oid or s.classid = 'pg_catalog.pg_class'::regclass
    and s.objid in (select c.oid from pg_catalog.pg_class c where c.relnamespace = n.oid)))
union
select r.rolname from pg_catalog.pg_roles r, (
  select 'pg_catalog.pg_class'::regclass as class, oid, relowner as owner from pg_catalog.pg_class
    where relkind in ('r', 'p', 'v', 'm', 'f', 'S') and relpersistence <> 't'
      and relnamespace not in (select n.oid from pg_catalog.pg_namespace n where n.nspname = '{LEDGER}')
  union all select 'pg_catalog.pg_proc'::regclass, oid, proowner from pg_catalog.pg_proc
  union all select 'pg_catalog.pg_type'::regclass, oid, typowner from pg_catalog.pg_type
    where typrelid = 0 and typcategory <> 'A' and typtype <> 'm'
  union all select 'pg_catalog.pg_namespace'::regclass, oid, nspowner from pg_catalog.pg_namespace
    where nspname !~ '^pg_' and nspname <> '{LEDGER}'
  union all select 'pg_catalog.pg_largeobject'::regclass, oid, lomowner from pg_catalog.pg_largeobject_metadata
) o where r.oid = 10 and o.owner = r.oid and (o.oid >= 16384 or o.class = {LARGE_OBJECTS})
  and not exists (select from pg_catalog.pg_depend d
    where d.classid = o.class and d.objid = o.oid and d.deptype = 'e')
order by 1
"""

# A label may be renamed and a composite type altered, and nothing in the tables that have such values shows it. What is
# taken back leaves another version of its row. What columns are of is looked up once, not for each table.
_TYPES = """
with used as (
  select distinct atttypid as oid from pg_catalog.pg_attribute where attrelid >= 16384 and atttypid <> 0
  union select typbasetype from pg_catalog.pg_type where typtype = 'd'
  union select rngsubtype from pg_catalog.pg_range
)
select 'label ' || oid, enumlabel::text from pg_catalog.pg_enum
union all
select 'label row ' || oid, xmin::text from pg_catalog.pg_enum
union all
select 'type ' || c.reltype, pg_catalog.string_agg(a.attnum || ' ' || a.atttypid, ', ' order by a.attnum)
from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind = 'c' group by c.reltype
union all
select 'type rows ' || c.reltype, pg_catalog.string_agg(a.attnum || ' ' || a.xmin, ', ' order by a.attnum)
from (
  select reltype, k.oid from pg_catalog.pg_class k join pg_catalog.pg_type t on t.oid = k.reltype
  where k.relkind in ('c', 'r', 'p', 'f')
    and (t.oid in (select u.oid from used u) or t.typarray in (select u.oid from used u))
) c join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
group by c.reltype
order by 1
"""

_ENUMS = """
with labels as (
  select enumtypid, pg_catalog.array_agg(enumlabel::text order by enumsortorder) as labels,
    pg_catalog.array_agg(oid::int8 order by enumsortorder) as oids
  from pg_catalog.pg_enum group by enumtypid
)
select n.nspname || '.' || t.typname, l.labels, e.oid::int8, l.oids from labels l
join pg_catalog.pg_type e on e.oid = l.enumtypid join pg_catalog.pg_type t on t.oid in (e.oid, e.typarray)
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
order by 1
"""

_LEFT_OUT = f"""
select format('foreign table %I.%I: its rows are on another server', n.nspname, c.relname)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'f' and {USER_SCHEMA}
union all
select format('%s of %I.%I: it belongs to an extension%s', case c.relkind when 'S' then 'value' else 'rows' end,
  n.nspname, c.relname, case when {CONFIGURED}
    then ', which keeps rows of its users there, and this role may not read it: grant it SELECT' else '' end)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'S') and {USER_SCHEMA} and not ({NO_EXTENSION})
  and not (c.relkind in ('r', 'S') and {CONFIGURED} and {READABLE})
union all
select 'schema {LEDGER}: ' || case when pg_catalog.to_regclass('{LEDGER}.restore') is not null
    and pg_catalog.to_regclass('{LEDGER}.done') is not null
  then 'it is what a restore noted that has not come to its end in this database; once none is to go on there, drop it '
    '(DROP SCHEMA {LEDGER} CASCADE)'
  else 'restores need this name for themselves; rename the schema, and it is backed up' end
from pg_catalog.pg_namespace where nspname = '{LEDGER}'
union all
select format('security labels of %s large objects', count(*)) from pg_catalog.pg_seclabel
where classoid = {LARGE_OBJECTS} having count(*) > 0
order by 1
"""


def left_out(connection: Connection) -> tuple[str, ...]:
    """Return everything that a backup of this database omits, each with its reason."""
    return tuple(first_column(connection, _LEFT_OUT))


def read_tables(connection: Connection) -> tuple[Table, ...]:
    """Read all tables of the database, as of the session's snapshot.

    pg_largeobject is among them where the database has large objects.
    """
    cursor = connection.execute(_TABLES)
    names = [column.name for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    columns = read_columns(connection, [row["oid"] for row in rows])
    return tuple(Table(**row, columns=columns.get(row["oid"], ())) for row in rows)


def read_catalog(connection: Connection, tables: tuple[Table, ...], *, values: bool = True) -> Catalog:
    """Read the whole record.

    :param tables: as `read_tables` returned them, locked since.
    :param values: read where each sequence stands, too, which takes the right to, and what extensions keep.
    """
    encoding = connection.execute(
        "select pg_catalog.pg_encoding_to_char(encoding) from pg_catalog.pg_database where datname = current_database()"
    ).fetchone()
    large_objects = next((table for table in tables if table.oid == LARGE_OBJECTS), None)
    own = tuple(table for table in tables if table is not large_objects)
    roles = tuple(first_column(connection, _ROLES))
    settings = read_database_settings(connection)
    enums = connection.execute(_ENUMS).fetchall()
    return Catalog(
        database=connection.info.dbname,
        server_version=connection.info.server_version,
        encoding=encoding[0] if encoding else "UTF8",
        tables=own,
        definitions=read_definitions(connection) if values else (),
        configuration=tuple(read_configuration(connection)) if values else (),
        sequences=tuple(read_sequences(connection, connection.execute(_SEQUENCES).fetchall())) if values else (),
        materialized_views=tuple(
            NamedRelation(relation_schema=schema, name=name) for schema, name in connection.execute(_MATERIALIZED_VIEWS)
        ),
        references=tuple((int(row[0]), int(row[1])) for row in connection.execute(_REFERENCES)),
        roles=roles,
        role_details=read_roles(connection).of(settings.roles.union(roles)),
        database_settings=settings,
        tablespaces=read_tablespaces(connection),
        large_objects=large_objects,
        large_object_groups=read_groups(connection) if large_objects else (),
        types=dict(connection.execute(_TYPES).fetchall()),
        enums={name: tuple(labels) for name, labels, *_ in enums},
        enum_oids={name: oid for name, _, oid, _ in enums},
        label_types={label: oid for *_, oid, labels in enums for label in labels},
    )
