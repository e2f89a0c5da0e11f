"""Restores by a role that owns its database and is no superuser, as managed clouds give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.sources.postgresql import objects
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.session import connect
from tests.sparkjobs.test_rows_first import lost, rows
from tests.support.jobs import RunJob

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
MAJORS = [18, *(pytest.param(major, marks=pytest.mark.exhaustive) for major in (14, 15, 16, 17))]


@pytest.fixture(params=MAJORS)
def major(request: pytest.FixtureRequest) -> int:
    """The version of source and target."""
    found: int = request.param
    return found


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


@pytest.mark.parametrize(
    ("options", "schema"),
    [((), "s"), (("--tables", "s.*"), "s"), (("--map", "s=other"), "other")],
    ids=["everything", "tables", "map"],
)
def test_an_owner_restores_what_is_the_owners(
    run_backup: RunJob,
    run_restore: RunJob,
    owned_by: Callable[..., Address],
    options: tuple[str, ...],
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = owned_by("dbo", *OWNED), owned_by("dbo")
    assert run_backup(source)[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr(objects, "hide_rows", lost)
        assert run_restore(target, *options)[0] == 1

    left = restored(run_restore(target, *options))  # it goes on

    assert not {name for name in left if not name.startswith("view s.v")}
    assert rows(target, f"select * from {schema}.t order by id") == rows(source, "select * from s.t order by id")
    assert rows(target, f"select * from {schema}.u") == [(1,)]


def test_an_owner_takes_back_what_an_ended_restore_left(
    run_backup: RunJob, run_restore: RunJob, owned_by: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = owned_by("dbo", *OWNED), owned_by("dbo")
    assert run_backup(source)[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr(objects, "hide_rows", lost)
        assert run_restore(target, "--tables", "s.t")[0] == 1

    restored(run_restore(target, "--tables", "s.*", "--map", "s=other"))

    assert rows(target, "select relname::text from pg_class where relnamespace = (select to_regnamespace('s'))") == []
