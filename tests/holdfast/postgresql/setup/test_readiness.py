"""What a look at a real server finds before a backup does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from holdfast.common.errors import BusyError, HoldfastError, UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from holdfast.postgresql.dump.client_floors import Release
from holdfast.postgresql.setup import readiness
from holdfast.postgresql.setup.readiness import check_database, check_server, choose_databases
from holdfast.postgresql.snapshot import export, snapshot
from tests.support.databases.granting import Execute
from tests.support.servers.postgres import Standby

pytestmark = pytest.mark.service

READER = "readiness_reader"


@pytest.fixture
def reader(address: Address, execute: Execute) -> Iterator[Address]:
    """Somebody who may connect and read everything."""
    execute(f"create role {READER} login password 'r' in role pg_read_all_data")
    yield address.as_user(READER, "r")
    execute(f"drop owned by {READER} cascade", f"drop role {READER}")


SUPERUSER = "postgres is a superuser, and backups need to read only"


def whats(found: readiness.Readiness) -> tuple[list[str], list[str]]:
    return [each.what for each in found.problems], [each.what for each in found.warnings]


def test_a_server_that_is_set_up_well_is_ready(address: Address, execute: Execute) -> None:
    execute("create table public.orders (id int)")
    server, database = check_server(address), check_database(address)
    assert (whats(server), whats(database)) == (([], [SUPERUSER]), ([], []))
    assert {
        "server": "18.6",
        "standby": False,
        "exact_position": True,
        "role": "postgres",
    }.items() <= server.facts.items()
    assert (database.facts["tables"], database.facts["encoding"]) == (1, "UTF8")


def test_a_role_without_replication_is_ready_and_told_what_is_not_exact(reader: Address) -> None:
    server = check_server(reader)
    assert whats(server) == (
        [],
        ["the log position of a backup will be approximate, its rows are exact: the role has no REPLICATION right"],
    )
    assert f"alter role {READER} replication" in server.warnings[0].do


@pytest.fixture
def becoming(reader: Address, execute: Execute) -> Iterator[Address]:
    """The reader, whom each log-in makes another role."""
    execute("create role becomes", f"grant becomes to {READER}", f"alter role {READER} set role = becomes")
    yield reader
    execute("drop owned by becomes", "drop role becomes")


def test_a_role_that_becomes_another_as_it_logs_in_is_seen(becoming: Address, execute: Execute) -> None:
    execute("create table public.orders (id int)", f"alter role {READER} connection limit 2")
    server = check_server(becoming)
    problems, warnings = whats(server)
    assert (server.facts["login"], server.facts["role"]) == (READER, "becomes")
    assert any(f"{READER} becomes becomes as it logs in (ALTER ROLE … SET role)" in each for each in warnings)
    assert any("the role's connection limit leaves 2" in each for each in problems)
    (unreadable,) = check_database(becoming).problems
    assert "to becomes" in unreadable.do
    assert READER not in f"{unreadable.what} {unreadable.do}"


def test_who_logs_in_needs_the_right_of_replication_too(becoming: Address, execute: Execute) -> None:
    execute("alter role becomes replication")
    with connect(becoming) as session:
        assert export.why_no_slot(session) == ()
        (why,) = export.why_not_exact(session)
    assert why.what == f"{READER}, who logs in, has no REPLICATION right"
    with export.export_snapshot(becoming) as snapshot:
        assert (snapshot.exact, snapshot.note) == (False, why.what)
    execute(f"alter role {READER} replication")
    with export.export_snapshot(becoming) as snapshot:
        assert snapshot.exact


@pytest.mark.parametrize(("limit", "refused"), [(2, True), (3, False)])
def test_a_role_with_too_few_connections_is_found(reader: Address, execute: Execute, limit: int, refused: bool) -> None:
    execute(f"alter role {READER} connection limit {limit}")
    problems, warnings = whats(check_server(reader))
    said = [each for each in (problems if refused else warnings) if "the role's connection limit leaves" in each]
    assert len(said) == 1
    assert f"leaves {limit} connections" in said[0]
    assert bool(problems) is refused


def test_a_database_with_too_few_connections_is_found(reader: Address, address: Address, execute: Execute) -> None:
    execute(f"alter database {address.database} connection limit 2")
    assert whats(check_database(reader))[0] == [
        "the database's connection limit leaves 2 connections, and a backup needs 3"
    ]


def test_time_outs_that_stay_in_force_are_found(address: Address) -> None:
    with connect(address) as session:
        assert list(readiness._stuck_timeouts(session)) == []
        session.execute("set statement_timeout = '1h'")
        (found,) = readiness._stuck_timeouts(session)
    assert "statement_timeout" in found.what


def test_what_stands_between_sessions_is_found(
    address: Address, new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = iter([address, new_database()])
    monkeypatch.setattr(export, "connect", lambda _: connect(next(places)))
    (found,) = readiness._pooler(address)
    assert "different database" in found.what
    assert "without a pooler" in found.do


def test_transactions_that_would_hold_a_slot_up_are_named(
    address: Address, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "SLOT_WAIT_S", 0.0)
    execute("create table public.orders (id int)")
    with connect(address) as writer:
        writer.execute("begin")
        writer.execute("insert into public.orders values (1)")
        _, found = check_server(address).warnings
        assert f"pid {writer.info.backend_pid} of postgres" in found.what
        writer.execute("rollback")


def test_a_password_that_will_not_do_for_long_is_named(reader: Address, execute: Execute) -> None:
    execute(f"alter role {READER} valid until '2999-01-01'")
    assert len(check_server(reader).warnings) == 1
    with connect(reader) as session:
        execute(f"alter role {READER} valid until '2020-01-01'")
        (found,) = readiness._expiry(session)
    assert "2020-01-01" in found.what


def test_a_missing_pg_dump_is_found_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "version_of", lambda program: None)
    found = readiness.check_clients(18)
    assert found.facts["pg_dump"] is None
    assert "install postgresql-client-18" in found.problems[0].do


def test_clients_below_their_floors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (readiness.check_clients(18).problems, readiness.check_clients(18).warnings) == ((), ())
    monkeypatch.setattr(programs, "version_of", lambda program: Release(18, 5))
    monkeypatch.setattr(readiness, "libpq_release", lambda: Release(13, 23))
    found = readiness.check_clients(18)
    assert found.problems == ()
    warned = [each.what.partition(" is ")[0] for each in found.warnings]
    assert warned == ["pg_dump 18.5", "pg_restore 18.5", "libpq 13.23"]


def test_all_that_is_in_the_way_of_one_database_is_found_together(reader: Address, execute: Execute) -> None:
    execute(
        f"revoke pg_read_all_data from {READER}",
        "create schema hr; create table hr.staff (id int primary key); create sequence hr.numbers",
        "create table public.plans (plan pg_node_tree)",
        "create table public.visits (who int references hr.staff)",
        "select lo_from_bytea(0, 'abc')",
    )
    found = check_database(reader, exclude=["hr.*"])
    assert [each.what.split(" (")[0] for each in found.problems] == [
        f"{READER} may not use the schemas hr, and may not read hr.numbers, hr.staff, "
        "pg_catalog.pg_largeobject, public.plans, public.visits",
        'public.plans: column "plan" has type pg_node_tree, which PostgreSQL writes but cannot read back',
        "with these tables alone nothing could be restored: public.visits refers to hr.staff",
    ]
    assert found.facts["unreadable"] == (
        "hr.numbers",
        "hr.staff",
        "pg_catalog.pg_largeobject",
        "public.plans",
        "public.visits",
    )
    assert (found.facts["unusable_schemas"], found.facts["not_selected"]) == (("hr",), 1)


def test_a_pattern_that_matches_nothing_is_found(address: Address, execute: Execute) -> None:
    execute("create table public.orders (id int)")
    (found,) = check_database(address, ["shop.*"]).problems
    assert "--tables shop.* matches no table" in found.what


def test_a_database_without_a_known_encoding_is_found(new_database: Callable[..., Address]) -> None:
    (found,) = check_database(new_database("encoding SQL_ASCII template template0")).problems
    assert "SQL_ASCII" in found.what


def test_what_a_backup_leaves_out_is_named(reader: Address, execute: Execute) -> None:
    execute(
        "create extension postgres_fdw schema public",
        "create server far foreign data wrapper postgres_fdw",
        "create user mapping for postgres server far options (password 's3cret')",
        "create foreign table public.remote (id int) server far",
        "create unlogged table public.fleeting (id int)",
        "create subscription news connection 'dbname=x' publication p with (connect = false, slot_name = none)",
    )
    try:
        found = check_database(reader)
    finally:
        execute("drop subscription news")
    assert found.problems == ()
    assert found.facts["not_included"] == [
        "foreign table public.remote: its rows are on another server",
        "options of the user mapping of postgres on server far: only a superuser sees them",
        "subscription news: only a superuser can back it up",
    ]
    assert [each.what for each in found.warnings][1:] == ["unlogged tables are kept as they are then: public.fleeting"]


def test_a_table_that_somebody_keeps_locked_is_named(
    address: Address, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "LOOK_WAIT_S", 0.1)
    execute("create table public.orders (id int)")
    with connect(address) as other:
        other.execute("begin")
        other.execute("lock table public.orders in access exclusive mode")
        with pytest.raises(BusyError, match=r"public\.orders by pid"):
            check_database(address)
        other.execute("rollback")


def test_a_server_that_cannot_be_reached_is_a_failure() -> None:
    with pytest.raises(HoldfastError, match="Is the server running"):
        check_server(Address("postgresql://me@127.0.0.1:1/x"))


def test_a_user_who_may_not_connect_is_told_the_grant(address: Address, reader: Address, execute: Execute) -> None:
    execute(f"revoke connect on database {address.database} from public")
    with pytest.raises(HoldfastError, match="grant it CONNECT"):
        check_database(reader)


def test_databases_are_chosen_by_globs_without_templates(address: Address) -> None:
    with connect(address) as session:
        assert choose_databases(session, ["template*", address.database]) == (address.database,)
        assert "template1" not in choose_databases(session, ["*"])
        with pytest.raises(UsageError, match="--databases nothing matches no database; there are: "):
            choose_databases(session, ["nothing"])


@pytest.fixture(scope="module")
def standby(postgres: PostgresServer) -> Iterator[Callable[[], PostgresServer]]:
    """Makes a standby of the tests' server, as it is then."""
    copies: list[PostgresServer] = []

    def make() -> PostgresServer:
        copies.append(Standby(postgres).start())
        return copies[-1]

    yield make
    for each in copies:
        each.stop()


def test_a_standby_is_ready_but_for_what_is_unlogged_and_says_what_it_cancels(
    address: Address, execute: Execute, standby: Callable[[], PostgresServer]
) -> None:
    execute("create table public.orders (id int)", "create unlogged table public.fleeting (id int)")
    server = standby()
    there = Address(server.url(address.database), server.password)
    found = check_server(there)
    assert (found.facts["standby"], found.problems) == (True, ())
    assert [each.what.partition(": ")[2] or each.what for each in found.warnings] == [
        SUPERUSER,
        "the server is a standby",
        "the server is a standby and cancels what is in the way of replay for longer than "
        "max_standby_streaming_delay = 30s (hot_standby_feedback is off)",
    ]
    (unlogged,) = check_database(there).problems
    assert "unlogged tables cannot be read on one (public.fleeting)" in unlogged.what
    assert check_database(there, exclude=["*.fleeting"]).problems == ()
    with snapshot.hold_snapshot(there) as held:
        assert held.snapshot.standby
    with connect(there) as session, pytest.raises(psycopg.Error, match="unlogged"):
        session.execute("select from public.fleeting")
