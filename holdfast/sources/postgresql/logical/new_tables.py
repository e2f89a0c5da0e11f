"""Event trigger that publishes new tables in the transaction of their creation.

It needs the owner's consent.

Without this a new table has no rows at moments before the first backup that finds it. With it, the log has them from
the first on. What the trigger publishes has a primary key, since PostgreSQL refuses UPDATE and DELETE of what has none,
and no row; it is noted, so that a backup knows that no row of it was missed. Where a table cannot be published just
then, the statement goes on all the same, and the table begins with a snapshot as others do.

Only a superuser can make event triggers. The function has its owner's rights, since a publication and the table that
enters it need not have one owner: it looks up nothing but PostgreSQL's own, and runs nothing of a table's owner.

Sources: PostgreSQL manual, 'Event Triggers', 'Writing SECURITY DEFINER Functions Safely' and 'ALTER PUBLICATION'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.sources.postgresql.catalog.own_objects import PUBLISH_SCHEMA, PUBLISH_TRIGGER
from holdfast.sources.postgresql.connection.sql import literal

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_LOCK_TIMEOUT = "20ms"
"""To enter, a table needs a lock on the publication: another transaction that makes tables keeps it until it ends."""

_BODY: Final = f"""
declare
  made record;
  has_rows boolean;
begin
  for made in
    select c.oid as relation, n.nspname as place, c.relname as name, p.oid as publication, p.pubname as published
    from (select distinct objid from pg_event_trigger_ddl_commands() where classid = 'pg_class'::regclass) d
      join pg_class c on c.oid = d.objid
      join pg_namespace n on n.oid = c.relnamespace
      join pg_index x on x.indrelid = c.oid and x.indisprimary and x.indisvalid and x.indislive and x.indimmediate
      cross join pg_publication p
    where c.relkind = 'r' and c.relpersistence = 'p' and c.relreplident = 'd'
      and n.nspname not in ('pg_catalog', 'information_schema', '{PUBLISH_SCHEMA}') and n.nspname !~ '^pg_(toast|temp)'
      and p.pubname ~ '^holdfast_[0-9a-f]{{16}}$' and not p.puballtables
      and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid
        and e.deptype = 'e')
      and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum = any(x.indkey)
        and a.attgenerated <> '')
      and not exists (select from pg_publication_rel r where r.prpubid = p.oid and (r.prrelid = c.oid
        or r.prrelid in (select relid from pg_partition_ancestors(c.oid))))
  loop
    execute format('select exists (select from only %I.%I)', made.place, made.name) into has_rows;
    continue when has_rows;
    begin
      execute format('alter publication %I add table only %I.%I', made.published, made.place, made.name);
      insert into {PUBLISH_SCHEMA}.entered (relation, entry)
        select r.prrelid, r.oid from pg_publication_rel r
        where r.prpubid = made.publication and r.prrelid = made.relation;
    exception when others then
      continue;
    end;
  end loop;
end
"""

# Who could write into the table could make a backup believe that no row was missed. Temporary objects come last in the
# path: where it does not name them, PostgreSQL looks for tables and views there first, and such a view would run its
# functions with the rights of this one's owner.
CREATED: Final = (
    f"CREATE SCHEMA {PUBLISH_SCHEMA};",
    f"GRANT USAGE ON SCHEMA {PUBLISH_SCHEMA} TO PUBLIC;",
    f"CREATE TABLE {PUBLISH_SCHEMA}.entered (relation oid NOT NULL, entry oid NOT NULL);",
    f"GRANT SELECT ON {PUBLISH_SCHEMA}.entered TO PUBLIC;",
    f"CREATE FUNCTION {PUBLISH_SCHEMA}.publish() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER "
    f"SET search_path = pg_catalog, pg_temp SET lock_timeout = '{_LOCK_TIMEOUT}' SET client_min_messages = error "
    f"AS {literal(_BODY)};",
    f"REVOKE ALL ON FUNCTION {PUBLISH_SCHEMA}.publish() FROM PUBLIC;",
    f"CREATE EVENT TRIGGER {PUBLISH_TRIGGER} ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE') "
    f"EXECUTE FUNCTION {PUBLISH_SCHEMA}.publish();",
    f"ALTER EVENT TRIGGER {PUBLISH_TRIGGER} ENABLE ALWAYS;",
)

DROPPED: Final = (
    f"DROP EVENT TRIGGER IF EXISTS {PUBLISH_TRIGGER};",
    f"DROP SCHEMA IF EXISTS {PUBLISH_SCHEMA} CASCADE;",
)

_IN_FORCE: Final = f"""
select exists (
  select from pg_catalog.pg_event_trigger t join pg_catalog.pg_proc p on p.oid = t.evtfoid
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'entered' and c.relkind = 'r'
  where t.evtname = {literal(PUBLISH_TRIGGER)} and t.evtenabled = 'A' and n.nspname = {literal(PUBLISH_SCHEMA)}
    and p.prosrc = {literal(_BODY)} and p.prosecdef and p.proconfig @> array['search_path=pg_catalog, pg_temp']
    and not exists (select from pg_catalog.pg_roles r where not r.rolsuper
      and r.oid in (t.evtowner, p.proowner, n.nspowner, c.relowner))
)
"""

_LEFT: Final = f"""
select exists (select from pg_catalog.pg_event_trigger where evtname = {literal(PUBLISH_TRIGGER)})
  or exists (select from pg_catalog.pg_namespace where nspname = {literal(PUBLISH_SCHEMA)})
"""

_PUBLISHED: Final = f"""
select r.prrelid::int8, n.nspname, c.relname, a.xmin::text::int8,
  pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::int8
from pg_catalog.pg_publication_rel r join {PUBLISH_SCHEMA}.entered e on e.relation = r.prrelid and e.entry = r.oid
  join pg_catalog.pg_class c on c.oid = r.prrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'ctid'
where r.prpubid = %s and c.relkind = 'r' and c.relpersistence = 'p'
order by 2, 3
"""


def in_force(session: Connection) -> bool:
    """Return whether new tables are published, in a record that only superusers write."""
    row = session.execute(_IN_FORCE.encode()).fetchone()
    return bool(row and row[0])


def left(session: Connection) -> bool:
    """Return whether any part of the event trigger exists."""
    row = session.execute(_LEFT.encode()).fetchone()
    return bool(row and row[0])


def published(session: Connection, publication: int) -> list[tuple[int, str, str, int, int]]:
    """Return the tables published before their first row.

    There are none where that cannot be relied on.

    :param publication: its oid.
    :return: of each its oid, schema and name, the id of the transaction that made it, without its epoch, and the
        next one's, with it.
    """
    return session.execute(_PUBLISHED.encode(), (publication,)).fetchall() if in_force(session) else []
