"""Record of the roles that own or may use objects of a database.

Passwords are neither read nor kept.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from holdfast.postgresql.catalog.record import CatalogRecord
from holdfast.postgresql.connection.sql import ident, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.postgresql.connection.session import Connection

_ATTRIBUTES = {
    "superuser": "SUPERUSER",
    "createdb": "CREATEDB",
    "createrole": "CREATEROLE",
    "inherit": "INHERIT",
    "login": "LOGIN",
    "replication": "REPLICATION",
    "bypassrls": "BYPASSRLS",
}


class RoleRecord(CatalogRecord):
    """A role as it was in the source.

    :param valid_until: of its password, as PostgreSQL writes it.
    :param settings: as `name=value`; those for one database only are that database's own, and not here.
    """

    name: str
    superuser: bool
    createdb: bool
    createrole: bool
    inherit: bool
    login: bool
    replication: bool
    bypassrls: bool
    connection_limit: int
    valid_until: str | None
    settings: tuple[str, ...]

    def harmless(self) -> RoleRecord:
        """Return the same role without attributes that reach beyond its database."""
        lacks = dict.fromkeys(("superuser", "createdb", "createrole", "replication"), False)
        return self.model_copy(update={**lacks, "bypassrls": self.bypassrls or self.superuser})

    def attributes(self) -> dict[str, str]:
        """Return the role's attributes in the words of CREATE ROLE."""
        said = {key: word if getattr(self, key) else f"NO{word}" for key, word in _ATTRIBUTES.items()}
        until = f"VALID UNTIL {literal(self.valid_until or 'infinity')}"
        return {**said, "limit": f"CONNECTION LIMIT {self.connection_limit}", "until": until}


class Membership(CatalogRecord):
    """Membership of one role in another.

    :param inherit: and `set`: None where the source was older than PostgreSQL 16.
    """

    role: str
    member: str
    admin: bool
    inherit: bool | None = None
    set: bool | None = None

    def statement(self) -> str:
        """Return the GRANT statement."""
        options = {"ADMIN": self.admin or None, "INHERIT": self.inherit, "SET": self.set}
        said = ", ".join(f"{name} {str(value).upper()}" for name, value in options.items() if value is not None)
        if self.inherit is None:  # these words are known to all versions
            said = "ADMIN OPTION" if self.admin else ""
        return f"GRANT {ident(self.role)} TO {ident(self.member)}{f' WITH {said}' if said else ''}"


class Roles(CatalogRecord):
    """Roles with rights in a database, and their memberships.

    They own or may use something there, are members of such a role, or are groups that any of these is a member
    of.
    """

    roles: tuple[RoleRecord, ...] = ()
    memberships: tuple[Membership, ...] = ()

    def harmless(self, names: Iterable[str]) -> Roles:
        """Return these roles as a server may have them that trusts none of them.

        Those that are not recorded are added.

        Of PostgreSQL's own groups only the two are kept that give rights in a database: others run programs, and read
        and write files. Superusers become members of both, since what they own needs to read and write as it could.

        :param names: of those that must be there.
        """
        unrecorded = sorted(set(names) - {role.name for role in self.roles})
        kept = [
            membership
            for membership in self.memberships
            if not membership.role.startswith("pg_") or membership.role in _DATA
        ]
        lent = [
            Membership(role=group, member=role.name, admin=False)
            for role in self.roles
            if role.superuser
            for group in _DATA
        ]
        return Roles(
            roles=tuple(role.harmless() for role in (*self.roles, *map(_plain, unrecorded))),
            memberships=(*kept, *lent),
        )

    def of(self, names: Iterable[str]) -> Roles:
        """Return the part that concerns the named roles."""
        known = {role.name for role in self.roles}
        members, groups = defaultdict(set), defaultdict(set)
        for membership in self.memberships:
            members[membership.role].add(membership.member)
            groups[membership.member].add(membership.role)
        found = _closure(_closure(known.intersection(names), members), groups)
        return Roles(
            roles=tuple(role for role in self.roles if role.name in found),
            memberships=tuple(
                membership for membership in self.memberships if {membership.role, membership.member} <= found
            ),
        )


_DATA = ("pg_read_all_data", "pg_write_all_data")


def _plain(name: str) -> RoleRecord:
    return RoleRecord(
        name=name,
        superuser=False,
        createdb=False,
        createrole=False,
        inherit=True,
        login=False,
        replication=False,
        bypassrls=False,
        connection_limit=-1,
        valid_until=None,
        settings=(),
    )


def _closure(names: Iterable[str], edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        found |= waiting
        waiting = {other for name in waiting for other in edges.get(name, ())} - found
    return found


_ROLES = """
select rolname as name, rolsuper as superuser, rolcreatedb as createdb, rolcreaterole as createrole,
  rolinherit as inherit, rolcanlogin as login, rolreplication as replication, rolbypassrls as bypassrls,
  rolconnlimit as connection_limit, nullif(rolvaliduntil, 'infinity')::text as valid_until,
  coalesce(rolconfig, '{}') as settings
from pg_catalog.pg_roles where rolname !~ '^pg_' order by rolname
"""

# Of the same membership there may be several grants, by different roles.
_MEMBERSHIPS = """
select pg_catalog.pg_get_userbyid(roleid)::text as role, pg_catalog.pg_get_userbyid(member)::text as member,
  bool_or(admin_option) as admin{options}
from pg_catalog.pg_auth_members where pg_catalog.pg_get_userbyid(member) !~ '^pg_' group by 1, 2 order by 1, 2
"""
_OPTIONS = ", bool_or(inherit_option) as inherit, bool_or(set_option) as set"


def read_roles(session: Connection) -> Roles:
    """Read all roles of the session's server, and their memberships."""
    options = _OPTIONS if session.info.server_version >= 160000 else ""
    return Roles(
        roles=tuple(RoleRecord(**row) for row in _dicts(session, _ROLES)),
        memberships=tuple(Membership(**row) for row in _dicts(session, _MEMBERSHIPS.format(options=options))),
    )


def _dicts(session: Connection, query: str) -> Iterator[dict[str, Any]]:
    cursor = session.execute(query.encode())
    names = [column.name for column in cursor.description or ()]
    return (dict(zip(names, row, strict=True)) for row in cursor)
