"""Event triggers that record changes of definitions in the log.

They need their owner's consent.

The log tells of rows. Without this it is only known that definitions were changed between two backups, and not when.
Only a superuser can make event triggers, and one that fails makes every change of a definition fail: what these do is
to write one message into the log, in the transaction that made the change.

Sources: PostgreSQL manual, 'Event Triggers' and 'System Administration Functions' (pg_logical_emit_message).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from holdfast.common.errors import HoldfastError
from holdfast.sources.postgresql.catalog.own_objects import LOG_SCHEMA, LOG_TRIGGERS
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.connection.sql import literal

if TYPE_CHECKING:
    import psycopg

    from holdfast.sources.postgresql.connection.address import Address

    Connection = psycopg.Connection[tuple[Any, ...]]

PREFIX: Final = "holdfast_definition"
"""Of the messages in the log; their content is the command's tag."""

_OURS = "(^|in publication )holdfast_[0-9a-f]{16}$"
"""What a publication of ours is called, and an entry of it."""

# Temporary tables and publications of ours are of no backup, and what a materialised view is filled with, or an index,
# is no definition.
_BODY: Final = f"""
begin
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
  end if;
  perform pg_logical_emit_message(true, {literal(PREFIX)}, tg_tag);
end
"""

# Where a session plays the part of a replica, other triggers do not fire.
CREATED: Final = (
    f"CREATE SCHEMA {LOG_SCHEMA};",
    f"CREATE FUNCTION {LOG_SCHEMA}.note() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog "
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
where n.nspname = {literal(LOG_SCHEMA)} and p.prosrc = {literal(_BODY)} and t.evtenabled = 'A' and t.evttags is null
  and (t.evtname, t.evtevent) in (
    ({literal(LOG_TRIGGERS[0])}, 'ddl_command_end'), ({literal(LOG_TRIGGERS[1])}, 'sql_drop'))
having count(*) = {len(LOG_TRIGGERS)}
"""


def told(session: Connection) -> str:
    """Return the version of the DDL event triggers; "" where they are not in force.

    Where it is the same at two moments, all changes between them are told.
    """
    row = session.execute(_TOLD.encode()).fetchone()
    return str(row[0]) if row else ""


def left(session: Connection) -> bool:
    """Return whether any part of the event triggers exists."""
    row = session.execute(
        "select exists (select from pg_catalog.pg_event_trigger where evtname = any(%s)) "
        "or exists (select from pg_catalog.pg_namespace where nspname = %s)",
        (list(LOG_TRIGGERS), LOG_SCHEMA),
    ).fetchone()
    return bool(row and row[0])


def without_event_triggers(address: Address) -> Address:
    """Return the address with the database's event triggers off, where possible.

    That is PostgreSQL 17 and newer, by a superuser or who may set `event_triggers`. Else a `login` trigger runs as
    whoever connects. Where it cannot be had, or nobody can connect, the address is returned as it is; and where they
    let the log tell of definitions, which must not be silent.
    """
    quiet = replace(address, event_triggers=False)
    try:
        with connect(quiet) as session:
            return address if told(session) else quiet
    except HoldfastError:
        return address
