"""The role that rows are read by: that of the backup without its REPLICATION right.

With that right a session may drop other people's slots and read the whole log. What a table's owner may get to run in a
session that reads has no use for it then. A slot and an exact position need it, in sessions of their own, which read no
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.sources.postgresql.connection.session import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.sources.postgresql.connection.address import Address

_SUFFIX: Final = "_reader"

_QUERY: Final = """
select r.rolsuper, r.rolreplication, session_user, exists (select from pg_catalog.pg_roles o
  where o.rolname = session_user || %s and o.rolcanlogin and not o.rolreplication and not o.rolsuper)
from pg_catalog.pg_roles r where r.rolname = session_user
"""


def reader_of(role: str) -> str:
    """Return the name of the role that reads for one that has REPLICATION."""
    return f"{role}{_SUFFIX}"


def reading_address(address: Address) -> Address:
    """Return the address by which rows are read.

    The other role has the same password, or one of its own in `~/.pgpass`.
    """
    return next(_reader(address), address)


def reads_with_replication(address: Address) -> str:
    """Return a warning where rows are read with the REPLICATION right; else ""."""
    with connect(address) as session:
        row = session.execute(_QUERY, (_SUFFIX,)).fetchone()
    if row is None or row[0] or not row[1] or row[3]:
        return ""
    return (
        f"{row[2]} reads rows with the REPLICATION right, by which a session may drop slots of others: 'holdfast "
        f"source setup … --role {row[2]} --replication' makes {reader_of(row[2])}, which reads without it; give that "
        "the same password"
    )


def _reader(address: Address) -> Iterator[Address]:
    with connect(address) as session:
        row = session.execute(_QUERY, (_SUFFIX,)).fetchone()
    if row is not None and not row[0] and row[1] and row[3]:
        yield address.as_user(reader_of(row[2]), address.password)
