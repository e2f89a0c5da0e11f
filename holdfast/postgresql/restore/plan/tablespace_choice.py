"""Tablespaces of a restore's tables and indexes.

They are taken from the dump, checked in the target, or dropped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import session_role
from holdfast.postgresql.dump.sql_tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry

_SETTING = re.compile(r"SET default_tablespace = ([^;]*); ?")


def used_by(entries: Iterable[DumpEntry]) -> tuple[str, ...]:
    """Return the names of the tablespaces of a dump's entries."""
    found = {
        token.identifier
        for entry in entries
        for setting in _SETTING.findall(entry.settings)
        for token in tokens(setting)
        if token.identifier
    }
    return tuple(sorted(found))


def leave_tablespaces(entries: Iterable[DumpEntry]) -> tuple[DumpEntry, ...]:
    return tuple(replace(entry, settings=_SETTING.sub("", entry.settings)) for entry in entries)


def check_tablespaces(session: Connection, address: Address, names: Sequence[str]) -> None:
    """Check that the session's role can create something in each tablespace.

    :raises RefusedError: names those in which it cannot.
    """
    usable = {
        row[0]
        for row in session.execute(
            "select spcname from pg_catalog.pg_tablespace where pg_catalog.has_tablespace_privilege(oid, 'create')"
        )
    }
    if missing := [name for name in names if name not in usable]:
        raise RefusedError(
            f"{address.url} lacks tablespaces of the backup, or {session_role(session)} may not create in them: "
            f"{', '.join(missing)}. Create them first (CREATE TABLESPACE …), or restore with --tablespaces drop"
        )
