"""Restores by a role that owns its database and is no superuser, as managed clouds give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

CreateOn = Callable[..., Address]

OWNED = (
    "create schema s",
    "create type s.mood as enum ('sad', 'glad')",
    "create table s.t (id int generated always as identity primary key, who text not null, m s.mood)",
    "create index on s.t (who)",
    "create table s.u (id int references s.t, check (id > 0))",
    "insert into s.t (who, m) values ('a', 'sad'), ('b', 'glad')",
    "insert into s.u values (1)",
    "create view s.v as select who from s.t",
    "create function s.f() returns trigger language plpgsql as 'begin return new; end'",
    "create trigger g before insert on s.u for each row execute function s.f()",
    "comment on table s.t is 'mine'",
)


@pytest.fixture
def owned_by(create_on: CreateOn, major: int) -> Callable[..., Address]:
    """Makes a database of a role that may do nothing but what an owner may; returns its address as that role."""

    def make(role: str, *statements: str) -> Address:
        address = create_on(major)
        with connect(address) as session:
            known = session.execute("select from pg_roles where rolname = %s", (role,)).fetchone()
            if known is None:
                session.execute(f"create role {role} login password '{role}'".encode())
            session.execute(f"alter database {address.database} owner to {role}".encode())
            session.execute(f"set role {role}".encode())
            for statement in statements:
                session.execute(statement.encode())
        return Address(address.url.replace("postgres@", f"{role}@"), role)

    return make


def restored(ran: Any) -> dict[str, dict[str, str]]:
    """Return what was not restored, by what it is."""
    _, record = ran
    assert record.result is not None, record.error
    return {each["object"]: each for each in record.result["not_restored"]}


def as_superuser(address: Address) -> Address:
    user = address.url.partition("://")[2].partition("@")[0]
    return Address(address.url.replace(f"{user}@", "postgres@"), SUPERUSER[0])


SUPERUSER: list[str] = []


@pytest.fixture(autouse=True)
def superuser(server_of: Callable[[int], PostgresServer], major: int) -> None:
    """The password of the server's own role."""
    SUPERUSER[:] = [server_of(major).password]


FOR_SUPERUSERS = (
    "create function s.log_ddl() returns event_trigger language plpgsql as 'begin end'",
    "create event trigger watch on ddl_command_end execute function s.log_ddl()",
    "comment on event trigger watch is 'watches'",
    "create publication every for all tables",
    "create function s.quiet() returns int language sql "
    "set work_mem to '8MB' set session_replication_role to 'replica' as 'select 1'",
    "create table s.of_stranger (id int)",
    "insert into s.of_stranger values (7)",
    "alter table s.of_stranger owner to stranger",
    "grant select on s.of_stranger to dbo",
)


EXTENSION = ("create extension pg_trgm schema public", "comment on extension pg_trgm is 'ours'")


def test_what_only_a_superuser_may_is_told_before_anything_is_written_and_all_else_comes_back(
    run_backup: RunJob, run_restore: RunJob, owned_by: Callable[..., Address]
) -> None:
    owned_by("stranger")
    source, target, strict, planned = owned_by("dbo", *OWNED), owned_by("dbo"), owned_by("dbo"), owned_by("dbo")
    with connect(as_superuser(source)) as session:
        query = "select from pg_available_extensions where name = 'pg_trgm'"
        extension = EXTENSION if session.execute(query).fetchone() is not None else ()
        for statement in (*FOR_SUPERUSERS, *extension):
            session.execute(statement.encode())
        for name in ("function s.log_ddl()", "function s.quiet()"):
            session.execute(f"alter {name} owner to dbo".encode())
    for address in (target, strict, planned):
        with connect(as_superuser(address)) as session:
            for statement in extension[:1]:
                session.execute(statement.encode())
    assert run_backup(as_superuser(source))[0] == 0
    _, plan = run_restore(planned, "--dry-run")
    assert plan.result is not None, plan.error
    code, refused = failed(run_restore(strict, "--strict"))

    left = restored(run_restore(target))

    assert (code, "event trigger watch" in refused) == (5, True)
    assert {each["object"] for each in plan.result["plan"]["not_restored"]} == left.keys()
    assert left.keys() == {
        "event trigger watch",
        "comment EVENT TRIGGER watch",
        "publication every",
        "setting session_replication_role of function s.quiet()",
        "owner of table s.of_stranger",
        *(["comment EXTENSION pg_trgm"] if extension else []),
    }
    assert left["owner of table s.of_stranger"]["statement"] == "ALTER TABLE s.of_stranger OWNER TO stranger;"
    assert rows(target, "select id from s.of_stranger") == [(7,)]
    assert rows(target, "select proconfig from pg_proc where proname = 'quiet'") == [(["work_mem=8MB"],)]
    with connect(as_superuser(target)) as session:
        for each in left.values():
            session.execute(each["statement"].encode())
    assert rows(target, "select evtname::text from pg_event_trigger") == [("watch",)]
    assert rows(target, "select proconfig from pg_proc where proname = 'quiet'") == [
        (["work_mem=8MB", "session_replication_role=replica"],)
    ]


def test_roles_are_made_as_far_as_who_restores_may_make_them(
    run_backup: RunJob, run_restore: RunJob, owned_by: Callable[..., Address], major: int
) -> None:
    owned_by("lender")
    source, target = owned_by("dbo", *OWNED, "grant select on s.t to lender"), owned_by("maker")
    with connect(as_superuser(source)) as session:
        session.execute("alter role lender bypassrls")
        session.execute("grant pg_monitor to lender")
        assert run_backup(as_superuser(source))[0] == 0
        session.execute("alter role maker createrole; grant dbo to maker")
        session.execute("alter role lender rename to gone")
        try:
            _, record = run_restore(target, "--roles", "create")
        finally:
            for statement in ("drop owned by lender", "drop role if exists lender", "alter role gone rename to lender"):
                with connect(as_superuser(target)) as other:
                    other.execute(statement.encode())

    assert record.result is not None, record.error
    left = {each["object"]: each["statement"] for each in record.result["not_restored"]}
    if major >= 16:  # before that, who may make roles may grant any
        assert left["membership of lender in pg_monitor"].startswith('GRANT "pg_monitor" TO "lender"')
    assert record.result["roles"]["created"] == ["lender"]
    assert "lender: BYPASSRLS in the backup, which maker may not give" in record.result["roles"]["differences"]
    assert rows(as_superuser(target), "select count(*) from s.t") == [(2,)]
