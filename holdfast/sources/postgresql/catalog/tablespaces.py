"""Tablespaces of a source that its tables and indexes are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.sources.postgresql.catalog.record import CatalogRecord

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]


class Tablespace(CatalogRecord):
    """A tablespace of the source; its location tells whoever makes it anew where it was."""

    name: str
    location: str


_USED = """
select t.spcname, pg_catalog.pg_tablespace_location(t.oid) from pg_catalog.pg_tablespace t
where t.oid in (select c.reltablespace from pg_catalog.pg_class c where c.oid >= 16384)
  and t.spcname !~ '^pg_' order by 1
"""


def read_tablespaces(session: Connection) -> tuple[Tablespace, ...]:
    """Read which tablespaces are used by tables or indexes of the session's database, besides its own."""
    return tuple(Tablespace(name=name, location=location) for name, location in session.execute(_USED))
