"""Roles that own things in databases of a test's own, and what restores by a superuser leave of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect

TAKEN = "loading_taken"
"""The superuser that hostile code would make."""

LOGINS = f"""
select rolname, rolcanlogin from pg_roles, pg_database
where datname = current_database() and rolname in ('{TAKEN}', 'holdfast_loader_' || pg_database.oid)
"""

_OF_ROLE = """
select distinct datname from pg_shdepend d join pg_database b on b.oid = d.dbid join pg_roles r on r.oid = d.refobjid
where d.refclassid = 'pg_authid'::regclass and r.rolname = %s
"""


@contextmanager
def passing_roles(address: Address, roles: Mapping[str, str]) -> Iterator[None]:
    """Have roles on a server; in the end they go, and before them the databases in which they have something.

    :param roles: their names, each with its attributes.
    """
    with connect(address) as session:
        for role, attributes in roles.items():
            session.execute(f"drop role if exists {role}".encode())
            session.execute(f"create role {role} {attributes}".encode())
    yield
    with connect(address) as session:
        for role in roles:
            for (name,) in session.execute(_OF_ROLE, (role,)).fetchall():
                session.execute(f"drop database {name} with (force)".encode())
            session.execute(f"drop role {role}".encode())
        session.execute(f"drop role if exists {TAKEN}".encode())


def loaders(address: Address) -> dict[str, bool]:
    """Return the log-in for a database and the superuser that its code would make, each with whether it may log in."""
    with connect(address) as session:
        return dict(session.execute(LOGINS.encode()).fetchall())
