"""Roles that a database needs, as they are recorded."""

from __future__ import annotations

from holdfast.postgresql.catalog.roles import Membership, RoleRecord, Roles


def role(name: str) -> RoleRecord:
    return RoleRecord(
        name=name, superuser=False, createdb=False, createrole=False, inherit=True, login=False, replication=False,
        bypassrls=False, connection_limit=-1, valid_until=None, settings=(),
    )  # fmt: skip


def member(member: str, of: str) -> Membership:
    return Membership(role=of, member=member, admin=False)


NAMES = ("odd", "readers", "staff", "alien", "mighty")

ROLES = Roles(
    roles=tuple(map(role, NAMES)),
    memberships=(
        member("odd", "readers"),
        member("readers", "staff"),
        member("mighty", "alien"),
        member("readers", "pg_monitor"),
    ),
)


def test_with_a_role_come_its_members_and_what_they_are_members_of() -> None:
    found = ROLES.of(["readers"])
    assert {each.name for each in found.roles} == {"odd", "readers", "staff"}
    # A role that every server has is not recorded, and its membership is kept where the member is.
    assert {(each.role, each.member) for each in found.memberships} == {
        ("readers", "odd"),
        ("staff", "readers"),
        ("pg_monitor", "readers"),
    }
