"""Roles of a backup are made again as they were where they are missing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.postgresql.catalog.roles import Membership, RoleRecord, Roles, read_roles
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.restore.rights.role_plan import RolePlan, create_roles, plan_roles

pytestmark = pytest.mark.service


_numbers = itertools.count(1)


PLAIN = {
    "superuser": False,
    "createdb": False,
    "createrole": False,
    "inherit": True,
    "login": False,
    "replication": False,
    "bypassrls": False,
    "connection_limit": -1,
    "valid_until": None,
    "settings": (),
}


def plain(name: str, **changed: Any) -> RoleRecord:
    return RoleRecord(name=name, **{**PLAIN, **changed})


@pytest.fixture
def session(address: Address, postgres: PostgresServer) -> Iterator[Any]:
    """A superuser's; the roles that a test makes are dropped."""
    with connect(address) as session:
        before = {role.name for role in read_roles(session).roles}
        yield session
        session.execute("reset role")
        made = [role.name for role in read_roles(session).roles if role.name not in before]
        for name in made:
            drop_role(session, name)


@pytest.fixture
def prefix() -> str:
    """What names of this test's roles begin with: all tests share a server."""
    return f"r{next(_numbers)}_"


SOURCE = '''
create role {p}owner nologin createdb createrole connection limit 7;
create role "{p}Odd ""one""" noinherit login password 'secret' valid until '2031-02-03 04:05:06+00';
create role {p}readers;
create role {p}staff;
create role {p}alien;
create role {p}mighty superuser replication bypassrls;
grant {p}readers to "{p}Odd ""one""" with admin option;
grant {p}staff to {p}readers;
grant {p}alien to {p}mighty;
grant pg_monitor to {p}readers;
alter role {p}owner set search_path to "$user", public, 'Odd "schema"';
alter role {p}owner set work_mem to '64MB';
alter role {p}owner set app.words to 'it''s, "quoted" \\ and more';
alter role {p}owner set search_path to '';
alter role {p}readers set search_path to "$user", 'Odd "schema"';
alter role {p}readers set "DateStyle" to 'German';
'''


def made(session: Any, prefix: str) -> Roles:
    session.execute(SOURCE.format(p=prefix).encode())
    return read_roles(session)


def drop_role(session: Any, name: str) -> None:
    session.execute(f"drop owned by {ident(name)}; drop role {ident(name)}".encode())


def drop(session: Any, recorded: Roles, prefix: str) -> None:
    for role in recorded.roles:
        if role.name.startswith(prefix):
            drop_role(session, role.name)


def test_roles_come_back_as_they_were_without_passwords(session: Any, address: Address, prefix: str) -> None:
    recorded = made(session, prefix)
    assert "secret" not in recorded.model_dump_json()
    drop(session, recorded, prefix)
    names = [role.name for role in recorded.roles if role.name.startswith(prefix)]
    plan = plan_roles(session, address, names, recorded, create=True)
    create_roles(session, plan)
    odd = f'{prefix}Odd "one"'
    assert plan.describe() == {"created": sorted(names), "without_password": [odd], "differences": [], "joined": []}
    again = read_roles(session)
    assert again.of(names) == recorded.of(names)
    row = session.execute("select rolpassword from pg_authid where rolname = %s", (odd,)).fetchone()
    assert row == (None,)


def test_roles_that_are_there_are_left_alone_and_differences_named(session: Any, address: Address, prefix: str) -> None:
    recorded = made(session, prefix)
    session.execute(f"alter role {prefix}readers login connection limit 3; drop role {prefix}staff".encode())
    session.execute(f"alter role {prefix}readers reset all".encode())
    session.execute(f"revoke pg_monitor from {prefix}readers".encode())
    drop_role(session, f'{prefix}Odd "one"')
    plan = plan_roles(session, address, [f"{prefix}readers"], recorded, create=True)
    assert plan.describe() == {
        "created": [f'{prefix}Odd "one"', f"{prefix}staff"],
        "without_password": [f'{prefix}Odd "one"'],
        "differences": [
            f"{prefix}readers: LOGIN in the target, NOLOGIN in the backup",
            f"{prefix}readers: CONNECTION LIMIT 3 in the target, CONNECTION LIMIT -1 in the backup",
            f"{prefix}readers: other settings (ALTER ROLE … SET) in the target than in the backup",
            f"{prefix}readers: in the backup a member of pg_monitor, in the target not",
        ],
        "joined": [],
    }
    create_roles(session, plan)
    readers = next(role for role in read_roles(session).roles if role.name == f"{prefix}readers")
    assert (readers.login, readers.connection_limit, readers.settings) == (True, 3, ())


def test_missing_roles_are_refused_unless_they_are_to_be_made(session: Any, address: Address, prefix: str) -> None:
    recorded = Roles(roles=(plain(f"{prefix}clerk"),))
    with pytest.raises(RefusedError, match=rf"lacks: {prefix}clerk\. Create them first .CREATE ROLE …, or --roles"):
        plan_roles(session, address, [f"{prefix}clerk"], recorded, create=False)
    assert plan_roles(session, address, ["postgres"], recorded, create=False) == RolePlan()


@pytest.mark.parametrize("recorded", [None, Roles()])
def test_roles_of_which_a_backup_says_nothing_are_refused(
    session: Any, address: Address, prefix: str, recorded: Roles | None
) -> None:
    with pytest.raises(RefusedError, match=f"does not say what they were: {prefix}clerk"):
        plan_roles(session, address, [f"{prefix}clerk"], recorded, create=True)


def test_no_role_of_a_drill_reaches_beyond_its_database(session: Any, address: Address, prefix: str) -> None:
    boss, clerk = f"{prefix}boss", f"{prefix}clerk"
    recorded = Roles(
        roles=(plain(boss).model_copy(update={"superuser": True, "createrole": True}),),
        memberships=(Membership(role="pg_execute_server_program", member=boss, admin=False),),
    )
    plan = plan_roles(session, address, [boss, clerk], recorded, create=True, harmless=True)
    create_roles(session, plan)
    made = {role.name: role for role in read_roles(session).roles}
    assert (made[boss].superuser, made[boss].createrole, made[boss].bypassrls) == (False, False, True)
    assert not made[clerk].bypassrls
    groups = {each.role for each in read_roles(session).memberships if each.member == boss}
    assert groups == {"pg_read_all_data", "pg_write_all_data"}


def test_where_one_cannot_be_made_none_is(session: Any, address: Address, prefix: str) -> None:
    recorded = Roles(roles=(plain(f"{prefix}a"), plain(f"{prefix}b", settings=("work_mem=lots",))))
    plan = plan_roles(session, address, [f"{prefix}a", f"{prefix}b"], recorded, create=True)
    with pytest.raises(HoldfastError, match=r"invalid value for parameter .*none was"):
        create_roles(session, plan)
    assert f"{prefix}a" not in {role.name for role in read_roles(session).roles}


def test_roles_of_an_older_server_come_back(
    session: Any, address: Address, prefix: str, older: Callable[[int], PostgresServer]
) -> None:
    server = older(15)
    with connect(Address(server.url(), server.password)) as source:
        source.execute(f"create role {prefix}a; create role {prefix}b noinherit in role {prefix}a".encode())
        recorded = read_roles(source)
        source.execute(f"drop role {prefix}a, {prefix}b".encode())
    names = [f"{prefix}a", f"{prefix}b"]
    create_roles(session, plan_roles(session, address, names, recorded, create=True))
    there = read_roles(session).of(names)
    assert there.roles == recorded.of(names).roles
    assert there.memberships == (Membership(role=names[0], member=names[1], admin=False, inherit=False, set=True),)
    assert plan_roles(session, address, names, recorded, create=True) == RolePlan()


def test_memberships_of_older_servers_are_granted_in_their_words() -> None:
    assert Membership(role="a", member="b", admin=True).statement() == 'GRANT "a" TO "b" WITH ADMIN OPTION'
    assert Membership(role="a", member="b", admin=False).statement() == 'GRANT "a" TO "b"'
    newer = Membership(role="a", member="b", admin=True, inherit=False, set=True)
    assert newer.statement() == 'GRANT "a" TO "b" WITH ADMIN TRUE, INHERIT FALSE, SET TRUE'
