"""Event triggers that record changes of definitions in the log.

They need their owner's consent.

The log tells of rows. Without this it is only known that definitions were changed between two backups, and not when.
Only a superuser can make event triggers, and one that fails makes every change of a definition fail: what these do is
to write one message into the log, in the transaction that made the change. It names the objects that the command has
touched.

Sources: PostgreSQL manual, 'Event Triggers', 'Event Trigger Functions' and 'System Administration Functions'
(pg_logical_emit_message).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.catalog.own_objects import LOG_SCHEMA, LOG_TRIGGERS
from holdfast.postgresql.connection.session import connect, first_value
from holdfast.postgresql.connection.sql import literal
from holdfast.postgresql.logical.own_messages import said_in

if TYPE_CHECKING:
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

PREFIX: Final = "holdfast_definition"
"""Of the messages in the log. Their content is JSON with `objects`; older triggers write the command's tag alone."""

PG_ATTRIBUTE: Final = 1249
PG_CONSTRAINT: Final = 2606
PG_DESCRIPTION: Final = 2609
PG_TYPE: Final = 1247
"""Oids of catalogs, which are fixed. Source: PostgreSQL's `src/include/catalog/pg_*.h`."""

PRIVILEGES: Final = (0, 0)
"""Stands in a message for the privileges of any objects: GRANT and the like do not say of which."""

MOST_OBJECTS: Final = 10_000
"""Named by one message, or by those of one commit, at most; of more it is only known that there was a change."""

_OIDS: Final = 1 << 32

Touched = frozenset[tuple[int, int]]
"""Objects, each by the oid of its catalog and its own."""

_OURS = "(^|in publication )holdfast_[0-9a-f]{16}$"
"""What a publication of ours is called, and an entry of it."""

# Temporary tables and publications of ours are of no backup, and what a materialised view is filled with, or an index,
# is no definition.
_IS_OF_A_BACKUP: Final = f"""
  if tg_event = 'sql_drop' then
    if not exists (
      select from pg_event_trigger_dropped_objects() where not is_temporary and object_identity !~ '{_OURS}'
    ) then
      return;
    end if;
  elsif tg_tag in ('REFRESH MATERIALIZED VIEW', 'REINDEX') or not exists (
    select from pg_event_trigger_ddl_commands()
    where schema_name is distinct from 'pg_temp' and (object_identity ~ '{_OURS}') is not true
  ) then
    return;
  end if;"""

# Triggers that earlier releases made, which name no objects.
TAG_BODY: Final = f"""
begin{_IS_OF_A_BACKUP}
  perform pg_logical_emit_message(true, {literal(PREFIX)}, tg_tag);
end
"""

# A table passes what ALTER TABLE does on to its partitions and heirs. What a command did to columns, and to all else of
# a table, is not told of, but has rows of this transaction, or of one inside of it. Columns are named beside their
# table, as pg_attribute; comments beside their object, as pg_description. A key is an index to one command and a
# constraint to another. Whatever goes wrong here must not stop the command.
_BODY: Final = f"""
declare
  touched jsonb;
begin{_IS_OF_A_BACKUP}
  begin
    if tg_event = 'sql_drop' then
      select jsonb_agg(jsonb_build_array(classid::int8, objid::int8)) into touched from (
        select distinct classid, objid from pg_event_trigger_dropped_objects()
        where not is_temporary and object_identity !~ '{_OURS}' limit {MOST_OBJECTS + 1}
      ) o;
    else
      with recursive told as (
        select distinct case when command_tag = 'COMMENT' then 'pg_description'::regclass::oid
          else coalesce(classid, 0::oid) end as classid, coalesce(objid, 0::oid) as objid
        from pg_event_trigger_ddl_commands()
        where schema_name is distinct from 'pg_temp' and (object_identity ~ '{_OURS}') is not true
      ), below(oid) as (
        select objid from told where classid = 'pg_class'::regclass
        union select i.inhrelid from pg_inherits i join below b on b.oid = i.inhparent
      ), indexes(oid) as (
        select oid from below
        union select i.indexrelid from pg_index i join below b on b.oid = i.indrelid
          where age(i.xmin) <= age(pg_current_xact_id()::xid)
      )
      select jsonb_agg(jsonb_build_array(classid::int8, objid::int8)) into touched from (
        select classid, objid from told
        union select 'pg_class'::regclass::oid, oid from indexes
        union select 'pg_class'::regclass::oid, s.seqrelid from pg_sequence s
          join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = s.seqrelid
          join below b on d.refclassid = 'pg_class'::regclass and b.oid = d.refobjid
          where age(s.xmin) <= age(pg_current_xact_id()::xid)
        union select 'pg_type'::regclass::oid, c.reltype from pg_class c join below b on b.oid = c.oid
          where c.relkind = 'c'
        union select 'pg_trigger'::regclass::oid, t.oid from pg_trigger t join below b on b.oid = t.tgrelid
          where not t.tgisinternal and age(t.xmin) <= age(pg_current_xact_id()::xid)
        union select 'pg_rewrite'::regclass::oid, r.oid from pg_rewrite r join below b on b.oid = r.ev_class
          where age(r.xmin) <= age(pg_current_xact_id()::xid)
        union select 'pg_constraint'::regclass::oid, c.oid from pg_constraint c join indexes i on i.oid = c.conindid
          where c.contype in ('p', 'u', 'x')
        union select 'pg_constraint'::regclass::oid, c.oid from pg_constraint c join below b on b.oid = c.conrelid
          where age(c.xmin) <= age(pg_current_xact_id()::xid)
        union select 'pg_attribute'::regclass::oid, a.attrelid from pg_attribute a join below b on b.oid = a.attrelid
          where a.attnum > 0 and age(a.xmin) <= age(pg_current_xact_id()::xid)
        union select 'pg_attribute'::regclass::oid, d.adrelid from pg_attrdef d join below b on b.oid = d.adrelid
          where age(d.xmin) <= age(pg_current_xact_id()::xid)
        limit {MOST_OBJECTS + 1}
      ) o;
    end if;
    if jsonb_array_length(touched) > {MOST_OBJECTS} then
      touched := null;
    end if;
  exception when others then
    touched := null;
  end;
  perform pg_logical_emit_message(true, {literal(PREFIX)},
    jsonb_build_object('tag', tg_tag, 'objects', touched)::text);
end
"""

# Temporary objects come last: where the path does not name them, PostgreSQL looks for tables and types there first.
_PATH: Final = "search_path=pg_catalog, pg_temp"

# Where a session plays the part of a replica, other triggers do not fire.
CREATED: Final = (
    f"CREATE SCHEMA {LOG_SCHEMA};",
    f"CREATE FUNCTION {LOG_SCHEMA}.note() RETURNS event_trigger LANGUAGE plpgsql "
    f"SET search_path = pg_catalog, pg_temp "
    f"AS {literal(_BODY)};",
    f"CREATE EVENT TRIGGER {LOG_TRIGGERS[0]} ON ddl_command_end EXECUTE FUNCTION {LOG_SCHEMA}.note();",
    f"CREATE EVENT TRIGGER {LOG_TRIGGERS[1]} ON sql_drop EXECUTE FUNCTION {LOG_SCHEMA}.note();",
    *(f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS;" for name in LOG_TRIGGERS),
)

DROPPED: Final = (
    *(f"DROP EVENT TRIGGER IF EXISTS {name};" for name in LOG_TRIGGERS),
    f"DROP SCHEMA IF EXISTS {LOG_SCHEMA} CASCADE;",
)

# Whoever alters one of these, or disables it for a while, leaves another version of its row.
_TOLD: Final = f"""
select pg_catalog.string_agg(concat_ws(' ', t.evtname, t.oid, t.xmin, p.xmin), ', ' order by t.evtname)
from pg_catalog.pg_event_trigger t join pg_catalog.pg_proc p on p.oid = t.evtfoid
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where n.nspname = {literal(LOG_SCHEMA)} and p.prosrc in ({literal(_BODY)}, {literal(TAG_BODY)})
  and t.evtenabled = 'A' and t.evttags is null
  and (t.evtname, t.evtevent) in (
    ({literal(LOG_TRIGGERS[0])}, 'ddl_command_end'), ({literal(LOG_TRIGGERS[1])}, 'sql_drop'))
having count(*) = {len(LOG_TRIGGERS)}
"""


_CURRENT: Final = f"bool_and(p.prosrc = {literal(_BODY)} and '{_PATH}' = any(p.proconfig))"


def trigger_version(session: Connection) -> str:
    """Return the version of the DDL event triggers; "" where they are not in force.

    Where it is the same at two moments, all changes between them are told.
    """
    return str(first_value(session, _TOLD) or "")


def is_current(session: Connection) -> bool:
    """Return whether this release's DDL event triggers are in force."""
    return bool(first_value(session, f"select exists ({_TOLD} and {_CURRENT})"))


def touched_by(content: bytes) -> Touched | None:
    """Return the objects that a message names.

    None where it names none: an older trigger wrote it, or there were too many. Anybody may write a message, so that
    one may name more objects than were touched.
    """
    objects = said_in(content).get("objects")
    if not isinstance(objects, list) or len(objects) > MOST_OBJECTS or not all(map(_is_object, objects)):
        return None
    return frozenset((catalog, oid) for catalog, oid in objects)


def _is_object(value: object) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and all(type(each) is int and 0 <= each < _OIDS for each in value)
    )


def has_triggers(session: Connection) -> bool:
    """Return whether any part of the event triggers exists."""
    query = (
        "select exists (select from pg_catalog.pg_event_trigger where evtname = any(%s)) "
        "or exists (select from pg_catalog.pg_namespace where nspname = %s)"
    )
    return bool(first_value(session, query, (list(LOG_TRIGGERS), LOG_SCHEMA)))


def without_event_triggers(address: Address) -> Address:
    """Return the address with the database's event triggers off, where possible.

    That is PostgreSQL 17 and newer, by a superuser or who may set `event_triggers`. Else a `login` trigger runs as
    whoever connects. Where it cannot be had, or nobody can connect, the address is returned as it is; and where they
    let the log tell of definitions, which must not be silent.
    """
    quiet = replace(address, event_triggers=False)
    try:
        with connect(quiet) as session:
            return address if trigger_version(session) else quiet
    except HoldfastError:
        return address
