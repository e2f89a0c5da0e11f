"""The role that rows are read by: that of the backup without its REPLICATION right.

With that right a session may drop other people's slots and read the whole log. What a table's owner may get to run in a
session that reads has no use for it then. A slot and an exact position need it, in sessions of their own, which read no
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.session import connect

if TYPE_CHECKING:
    from holdfast.postgresql.connection.address import Address

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
    """Return the address by which rows are read: the given one where no other role can log in.

    The other role has the same password, or one of its own in `~/.pgpass`.
    """
    role, needs_reader, has_reader = _roles(address)
    reader = address.as_user(reader_of(role), address.password)
    return reader if needs_reader and has_reader and _can_connect(reader) else address


def reads_with_replication(address: Address) -> str:
    """Return a warning where rows are read with the REPLICATION right; else ""."""
    role, needs_reader, has_reader = _roles(address)
    if not needs_reader or reading_address(address) != address:
        return ""
    reader = reader_of(role)
    what = f"{role} reads rows with the REPLICATION right, by which a session may drop slots of others"
    if has_reader:
        return f"{what}: give {reader}, which is there to read them, the same password, or one in ~/.pgpass"
    return (
        f"{what}: 'holdfast source setup … --role {role} --replication' makes {reader}, which reads without it; give "
        "that the same password"
    )


def _roles(address: Address) -> tuple[str, bool, bool]:
    """Return who logs in, whether another role should read, and whether there is one."""
    with connect(address) as session:
        row = session.execute(_QUERY, (_SUFFIX,)).fetchone()
    if row is None:
        return "", False, False
    superuser, replication, role, has_reader = row
    return role, replication and not superuser, has_reader


def _can_connect(address: Address) -> bool:
    try:
        connect(address).close()
    except HoldfastError:
        return False
    return True
