"""What belongs to whom while code of a source may run, and that each thing comes to its owner in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import RefusedError
from holdfast.sources.postgresql.catalog.catalog_queries import read_tables
from holdfast.sources.postgresql.catalog.roles import Roles, read_roles
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.parallel import Sessions
from holdfast.sources.postgresql.dump.toc import DumpEntry
from holdfast.sources.postgresql.restore.plan.plan import PlannedTable, RestorePlan
from holdfast.sources.postgresql.restore.rights.loading_role import (
    LoadingRole,
    check_namesakes,
    hand_over,
    lend,
    prepare,
)
from tests.support.databases.planned_shop import entry

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]
LOGIN, PLAIN, MAKER, SUPER = (f"role_{name}" for name in ("login", "plain", "maker", "super"))


@pytest.fixture
def session(begun: Session) -> Iterator[Session]:
    begun.execute(
        f"create role {LOGIN}; create role {PLAIN}; create role {MAKER} createrole bypassrls; "
        f"create role {SUPER} superuser".encode()
    )
    yield begun
    begun.execute(f"drop owned by {LOGIN}, {PLAIN}, {MAKER}, {SUPER} cascade".encode())
    begun.execute(f"drop role {LOGIN}, {PLAIN}, {MAKER}, {SUPER}".encode())


def owned(number: int, kind: str, name: str, owner: str, needs: tuple[int, ...] = ()) -> DumpEntry:
    sql = f"CREATE {kind} public.{name} …;\nALTER {kind} public.{name} OWNER TO {owner};"
    return entry(number, kind, name, needs, sql, oid=number)


def plan(*entries: DumpEntry, **more: Any) -> RestorePlan:
    return RestorePlan(tables=(), entries=entries, sequences=(), materialized_views=(), roles=(), **more)


def recorded(session: Session) -> Roles:
    """Return what a backup of a source records in which these roles are ordinary ones."""
    return read_roles(session).of((PLAIN, SUPER))


def test_an_ordinary_owners_namesake_that_is_a_superuser_is_refused(session: Session) -> None:
    wanted = plan(owned(1, "TABLE", "a", SUPER), owned(2, "TABLE", "b", PLAIN))
    session.execute(f"alter role {SUPER} nosuperuser".encode())
    ordinary = recorded(session)
    check_namesakes(session, wanted, ordinary)
    session.execute(f"alter role {SUPER} superuser".encode())
    with pytest.raises(
        RefusedError, match=f"superusers here, and ordinary roles in the source: {SUPER}\\. Functions of"
    ):
        check_namesakes(session, wanted, ordinary)
    check_namesakes(session, wanted, recorded(session))  # a superuser there, too
    check_namesakes(session, wanted, None)
    check_namesakes(session, plan(owned(2, "TABLE", "b", PLAIN)), ordinary)


def test_the_log_in_is_a_member_of_owners_and_holds_what_belongs_to_powerful_ones(session: Session) -> None:
    mine, theirs = owned(1, "TABLE", "mine", PLAIN), owned(2, "TABLE", "theirs", SUPER)
    grants = f"GRANT SELECT ON TABLE public.theirs TO {SUPER};\nGRANT SELECT ON TABLE public.theirs TO {PLAIN};"
    acl = entry(3, "ACL", "TABLE theirs", [2], grants)
    made, role = prepare(session, plan(mine, theirs, acl), LOGIN)
    assert made.login == LOGIN
    assert made.sql_of(mine) == mine.sql
    assert made.sql_of(theirs) == theirs.sql.replace(f"OWNER TO {SUPER};", f"OWNER TO {LOGIN};")
    assert made.sql_of(acl).strip() == f"GRANT SELECT ON TABLE public.theirs TO {PLAIN};"
    assert role == LoadingRole(
        LOGIN,
        (("table public.theirs", f"ALTER TABLE public.theirs OWNER TO {SUPER};"), (acl.label, acl.sql)),
        frozenset(),
    )
    members = "select roleid::regrole::text from pg_auth_members where member = %s::regrole"
    assert session.execute(members, (LOGIN,)).fetchall() == [(PLAIN,)]


@pytest.mark.parametrize(
    ("attributes", "passes"),
    [
        ("nocreaterole bypassrls", True),
        ("superuser nobypassrls", True),
        ("nobypassrls", False),
        ("nocreaterole", False),
    ],
)
def test_it_passes_policies_only_where_a_powerful_owner_does(session: Session, attributes: str, passes: bool) -> None:
    session.execute(f"alter role {MAKER} nobypassrls; alter role {MAKER} {attributes}".encode())
    prepare(session, plan(owned(1, "TABLE", "a", MAKER)), LOGIN)
    found = session.execute("select rolbypassrls from pg_roles where rolname = %s", (LOGIN,)).fetchone()
    assert found == (passes,)


def test_the_powerful_are_those_of_the_first_attempt(session: Session) -> None:
    wanted = plan(owned(1, "TABLE", "a", PLAIN), owned(2, "TABLE", "b", SUPER))
    first, _ = prepare(session, wanted, LOGIN)
    session.execute(f"alter role {PLAIN} superuser".encode())
    again, _ = prepare(session, wanted, LOGIN)
    assert again.runs == first.runs


@pytest.mark.parametrize(("bypasses", "empty"), [(True, set()), (False, {("public", "v")})])
def test_a_view_stays_empty_whose_owner_would_not_see_all_rows(
    session: Session, bypasses: bool, empty: set[tuple[str, str]]
) -> None:
    if not bypasses:
        session.execute(f"alter role {MAKER} nobypassrls".encode())
    view = owned(2, "MATERIALIZED VIEW", "v", MAKER, (1,))
    policy = entry(3, "ROW SECURITY", "a", [1], "ALTER TABLE public.a ENABLE ROW LEVEL SECURITY;")
    policy = replace(policy, section="post-data")
    _, role = prepare(session, plan(owned(1, "TABLE", "a", PLAIN), view, policy), LOGIN)
    assert role.kept_empty == empty
    _, role = prepare(session, plan(owned(1, "TABLE", "a", PLAIN), view), LOGIN)
    assert role.kept_empty == set()


def test_what_owners_lack_is_lent_to_the_log_in(session: Session) -> None:
    session.execute(
        f"create schema shop; create table shop.closed (id int); alter table shop.closed owner to {PLAIN};"
        f"revoke all on shop.closed from {PLAIN}; create schema lib; "
        "create function lib.f() returns int language sql as 'select 1'; revoke execute on function lib.f() from public"
        .encode()
    )  # fmt: skip
    [found] = [each for each in read_tables(session) if each.name == "closed"]
    made = plan(entry(1, "TABLE", "closed"), beside=False)
    made = replace(made, tables=(PlannedTable(source=found, target=found, rows=0, size=0),))
    lend(session, made, LoadingRole(LOGIN, (), frozenset()))
    lend(session, made, LoadingRole(LOGIN, (), frozenset()))
    rights = session.execute(
        "select has_schema_privilege(%(login)s, 'shop', 'usage'), has_schema_privilege(%(login)s, 'lib', 'usage'), "
        "has_table_privilege(%(login)s, 'shop.closed', 'truncate'), has_function_privilege(%(login)s, 'lib.f()', "
        "'execute'), has_schema_privilege(%(login)s, 'shop', 'create')",
        {"login": LOGIN},
    ).fetchone()
    assert rights == (True, True, True, True, False)


def test_each_thing_comes_to_its_owner_once_and_what_cannot_is_named(session: Session, address: Address) -> None:
    session.execute(f"create table public.a (id int); alter table public.a owner to {LOGIN}".encode())
    gone = f"ALTER TABLE public.gone OWNER TO {SUPER};"
    role = LoadingRole(
        LOGIN, (("table public.a", f"ALTER TABLE public.a OWNER TO {SUPER};"), ("table public.gone", gone)), frozenset()
    )
    with Sessions(address, 1) as sessions:
        [left] = hand_over(sessions, role)
        assert (left.what, left.statement) == ("owner of table public.gone", gone)
        assert 'relation "public.gone" does not exist' in left.reason
        session.execute(f"alter table public.a owner to {PLAIN}".encode())
        assert hand_over(sessions, role) == (left,)
    owner = session.execute("select relowner::regrole::text from pg_class where oid = 'public.a'::regclass").fetchone()
    assert owner == (PLAIN,)
