"""Backup roles, with a record of the rights given by setup.

What was given is recorded in the role's comment, so that exactly this is taken back, and a role that was there before
is never dropped. The record only chooses among rights that are worked out from the database: no text of it is ever run,
since others may be able to change a comment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError, UsageError
from holdfast.postgresql.connection.sql import ident

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.postgresql.connection.session import Connection

MARK = "Holdfast source setup: "


@dataclass(frozen=True)
class GrantChange:
    """Change of rights, given or taken back, with its statements.

    :param key: names it in the record of what was given.
    :param had: what of it was so before.
    """

    why: str
    statements: tuple[str, ...]
    key: str = ""
    had: Sequence[str] = ()


@dataclass(frozen=True)
class BackupRoleRecord:
    """Record of the rights given by setup, kept in the role's comment.

    :param words: the rest of the comment, which is not ours.
    :param of_role: names of attributes and memberships.
    :param databases: by name, what was given there, each with what of it the role had before.
    """

    words: str | None
    of_role: tuple[str, ...]
    databases: Mapping[str, Mapping[str, Sequence[str]]]

    @classmethod
    def parse(cls, comment: str | None) -> BackupRoleRecord:
        """Read a role's comment."""
        words, mark, ours = (comment or "").partition(MARK)
        if not mark:
            return cls(comment, (), {})
        try:
            value = json.loads(ours)
            databases = {
                str(name): {str(key): [str(each) for each in had] for key, had in given.items()}
                for name, given in value["databases"].items()
            }
            return cls(words.strip() or None, tuple(str(each) for each in value["role"]), databases)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RefusedError(
                "the role's comment no longer tells what setup has given: take its rights back by hand, then clear it "
                "(comment on role … is null)"
            ) from error

    def comment(self) -> str | None:
        """Return the comment that keeps this; None is no comment."""
        if not self.of_role and not self.databases:
            return self.words
        ours = MARK + json.dumps({"role": self.of_role, "databases": self.databases}, sort_keys=True)
        return f"{self.words} {ours}" if self.words else ours

    def with_database(self, name: str, given: Mapping[str, Sequence[str]] | None) -> BackupRoleRecord:
        """Return this with other rights in one database; None forgets the database."""
        others = {each: rights for each, rights in self.databases.items() if each != name}
        return replace(self, databases=others if given is None else {**others, name: given})


@dataclass(frozen=True)
class Role:
    """A role as it is; one that does not exist yet has nothing."""

    name: str
    exists: bool
    superuser: bool = False
    login: bool = False
    inherits: bool = True
    bypassrls: bool = False
    replication: bool = False
    reads_all: bool = False
    record: BackupRoleRecord = BackupRoleRecord(None, (), {})

    @property
    def quoted(self) -> str:
        return ident(self.name)

    @property
    def subject(self) -> str:
        """Return the role to check rights for; "public" before it exists."""
        return self.name if self.exists else "public"


def read_role(session: Connection, name: str) -> Role:
    """Read a role as it is now."""
    if name.startswith("pg_") or name in ("public", "none") or not 0 < len(name.encode()) < 64:
        raise UsageError(f"{name!r} cannot name a role for backups: choose another --role")
    row = session.execute(
        "select rolsuper, rolcanlogin, rolinherit, rolbypassrls, rolreplication, "
        "pg_catalog.pg_has_role(oid, 'pg_read_all_data', 'usage'), pg_catalog.shobj_description(oid, 'pg_authid') "
        "from pg_catalog.pg_roles where rolname = %s",
        (name,),
    ).fetchone()
    if row is None:
        return Role(name, exists=False)
    flags = dict(zip(("superuser", "login", "inherits", "bypassrls", "replication", "reads_all"), row, strict=False))
    return Role(name, exists=True, **flags, record=BackupRoleRecord.parse(row[-1]))
