"""Event trigger of earlier releases that published new tables, with a superuser's rights.

Its function ran with the rights of the superuser who had made it, and looked at new tables by their names. Who owned a
schema could put a view of that name there meanwhile, and had their code run by a superuser. To add a table to a
publication takes the rights of both owners, and a name: it cannot be done with less. So it is removed where it is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.postgresql.catalog.own_objects import PUBLISH_SCHEMA, PUBLISH_TRIGGER
from holdfast.postgresql.connection.sql import literal

if TYPE_CHECKING:
    from holdfast.postgresql.connection.session import Connection

DROPPED: Final = (
    f"DROP EVENT TRIGGER IF EXISTS {PUBLISH_TRIGGER};",
    f"DROP SCHEMA IF EXISTS {PUBLISH_SCHEMA} CASCADE;",
)

_LEFT: Final = f"""
select exists (select from pg_catalog.pg_event_trigger where evtname = {literal(PUBLISH_TRIGGER)})
  or exists (select from pg_catalog.pg_namespace where nspname = {literal(PUBLISH_SCHEMA)})
"""


def has_new_tables_trigger(session: Connection) -> bool:
    """Return whether any part of the event trigger exists."""
    row = session.execute(_LEFT.encode()).fetchone()
    return bool(row and row[0])
