"""Everything belongs to one role of the target, whoever owned it in the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

SHOP = (
    "create schema own_a authorization own_a",
    "set role own_a",
    "create table own_a.t (id serial primary key)",
    "insert into own_a.t select from generate_series(1, 3)",
    "create function own_a.f() returns int language sql security definer as 'select 1'",
    "grant select on own_a.t to own_reader",
    "grant select on own_a.t to own_gone with grant option",
    "revoke all on function own_a.f() from public",
    "alter default privileges in schema own_a grant select on tables to own_reader",
    "reset role",
    "set role own_b",
    "create table public.u (id int)",
    "create policy p on public.u to own_reader using (true)",
    "reset role",
)

OWNED = """
select distinct pg_get_userbyid(relowner)::text from pg_class
where relnamespace in ('own_a'::regnamespace, 'public'::regnamespace)
union select pg_get_userbyid(proowner) from pg_proc where proname = 'f'
union select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'own_a'
"""
MAY = """
select has_table_privilege('own_reader', 'own_a.t', 'select'), has_function_privilege('own_new', 'own_a.f()', 'execute')
"""


@pytest.fixture
def backed_up(create_database: Callable[..., Address], run_backup: RunJob) -> Iterator[None]:
    """A backup of objects of two owners, who are gone now, as one of the roles with privileges is."""
    address = create_database()
    with connect(address) as session:
        for name in ("own_a", "own_b", "own_reader", "own_gone"):
            session.execute(f"create role {name}".encode())
        session.execute("create role own_new login password 'p'")
        session.execute("grant create on schema public to own_b")
        for statement in SHOP:
            session.execute(statement.encode())
    assert run_backup(address)[0] == 0
    with connect(address) as session:
        for name in ("own_a", "own_b", "own_gone"):
            session.execute(f"drop owned by {name} cascade".encode())
            session.execute(f"drop role {name}".encode())
    yield
    with connect(address.at_database("postgres")) as session:
        for (database,) in session.execute("select datname from pg_database where not datistemplate").fetchall():
            with connect(address.at_database(database)) as there:
                for name in ("own_reader", "own_new"):
                    there.execute(f"drop owned by {name} cascade".encode())
        for name in ("own_reader", "own_new"):
            session.execute(f"drop role {name}".encode())


def test_everything_is_given_to_one_role(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    code, message = failed(run_restore(target))
    assert (code, "own_a, own_b, own_gone" in message) == (5, True)
    code, record = run_restore(target, "--owner", "own_new")
    assert code == 0, record.error
    with connect(target) as session:
        assert session.execute(OWNED).fetchall() == [("own_new",)]
        assert session.execute(MAY).fetchone() == (True, True)
        assert session.execute("select count(*) from own_a.t").fetchone() == (3,)
    assert record.result is not None
    left = {each["reason"] for each in record.result["not_restored"]}
    assert left == {"the target has no role own_gone", "the target has no role own_b"}


def test_who_restores_keeps_everything_unless_it_is_a_superuser(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    code, message = failed(run_restore(target, "--no-owner"))
    assert (code, "postgres is a superuser" in message) == (5, True)
    with connect(target) as session:
        session.execute(f"alter database {target.database} owner to own_new".encode())
    try:
        code, record = run_restore(target.as_user("own_new", "p"), "--no-owner")
        assert code == 0, record.error
        with connect(target) as session:
            assert session.execute(OWNED).fetchall() == [("own_new",)]
            assert session.execute(MAY).fetchone() == (True, True)
    finally:
        with connect(target) as session:
            session.execute(f"alter database {target.database} owner to postgres".encode())


@pytest.mark.exhaustive
def test_with_the_sources_trust_a_superuser_may_own_everything(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    code, record = run_restore(target, "--no-owner", "--trust-source", "--tables", "own_a.t")
    assert code == 0, record.error
    with connect(target) as session:
        assert session.execute(OWNED).fetchall() == [("postgres",)]
