from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import BusyError, HoldfastError, RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot import snapshot as module
from holdfast.postgresql.snapshot.export import Snapshot, SnapshotGoneError
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot, open_snapshot
from holdfast.postgresql.snapshot.table_reader import cut, open_reader
from holdfast.postgresql.values.decode import Decoder
from tests.support.jobs.command import until

pytestmark = pytest.mark.service


@pytest.fixture
def session(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as connection:
        connection.execute("create table public.orders as select i as id from generate_series(1, 1000) i")
        yield connection


def rows(address: Address, held: HeldSnapshot, name: str = "orders") -> int:
    table = next(table for table in held.catalog.tables if table.name == name)
    decoder = Decoder(table.columns)
    with open_reader(address, held.snapshot, [table]) as reader:
        return sum(batch.num_rows for piece in cut(table) for batch in reader.batches(piece, decoder))


def test_readers_see_the_moment_of_the_snapshot_and_nothing_later(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    with hold_snapshot(address) as held:
        session.execute("insert into public.orders select 0 from generate_series(1, 500)")
        session.execute("delete from public.orders where id <= 10")
        assert rows(address, held) == 1000
    assert held.snapshot.exact
    assert held.snapshot.timeline == 1


def test_no_slot_is_left_behind(address: Address, session: psycopg.Connection[Any]) -> None:
    with hold_snapshot(address):
        pass
    # The server drops a temporary slot when it notices that its connection has ended.
    slots = "select count(*) from pg_catalog.pg_replication_slots"
    until(lambda: session.execute(slots).fetchone() == (0,), "the slot to go with its connection")


@pytest.mark.parametrize(
    "statement",
    [
        "truncate public.orders",
        "alter table public.orders alter id type bigint",
        "vacuum full public.orders",
        "alter table public.orders rename id to number",
        "alter table public.orders add column more int; alter table public.orders drop column id",
        "begin; alter table public.orders rename to old; alter table public.empty rename to orders; "
        "alter table public.old rename to empty; commit",
    ],
)
def test_a_table_changed_between_export_and_lock_is_read_whole_from_a_new_snapshot(
    address: Address, session: psycopg.Connection[Any], statement: str
) -> None:
    exported: list[Snapshot] = []
    session.execute("create table public.empty (id int)")

    def rewrite_once(snapshot: Snapshot) -> None:
        exported.append(snapshot)
        if len(exported) == 1:
            session.execute(statement.encode())
            session.execute("insert into public.orders values (7)")

    with hold_snapshot(address, after_export=rewrite_once) as held:
        found = rows(address, held)
    assert len(exported) == 2
    assert session.execute("select count(*) from public.orders").fetchone() == (found,)


@pytest.mark.parametrize("statement", ["drop table public.orders", "drop schema public cascade"])
def test_a_table_dropped_between_export_and_lock_is_no_longer_expected(
    address: Address, session: psycopg.Connection[Any], statement: str
) -> None:
    exported: list[Snapshot] = []

    def drop_once(snapshot: Snapshot) -> None:
        exported.append(snapshot)
        if len(exported) == 1:
            session.execute(statement.encode())

    with hold_snapshot(address, after_export=drop_once) as held:
        assert [table.name for table in held.catalog.tables] == []
    assert len(exported) == 2


def test_a_database_rewritten_every_time_is_given_up_with_a_reason(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    def rewrite(snapshot: Snapshot) -> None:
        session.execute("truncate public.orders")

    with (
        pytest.raises(HoldfastError, match="back up when no such job runs"),
        hold_snapshot(address, after_export=rewrite),
    ):
        pass


def test_a_table_cannot_be_dropped_or_truncated_while_the_snapshot_is_held(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    with hold_snapshot(address) as held:
        session.execute("set lock_timeout = '100ms'")
        for statement in ("drop table public.orders", "truncate public.orders"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                session.execute(statement.encode())
        assert rows(address, held) == 1000


def test_a_table_locked_by_somebody_else_is_named(
    address: Address, session: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_WAIT_S", 0.2)
    session.execute("begin")
    session.execute("lock table public.orders in access exclusive mode")
    with pytest.raises(BusyError, match=r"public\.orders"), hold_snapshot(address, slot_wait=0.2):
        pass


def test_an_open_transaction_makes_the_position_approximate_and_is_named(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    session.execute("begin")
    session.execute("insert into public.orders values (0)")
    with hold_snapshot(address, slot_wait=0.3) as held:
        assert rows(address, held) == 1000
    assert not held.snapshot.exact
    assert f"pid {session.info.backend_pid} of postgres" in held.snapshot.note


def test_a_server_without_logical_level_is_backed_up_with_an_approximate_position() -> None:
    with PostgresServer(settings={"wal_level": "replica"}) as server:
        address = Address(server.url(), server.password)
        with connect(address) as session:
            session.execute("create table public.orders as select i as id from generate_series(1, 10) i")
        with hold_snapshot(address) as held:
            assert rows(address, held) == 10
    assert not held.snapshot.exact
    assert "wal_level is replica" in held.snapshot.note
    assert held.snapshot.system_identifier


def test_row_level_security_that_would_hide_rows_is_refused(
    address: Address, session: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    session.execute(
        "create role limited login password 'secret'; grant select on all tables in schema public to limited;"
        "alter table public.orders enable row level security;"
        "create policy few on public.orders using (id < 10)"
    )
    try:
        limited = Address(address.url.replace("postgres@", "limited@"), "secret")
        with pytest.raises(RefusedError, match=r"public\.orders.*BYPASSRLS"), hold_snapshot(limited):
            pass
        session.execute("alter role limited bypassrls")
        with hold_snapshot(limited) as held:
            assert rows(limited, held) == 1000
    finally:
        session.execute("drop owned by limited; drop role limited")


def test_every_table_that_may_not_be_read_is_named_at_once(address: Address, session: psycopg.Connection[Any]) -> None:
    session.execute("create table public.secrets (id int); create schema hr; create table hr.staff (id int)")
    session.execute("create role reader login password 'secret'; grant select on public.orders to reader")
    try:
        limited = Address(address.url.replace("postgres@", "reader@"), "secret")
        with pytest.raises(RefusedError, match=r"hr\.staff, public\.secrets.*pg_read_all_data"), hold_snapshot(limited):
            pass
    finally:
        session.execute("drop owned by reader; drop role reader")


def test_large_objects_are_locked_like_tables(address: Address, session: psycopg.Connection[Any]) -> None:
    session.execute("select lo_from_bytea(0, 'abc')")
    session.execute("set lock_timeout = '1s'")
    with hold_snapshot(address), pytest.raises(psycopg.errors.LockNotAvailable):
        session.execute("vacuum full pg_largeobject")


def test_a_database_without_a_known_encoding_is_refused(new_database: Callable[..., Address]) -> None:
    address = new_database("encoding SQL_ASCII template template0")
    with pytest.raises(RefusedError, match="SQL_ASCII"), hold_snapshot(address):
        pass


def test_a_reader_whose_snapshot_is_gone_fails(address: Address, session: psycopg.Connection[Any]) -> None:
    with hold_snapshot(address) as held:
        assert held.why_gone() == ""
        assert rows(address, held) == 1000
    with pytest.raises(HoldfastError, match="snapshot"):
        rows(address, held)
    assert "closed" in held.why_gone()
    with pytest.raises(SnapshotGoneError, match="has ended"), open_snapshot(address, held.snapshot):
        pass


def test_a_snapshot_is_held_by_one_session_that_needs_no_slot(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    used = (
        "select (select count(*) from pg_catalog.pg_replication_slots), array(select pid from "
        "pg_catalog.pg_stat_activity where datname = current_database() and pid <> pg_catalog.pg_backend_pid())"
    )
    with hold_snapshot(address) as held:
        assert held.snapshot.exact
        alone = (0, [held.session.info.backend_pid])
        until(lambda: session.execute(used).fetchone() == alone, "the slot to go before anything is read")
        session.execute("select pg_catalog.pg_terminate_backend(%s, 10000)", (held.session.info.backend_pid,))
        assert "terminating connection due to administrator command" in held.why_gone()


def test_another_process_reads_in_a_snapshot_by_its_description(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    with hold_snapshot(address) as held:
        session.execute("insert into public.orders values (7)")
        told = Snapshot.from_json(held.snapshot.to_json())
        assert told == held.snapshot
        with open_snapshot(address, told) as seen:
            assert seen.session.execute("select count(*) from public.orders").fetchone() == (1000,)
            assert seen.catalog == held.catalog


def test_a_label_that_was_renamed_is_noticed_which_the_server_shows_by_its_new_name(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    session.execute("create type public.mood as enum ('glad', 'sad')")
    session.execute("create type public.size as enum ('small')")
    session.execute("create table public.days (mood public.mood)")
    session.execute("insert into public.days values ('sad')")
    with hold_snapshot(address) as held:
        held.check_labels(session)
        session.execute("alter type public.size add value 'large'")
        held.check_labels(session)
        session.execute("alter type public.mood rename value 'sad' to 'blue'")
        assert held.session.execute("select mood::text from public.days").fetchall() == [("blue",)]
        with pytest.raises(HoldfastError, match=r"labels of public.mood were renamed .* back up again"):
            held.check_labels(session)


def test_sequences_and_materialized_views_are_recorded_in_order(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    session.execute(
        "create sequence public.s; select nextval('public.s'), nextval('public.s'); create sequence public.unused;"
        "create materialized view public.zz as select 1 as one; create view public.v as select * from public.zz;"
        "create materialized view public.aa as select * from public.v;"
        "create materialized view public.empty as select 1 with no data"
    )
    with hold_snapshot(address) as held:
        catalog = held.catalog
    assert {value.name: (value.last_value, value.is_called) for value in catalog.sequences} == {
        "s": (2, True),
        "unused": (1, False),
    }
    assert [view.name for view in catalog.materialized_views] == ["zz", "aa"]
