"""Another owner for everything that a restore creates, or the role that restores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.roles import read_roles
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.dump.sql_tokens import COMMENT, SPACE, Token, statements, text_of, tokens
from holdfast.postgresql.restore.plan.plan import NotRestored, without_superusers
from holdfast.postgresql.restore.rights.target_rights import owner_statements

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.plan import RestorePlan

_GRANTS: Final = ("ACL", "DEFAULT ACL")
_NAMES_ROLES: Final = (*_GRANTS, "POLICY", "USER MAPPING")
_BEFORE_ROLE: Final = frozenset({"AUTHORIZATION", "FOR", "FROM", "ROLE", "TO"})


def owned_by(
    session: Connection, plan: RestorePlan, owner: str | None, created: Collection[str], *, is_trusted: bool
) -> RestorePlan:
    """Return a plan by which everything belongs to one role, or (None) to the restoring one.

    :raises RefusedError: it is a superuser, and not trusted: functions of the source would run with its rights.
    """
    there = read_roles(session).roles
    name = owner or session.info.user
    if not is_trusted and any(role.superuser for role in there if role.name == name):
        raise RefusedError(
            f"{name} is a superuser, and functions of the source that it owned would run with its rights: name another "
            "role with --owner, or say --trust-source where these may do what a superuser may here"
        )
    return with_owner(plan, name, {role.name for role in there}.union(created), is_creator=owner is None)


def with_owner(plan: RestorePlan, owner: str, roles: Collection[str], *, is_creator: bool) -> RestorePlan:
    """Return a plan by which everything belongs to one role; a creator owns it by that.

    Privileges of roles that the target lacks are left out and named: they are not needed to own anything.
    """
    plan = without_superusers(plan)
    owners = {entry.id: old for entry in plan.entries for _, old in owner_statements(entry.sql)}
    entries, left = [], []
    for entry in plan.entries:
        changed = replace(entry, sql=_given(entry, "" if is_creator else owner))
        if entry.kind in _GRANTS:
            old = {owners[need] for need in entry.needs if need in owners}
            if entry.kind == "DEFAULT ACL":
                old = set(owners.values())
            sql = "".join(
                ident(owner) if is_role and each.identifier in old else each.text
                for each, is_role in with_roles(tokens(changed.sql))
            )
            changed, lost = _without_roles(replace(entry, sql=sql), set(plan.roles).difference(roles, {owner}))
            left += lost
        if changed.sql or not entry.sql:
            entries.append(changed)
    return replace(
        plan,
        entries=tuple(entries),
        roles=tuple(sorted({owner}.union(*(_named_roles(entry, plan.roles) for entry in entries)))),
        large_objects=tuple(large_object.model_copy(update={"owner": owner}) for large_object in plan.large_objects),
        not_restored=(*plan.not_restored, *left),
    )


def _given(entry: DumpEntry, owner: str) -> str:
    """Return an entry's SQL with another owner, or none; PostgreSQL's own roles keep theirs."""
    sql = entry.sql
    for statement, old in owner_statements(sql):
        if not old.startswith("pg_"):
            new = f"{statement.rpartition(' OWNER TO ')[0]} OWNER TO {ident(owner)};" if owner else ""
            sql = sql.replace(statement, new, 1)
    return sql


def _without_roles(entry: DumpEntry, lacking: Collection[str]) -> tuple[DumpEntry, list[NotRestored]]:
    """Return an entry without statements that name lacking roles, and these."""
    kept, left = [], []
    for statement in statements(entry.sql):
        text = text_of(statement)
        if gone := _named_roles(replace(entry, sql=text), lacking):
            left.append(NotRestored(entry.label, f"the target has no role {', '.join(sorted(gone))}", text))
        else:
            kept.append(text)
    return replace(entry, sql="\n".join(kept)), left


def _named_roles(entry: DumpEntry, known: Collection[str]) -> set[str]:
    if entry.kind not in _NAMES_ROLES:
        return set()
    return {each.identifier for each, is_role in with_roles(tokens(entry.sql)) if is_role}.intersection(known)


def with_roles(found: Iterable[Token]) -> Iterator[tuple[Token, bool]]:
    """Yield the tokens of SQL, each with whether it may name a role."""
    before, is_list = "", False
    for token in found:
        if token.kind in (SPACE, COMMENT):
            yield token, False
            continue
        is_role = token.is_identifier and (before in _BEFORE_ROLE or (is_list and before == ","))
        is_list = is_role or (is_list and token.text == ",")
        yield token, is_role
        before = token.word or token.text
