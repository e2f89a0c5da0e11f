"""Grants for the role that reads rows for one that has the REPLICATION right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.postgresql.connection.reading_role import reader_of
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup.backup_role import read_role
from holdfast.postgresql.setup.grants import plan_setup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.setup.grants import Plan


def plan_reader(
    address: Address, databases: Sequence[str], role_name: str, *, per_schema: bool = False
) -> Iterator[Plan]:
    """Yield the plan of the reading role; none for a superuser, who reads as such.

    :param role_name: of the role that it reads for.
    :raises RefusedError: it cannot be given what it needs.
    """
    with connect(address) as session:
        role, reader = (read_role(session, name) for name in (role_name, reader_of(role_name)))
    if role.superuser:
        return
    plan = plan_setup(address, databases, reader.name, per_schema=per_schema)
    note = (
        f"{reader.name} reads rows for {role.name}, without its REPLICATION right, once it has the same "
        f"password: set it in psql with \\password {reader.quoted}, or one of its own in ~/.pgpass"
    )
    yield plan if reader.exists else replace(plan, notes=(note,))
