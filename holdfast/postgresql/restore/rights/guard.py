"""Guard of a restore: code of the source defines nothing, and notes nothing.

The login that builds owns everything until the end, and code of the source runs in its sessions. Statements of ours are
top-level statements of such a session; code runs inside of one. The server tells them apart: the context of a nested
statement has a line for what has called it. Event triggers refuse nested definitions, triggers refuse nested notes.
Both always fire; of the target's own event triggers, none does in the login's sessions.

Sources: PostgreSQL manual, 'Obtaining Execution Location Information' (PG_CONTEXT) and 'Event Trigger Firing Matrix'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.own_objects import GUARD, LEDGER, LOADER
from holdfast.postgresql.connection.session import connect

if TYPE_CHECKING:
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

RESET: Final = "reset all; set datestyle = 'ISO'; set timezone = 'UTC';"
"""Begins each definition: code that ran before in its session may have changed what names and operators mean.

All settings are those that the session began with (`Address.link`), but for two that libpq takes from its environment.
"""

_NOTES = ("loaded", "created", "detached")

_IS_NESTED = f"""
  get diagnostics context = pg_context;
  if pg_catalog.starts_with(session_user, '{LOADER}') and pg_catalog.strpos(context, pg_catalog.chr(10)) > 0 then
    raise insufficient_privilege using message = 'code of the source may not change what is being restored';
  end if;
"""

_FUNCTION = f"""
create or replace function {LEDGER}.{{name}}() returns {{kind}} language plpgsql
set search_path = pg_catalog, pg_temp as $guard$
declare
  context text;
begin{_IS_NESTED}{{end}}
end $guard$;
"""

_STATEMENTS = (
    _FUNCTION.format(name="guard_definitions", kind="event_trigger", end="")
    + _FUNCTION.format(name="guard_notes", kind="trigger", end="  return null;")
    + f"drop event trigger if exists {GUARD};"
    + f"create event trigger {GUARD} on ddl_command_start execute function {LEDGER}.guard_definitions();"
    + f"alter event trigger {GUARD} enable always;"
    + "".join(
        f"create or replace trigger guard before insert or update or delete on {LEDGER}.{table} "
        f"for each statement execute function {LEDGER}.guard_notes();"
        f"alter table {LEDGER}.{table} enable always trigger guard;"
        for table in _NOTES
    )
)

_TRY = f"do $try$ begin create table {LEDGER}.tried (id int); end $try$"


def raise_guard(session: Connection, login: Address) -> None:
    """Create the guard, and prove that it holds for the login in the ledger's schema.

    :raises RefusedError: the server runs no event triggers in the login's sessions.
    """
    with session.transaction():
        session.execute(_STATEMENTS.encode())
    with connect(login) as opened:
        try:
            with opened.transaction(force_rollback=True):
                opened.execute(_TRY.encode())
        except psycopg.errors.InsufficientPrivilege:
            return
    raise RefusedError(
        f"event triggers do not run for {login.url}, so that code of the source could change what is being restored: "
        "find out which setting of the server turns them off, or say --trust-source"
    )


def lower_guard(session: Connection) -> None:
    """Drop the event trigger of the guard; the rest goes with the ledger."""
    session.execute(f"drop event trigger if exists {GUARD}".encode())
