"""Tablespaces of a source that hold its tables and indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.postgresql.catalog.record import CatalogRecord

if TYPE_CHECKING:
    from holdfast.postgresql.connection.session import Connection


class Tablespace(CatalogRecord):
    """Tablespace of the source, with its location there.

    The location is a hint for creating the tablespace again.
    """

    name: str
    location: str


_USED = """
select t.spcname, pg_catalog.pg_tablespace_location(t.oid) from pg_catalog.pg_tablespace t
where t.oid in (select c.reltablespace from pg_catalog.pg_class c where c.oid >= 16384)
  and t.spcname !~ '^pg_' order by 1
"""


def read_tablespaces(session: Connection) -> tuple[Tablespace, ...]:
    """Read the tablespaces used by the session's database, besides its own.

    Only those count that hold a table or an index of it.
    """
    return tuple(Tablespace(name=name, location=location) for name, location in session.execute(_USED))
