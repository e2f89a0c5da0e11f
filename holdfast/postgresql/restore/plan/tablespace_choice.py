"""Tablespaces of a restore's tables and indexes: of the dump, checked in the target, or dropped."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import session_role
from holdfast.postgresql.dump.sql_tokens import tokens
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.plan import RestorePlan

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


def without_tablespaces(plan: RestorePlan) -> RestorePlan:
    """Return a plan that creates everything in the target's own tablespace, and says so."""
    reason = "what was in it is created in the tablespace of the target's database"
    left = tuple(NotRestored(f"tablespace {name}", reason) for name in used_by(plan.entries))
    entries = tuple(replace(entry, settings=_SETTING.sub("", entry.settings)) for entry in plan.entries)
    return replace(plan, entries=entries, not_restored=(*plan.not_restored, *left))


def check_tablespaces(session: Connection, address: Address, names: Sequence[str]) -> None:
    """Refuse tablespaces that the session's role cannot create in."""
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
