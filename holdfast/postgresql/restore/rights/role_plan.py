"""Roles at the target of a restore: existing ones, or created on request.

A role belongs to a whole server: an existing one is never changed, and a new one stays, also where the restore fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.common.words import named
from holdfast.postgresql.catalog.roles import Membership, Roles, read_roles
from holdfast.postgresql.connection.session import refusal_of
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import assignment, ident
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from holdfast.postgresql.catalog.roles import RoleRecord
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_ATTRIBUTES_OF_MINE = """
select rolsuper, rolcreatedb, rolreplication, rolbypassrls from pg_catalog.pg_roles where rolname = current_user
"""


@dataclass(frozen=True)
class RolePlan:
    """Planned changes of roles.

    :param created: those that the target lacks.
    :param granted: memberships of theirs, or in them.
    :param differences: of existing roles from the source's; they stay so.
    :param joined: new ones that the restoring role joins, to give them what they own: no superuser may else.
    """

    created: tuple[RoleRecord, ...] = ()
    granted: tuple[Membership, ...] = ()
    differences: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    @property
    def without_password(self) -> tuple[str, ...]:
        """Return the new roles that may log in, and lack a password."""
        return tuple(role.name for role in self.created if role.login)

    def describe(self) -> dict[str, list[str]]:
        """Return it for people and scripts."""
        return {
            "created": [role.name for role in self.created],
            "without_password": list(self.without_password),
            "differences": list(self.differences),
            "joined": list(self.joined),
        }


def plan_roles(
    session: Connection,
    address: Address,
    names: Collection[str],
    recorded: Roles | None,
    *,
    create: bool,
    harmless: bool = False,
    owners: Collection[str] = (),
) -> RolePlan:
    """Check that the roles of a restore exist, or plan to create them.

    :param names: of those that must be there.
    :param owners: those of them that own something.
    :param create: make those that are missing, with what they are members of and their members.
    :param harmless: make all that are missing, and none of them a superuser.
    """
    there = read_roles(session)
    known = {role.name for role in there.roles}
    wanted = recorded.of(names) if create and recorded else Roles()
    if harmless:
        wanted = wanted.harmless(set(names) - known)
    missing = sorted(set(names) - known - {role.name for role in wanted.roles})
    if missing:
        raise RefusedError(_what_is_missing(address, missing, create=create))
    if not create:
        return RolePlan()
    created = tuple(role for role in wanted.roles if role.name not in known)
    new = {role.name for role in created}
    may_not = _may_not_give(session)
    lacking = [
        f"{role.name}: {each.upper()} in the backup" for role in created for each in may_not if getattr(role, each)
    ]
    granted = [
        _grantable(session, membership)
        for membership in wanted.memberships
        if new.intersection((membership.role, membership.member))
    ]
    mine = {each.role for each in granted if each.member == session.info.user and each.set is not False}
    return RolePlan(
        created=tuple(role.model_copy(update=dict.fromkeys(may_not, False)) for role in created),
        granted=tuple(granted),
        differences=(
            *_differences(wanted, there),
            *(f"{each}, which {session.info.user} may not give" for each in lacking),
        ),
        joined=tuple(sorted(new.intersection(owners) - mine)) if may_not else (),
    )


def _grantable(session: Connection, membership: Membership) -> Membership:
    """Return a membership without an ADMIN option that a role's creator has already (16+)."""
    has_it = membership.member == session.info.user and session.info.server_version >= 160000
    return membership.model_copy(update={"admin": False}) if has_it else membership


def _may_not_give(session: Connection) -> tuple[str, ...]:
    """Return the attributes that the session's role may not give to a new one.

    Before PostgreSQL 16 only a superuser may give them, except CREATEDB.
    """
    row = session.execute(_ATTRIBUTES_OF_MINE).fetchone()
    if row is None or row[0]:
        return ()
    is_shared = session.info.server_version >= 160000
    has = {"createdb": row[1] or not is_shared, "replication": is_shared and row[2], "bypassrls": is_shared and row[3]}
    return ("superuser", *(each for each, is_given in has.items() if not is_given))


def _what_is_missing(address: Address, missing: list[str], *, create: bool) -> str:
    lacks = f"the backup names roles that {address.url} lacks"
    if create:
        return f"{lacks}, and does not say what they were: {named(missing)}. Create them first (CREATE ROLE …)"
    return (
        f"{lacks}: {named(missing)}. Create them first (CREATE ROLE …, or --roles create), so that owners and "
        "privileges come back as they were"
    )


def _differences(wanted: Roles, there: Roles) -> Iterator[str]:
    known = {role.name: role for role in there.roles}
    for role in wanted.roles:
        if (other := known.get(role.name)) is not None:
            mine, theirs = role.attributes(), other.attributes()
            for key in mine:
                if mine[key] != theirs[key]:
                    yield f"{role.name}: {theirs[key]} in the target, {mine[key]} in the backup"
            if set(role.settings) != set(other.settings):
                yield f"{role.name}: other settings (ALTER ROLE … SET) in the target than in the backup"
    memberships = {(membership.role, membership.member): membership for membership in there.memberships}
    for membership in wanted.memberships:
        if membership.member in known and (membership.role in known or membership.role.startswith("pg_")):
            found = memberships.get((membership.role, membership.member))
            if found is None:
                yield f"{membership.member}: in the backup a member of {membership.role}, in the target not"
            elif membership.statement() != found.statement() and membership.inherit is not None:
                options = f"other options as a member of {membership.role}"
                yield f"{membership.member}: {options} in the target than in the backup"


def create_roles(session: Connection, plan: RolePlan) -> tuple[NotRestored, ...]:
    """Make the roles of a plan, in one transaction, without passwords.

    :return: the memberships that the session's role may not grant.
    """
    try:
        with session.transaction():
            for role in plan.created:
                session.execute(f"CREATE ROLE {ident(role.name)} {' '.join(role.attributes().values())}".encode())
                for setting in role.settings:
                    session.execute(f"ALTER ROLE {ident(role.name)} SET {assignment(setting)}".encode())
            mine = [Membership(role=name, member=session.info.user, admin=False) for name in plan.joined]
            return tuple(filter(None, (_grant(session, each) for each in (*plan.granted, *mine))))
    except psycopg.Error as error:
        raise HoldfastError(
            f"the roles could not be created ({' '.join(str(error).split())}), and none was: create them by hand, or "
            "restore as a superuser"
        ) from error


def _grant(session: Connection, membership: Membership) -> NotRestored | None:
    if (error := refusal_of(session, membership.statement())) is None:
        return None
    what = f"membership of {membership.member} in {membership.role}"
    return NotRestored(what, words(error), f"{membership.statement()};")
