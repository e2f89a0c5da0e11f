"""Rights are given and taken back on a real server, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.backup_role import read_role
from holdfast.postgresql.setup.schema_rights import SchemaRights, read_schemas
from tests.support.databases.granting import Execute, exists, in_the_way, remove, rights, run_script, setup

pytestmark = pytest.mark.service


@pytest.mark.parametrize("per_schema", [False, True])
def test_a_new_role_gets_what_a_backup_needs_and_a_second_set_up_changes_nothing(
    shop: Address, role: str, execute: Execute, per_schema: bool
) -> None:
    execute(f"revoke connect on database {shop.database} from public")
    assert setup(shop, role, per_schema=per_schema).parts
    assert in_the_way(shop, role) == []
    with connect(shop) as session:
        made = read_role(session, role)
    assert (made.login, made.superuser, made.bypassrls, made.replication) == (True, False, False, False)
    assert made.reads_all is not per_schema
    assert grants.plan_setup(shop, [shop.database], role, per_schema=per_schema).parts == ()
    remove(shop, role)
    assert not exists(shop, role)


def test_a_role_that_becomes_another_as_it_logs_in_is_refused(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login", f"alter role {role} in database {shop.database} set role = postgres")
    with pytest.raises(RefusedError, match=r"becomes postgres as it logs in, .* in database .* reset role, or name"):
        grants.plan_setup(shop, [shop.database], role)
    grants.plan_setup(shop, ["postgres"], role)


def test_what_is_made_later_can_be_read_and_is_taken_back_too(shop: Address, role: str, execute: Execute) -> None:
    setup(shop, role, per_schema=True)
    execute("create table hr.later (id serial)")
    assert in_the_way(shop, role) == []
    # A schema that is new needs another look, which adds just that.
    execute("create schema newer", "create table newer.t (id int)")
    assert in_the_way(shop, role) == [f"{role} may not use the schemas newer, and may not read newer.t"]
    (part,) = setup(shop, role, per_schema=True).parts
    assert [change.why for change in part.changes] == [
        "read schema newer, now and later",
        "what was given, for holdfast source remove",
    ]
    assert in_the_way(shop, role) == []
    remove(shop, role)
    assert not exists(shop, role)


def test_row_level_security_is_passed_only_where_there_is_some(shop: Address, role: str, execute: Execute) -> None:
    execute("alter table hr.staff enable row level security")
    setup(shop, role, replication=True)
    assert in_the_way(shop, role) == []
    with connect(shop) as session:
        made = read_role(session, role)
    assert (made.bypassrls, made.replication) == (True, True)


@pytest.mark.parametrize("options", [{}, {"per_schema": True}, {"replication": True}])
def test_a_role_that_was_there_is_afterwards_just_what_it_was(
    shop: Address, role: str, execute: Execute, options: dict[str, bool]
) -> None:
    execute(
        f"create role {role} nologin",
        f"comment on role {role} is 'the night''s reports'",
        f"grant usage on schema hr to {role}",
        f"grant select, insert on hr.staff to {role}",
        f"alter default privileges in schema public grant select on tables to {role}",
        "alter table public.orders enable row level security",
    )
    before = rights(shop, role)
    setup(shop, role, **options)
    assert in_the_way(shop, role) == []
    execute("create table hr.later ()")
    assert rights(shop, role) != before
    remove(shop, role)
    assert rights(shop, role) == before
    assert remove(shop, role).parts == ()


def test_a_role_that_can_do_all_already_is_left_as_it_is(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login in role pg_read_all_data")
    before = rights(shop, role)
    assert setup(shop, role).parts == ()
    assert remove(shop, role).parts == ()
    assert rights(shop, role) == before
    assert setup(shop, "postgres").notes == (
        "postgres is a superuser and needs nothing: name another role with --role",
    )


def test_a_role_keeps_what_its_other_databases_need(
    shop: Address, role: str, new_database: Callable[..., Address]
) -> None:
    other = new_database()
    assert len(setup(shop, role, other).parts) == 2
    assert remove(shop, role).notes == (
        f"{role} keeps what {other.database} needs: setup has made it ready for that, too",
    )
    assert in_the_way(other, role) == []
    remove(other, role)
    assert not exists(shop, role)


def test_a_database_that_was_dropped_keeps_no_role_alive(
    shop: Address, role: str, new_database: Callable[..., Address], execute: Execute
) -> None:
    other = new_database()
    setup(shop, role, other)
    execute(f"drop database {other.database}")
    remove(shop, role)
    assert not exists(shop, role)


def test_a_role_that_owns_something_is_not_dropped_and_what_it_owns_is_named(
    shop: Address, role: str, execute: Execute
) -> None:
    setup(shop, role)
    execute(f"alter table hr.staff owner to {role}")
    with pytest.raises(RefusedError, match=r"owns table hr\.staff, so it is not dropped.*--keep-role"):
        remove(shop, role)
    assert in_the_way(shop, role) == []
    remove(shop, role, keep_role=True)
    assert exists(shop, role)
    assert in_the_way(shop, role) != []


def test_a_role_with_rights_from_others_is_not_dropped_and_nothing_is_changed(
    shop: Address, role: str, execute: Execute
) -> None:
    setup(shop, role)
    execute(f"grant insert on public.orders to {role}")
    before = rights(shop, role)
    with pytest.raises(RefusedError, match=r"privileges for table public.orders.*nothing was changed"):
        remove(shop, role)
    assert rights(shop, role) == before


def test_whoever_may_not_do_it_is_told_and_nothing_is_changed(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login password 'p'")
    before = rights(shop, role)
    login = shop.as_user(role, "p")
    with pytest.raises(HoldfastError, match=r"permission denied.*nothing was changed: run it as a superuser"):
        setup(login, role)
    assert rights(shop, role) == before


def test_what_another_gives_at_the_same_time_is_found_before_anything_counts(
    shop: Address, role: str, execute: Execute
) -> None:
    execute(f"create role {role} login noinherit")
    setup(shop, role)
    # As another grantor's, this membership survives the REVOKE.
    execute(
        "create role grants_other superuser",
        "grant pg_read_all_data to grants_other with admin option",
        f"grant pg_read_all_data to {role} granted by grants_other",
    )
    try:
        with pytest.raises(RefusedError, match="still a member of pg_read_all_data, by grants_other; nothing was"):
            remove(shop, role)
        assert in_the_way(shop, role) == []
    finally:
        execute(f"revoke pg_read_all_data from {role} granted by grants_other", "drop role grants_other")


@pytest.mark.parametrize("name", ["public", "none", "pg_backup", "", "x" * 64])
def test_a_name_that_no_role_can_have_is_refused(address: Address, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a role"):
        grants.plan_setup(address, [address.database], name)


def test_the_script_does_what_running_does_whatever_the_names(
    postgres: PostgresServer, address: Address, tmp_path: Path, execute: Execute
) -> None:
    odd, role = """o'd"d =\\ base""", "b\"äck'up \\role"
    quoted = '"' + odd.replace('"', '""') + '"'
    execute(f"create database {quoted}")
    strange = address.at_database(odd)
    try:
        with connect(strange) as session:
            session.execute('create schema "a\n; drop""x"; create table "a\n; drop""x"."t\'" (id int)')
            session.execute(f"revoke connect on database {quoted} from public".encode())
        plan = grants.plan_setup(strange, [odd, address.database], role, per_schema=True, replication=True)
        run_script(postgres, grants.script(plan), address, tmp_path)
        assert grants.plan_setup(strange, [odd, address.database], role, per_schema=True, replication=True).parts == ()
        with connect(strange) as session:
            assert read_role(session, role).login
        plan = grants.plan_remove(strange, [odd, address.database], role)
        run_script(postgres, grants.script(plan), address, tmp_path)
        assert not exists(address, role)
    finally:
        execute(f"drop database {quoted}")
    with pytest.raises(RefusedError, match="use --run"):
        grants.script(grants.Plan("r", (grants.DatabaseGrants("two\nlines", ()),)))


def test_a_connection_that_breaks_in_the_middle_says_what_was_done(
    shop: Address, role: str, new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_database()
    plan = grants.plan_setup(shop, [shop.database, other.database], role)

    def connect_once(address: Address) -> psycopg.Connection[tuple[Any, ...]]:
        if address.database == other.database:
            raise HoldfastError("gone")
        return connect(address)

    monkeypatch.setattr(grants, "connect", connect_once)
    with pytest.raises(HoldfastError, match=f"in {other.database}: gone; done before: {shop.database}$"):
        grants.run(shop, plan)


def test_large_objects_can_be_read_where_there_are_some(shop: Address, role: str, execute: Execute) -> None:
    setup(shop, role, per_schema=True)
    execute("select lo_from_bytea(0, 'abc')")
    assert in_the_way(shop, role) == [f"{role} may not read pg_catalog.pg_largeobject"]
    (part,) = setup(shop, role, per_schema=True).parts
    assert [change.why for change in part.changes] == [
        "read all large objects, now and later",
        "what was given, for holdfast source remove",
    ]
    assert in_the_way(shop, role) == []
    with connect(shop.as_user(role, "p")) as session:
        assert session.execute("select count(*) from pg_largeobject").fetchone() == (1,)
    remove(shop, role)
    assert not exists(shop, role)


@pytest.fixture
def administrator(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as session:
        yield session
        for role in ("keeper", "keeper_reader"):
            session.execute(f"drop role if exists {role}".encode())


def test_the_reader_can_read_and_has_no_replication_and_a_second_plan_is_empty(
    administrator: psycopg.Connection[Any], address: Address
) -> None:
    administrator.execute("create table public.t (id int)")
    database = [address.database]
    grants.run(address, grants.plan_setup(address, database, "keeper", replication=True))
    (plan,) = grants.plan_reader(address, database, "keeper")
    assert plan.notes == (
        "keeper_reader reads rows for keeper, without its REPLICATION right, once it has the same password: set it in "
        'psql with \\password "keeper_reader", or one of its own in ~/.pgpass',
    )
    grants.run(address, plan)
    rights = "select rolreplication, has_table_privilege(oid, 'public.t', 'select') from pg_roles where rolname = %s"
    assert administrator.execute(rights, ("keeper_reader",)).fetchone() == (False, True)
    assert administrator.execute(rights, ("keeper",)).fetchone() == (True, True)
    (again,) = grants.plan_reader(address, database, "keeper")
    assert (again.parts, again.notes) == ((), ())
    grants.run(address, grants.plan_remove(address, database, "keeper_reader"))
    assert administrator.execute(rights, ("keeper_reader",)).fetchone() is None


def test_a_superuser_has_no_reader(administrator: psycopg.Connection[Any], address: Address) -> None:
    assert list(grants.plan_reader(address, [address.database], "postgres")) == []


def by_name(address: Address, role: str) -> dict[str, SchemaRights]:
    with connect(address) as session:
        return {each.name: each for each in read_schemas(session, read_role(session, role))}


def test_rights_are_read_as_the_server_sees_them(shop: Address, role: str, execute: Execute) -> None:
    execute("create extension pg_trgm schema public; create schema empty")
    before: dict[str, Any] = by_name(shop, role)
    assert {name: (each.lacks, each.had) for name, each in before.items()} == {
        "empty": (("usage",), ()),
        "hr": (("usage", "tables", "sequences"), ()),
        "public": (("tables", "sequences"), ()),
    }
    assert before["hr"].owners == ("postgres",)
    execute(f"create role {role} login", f"grant usage on schema hr to {role}", f"grant select on hr.staff to {role}",
            f"alter default privileges in schema hr grant select on sequences to {role}",
            "grant select on all sequences in schema hr to public")  # fmt: skip
    hr = by_name(shop, role)["hr"]
    assert hr.lacks == ()
    assert hr.had == (
        'USAGE ON SCHEMA "hr"', 'SELECT ON TABLE "hr"."staff"', "defaults of postgres for sequences",
    )  # fmt: skip


def test_what_the_role_owns_itself_needs_no_default_of_its_own(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role}", f"alter table hr.staff owner to {role}", f"alter schema hr owner to {role}")
    assert by_name(shop, role)["hr"].owners == ("postgres",)
    execute(f"alter sequence hr.numbers owner to {role}")
    assert by_name(shop, role)["hr"].owners == ()
