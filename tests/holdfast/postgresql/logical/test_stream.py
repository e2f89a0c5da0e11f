"""Slots and publications on a real server, and what becomes of them between two backups."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import BusyError, HoldfastError, RefusedError
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import peek, stream
from holdfast.postgresql.logical.publication import plan_publication, reconcile
from holdfast.postgresql.logical.stream import ExpectedStream, StreamState
from tests.support.no_waiting import no_waiting
from tests.support.servers.postgres import Standby, passing_database

pytestmark = pytest.mark.service

Connection = psycopg.Connection[tuple[Any, ...]]
NAME = stream.stream_name("an archive", "shop")
TABLES = """
create table public.orders (id int primary key, x int); create table public.lines (id int primary key, x int);
create table public.notes (x int);
"""


@pytest.fixture
def session(address: Address) -> Iterator[Connection]:
    with connect(address) as opened:
        opened.execute(TABLES)
        yield opened
        # A server has one slot of a name.
        stream.drop_stream(opened, NAME)


def tables(session: Connection) -> tuple[Table, ...]:
    return read_catalog(session, read_tables(session), values=False).with_rows()


def opened(session: Connection, address: Address, **options: Any) -> StreamState:
    return stream.open_stream(address, NAME, tables(session), **options)


def seen(session: Connection) -> StreamState:
    state = stream.look(session, NAME)
    assert state is not None
    return state


def expected(state: StreamState) -> ExpectedStream:
    """What an archive says that ends where the slot is."""
    return ExpectedStream(
        name=state.name,
        position=state.position,
        publication_oid=state.publication_oid,
        publication_version=state.publication_version,
        followed=state.followed,
        system_identifier=state.system_identifier,
        timeline=state.timeline,
    )


def slots(session: Connection) -> list[str]:
    return [row[0] for row in session.execute("select slot_name from pg_replication_slots where not temporary")]


def publications(session: Connection) -> list[str]:
    return [row[0] for row in session.execute("select pubname from pg_publication")]


def labels(session: Connection, oids: Any) -> set[str]:
    return {table.label for table in tables(session) if table.oid in oids}


def test_each_source_of_each_archive_has_a_stream_of_its_own() -> None:
    names = {stream.stream_name(archive, source) for archive in ("a", "b") for source in ("s", "t")}
    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)


def test_a_stream_is_opened_once_kept_and_dropped_without_a_trace(session: Connection, address: Address) -> None:
    assert stream.look(session, NAME) is None
    state = opened(session, address)
    assert (state.plugin, state.database, state.usable, state.lost) == ("pgoutput", address.database, True, "")
    assert (state.active_pid, state.wal_status, state.failover, state.standby) == (None, "reserved", True, False)
    assert (state.timeline, state.publication_problem) == (1, "")
    assert labels(session, state.followed) == {"public.orders", "public.lines"}
    assert list(state.not_followed) == ["public.notes"]
    assert stream.why_broken(expected(state), seen(session)) == ""
    session.execute("create table public.more (id int primary key)")
    again = stream.keep(session, NAME, tables(session))
    assert (again.position, again.publication_oid) == (state.position, state.publication_oid)
    assert labels(session, again.followed) == {"public.orders", "public.lines", "public.more"}
    assert stream.why_broken(expected(state), again) == ""
    stream.drop_stream(session, NAME)
    assert (slots(session), publications(session)) == ([], [])
    stream.drop_stream(session, NAME)
    with pytest.raises(HoldfastError, match="was dropped by somebody"):
        stream.keep(session, NAME, tables(session))


def test_the_oldest_version_has_streams_too(older: Callable[[int], PostgresServer]) -> None:
    with passing_database(older(14)) as address, connect(address) as session:
        session.execute(TABLES)
        state = opened(session, address)
        assert (state.usable, state.failover, state.lost, state.timeline) == (True, False, "", 1)
        session.execute("insert into public.orders values (1, 1)")
        _, position = stream.flush_position(session)
        stream.advance(session, NAME, position)
        assert stream.why_broken(expected(state), seen(session)) != ""
        assert stream.why_broken(replace(expected(state), position=position), seen(session)) == ""
        before = stream.schema_fingerprint(session)
        session.execute("analyze; alter table public.orders add y int")
        assert stream.schema_fingerprint(session) != before
        stream.drop_stream(session, NAME)
        assert slots(session) == []


def test_open_transactions_are_waited_for_named_and_nothing_is_left(session: Connection, address: Address) -> None:
    with connect(address) as other:
        other.execute("begin; insert into public.notes values (1)")
        pid = other.info.backend_pid
        with pytest.raises(BusyError, match=rf"kept the new slot {NAME} waiting for 0 s: pid {pid} of postgres"):
            opened(session, address, wait=0.2)
        assert (slots(session), publications(session)) == ([], [])
        other.execute("commit")
    opened(session, address)


def test_a_publication_that_was_there_before_a_failure_stays(session: Connection, address: Address) -> None:
    reconcile(session, plan_publication(session, NAME, tables(session)))
    with connect(address) as other:
        other.execute("begin; insert into public.notes values (1)")
        with pytest.raises(BusyError):
            opened(session, address, wait=0.1)
    assert (slots(session), publications(session)) == ([], [NAME])


def test_what_is_in_the_way_is_said_at_once(session: Connection, address: Address) -> None:
    session.execute("create role stream_reader login password 'p' in role pg_read_all_data")
    try:
        login = Address(address.url.replace("postgres@", "stream_reader@"), "p")
        with pytest.raises(RefusedError, match="the role has no REPLICATION right: alter role stream_reader repl"):
            opened(session, login)
        assert (slots(session), publications(session)) == ([], [])
    finally:
        session.execute("drop role stream_reader")


def test_a_slot_that_is_gone_made_anew_or_advanced_by_others_is_seen(session: Connection, address: Address) -> None:
    was = expected(opened(session, address))
    session.execute("insert into public.orders values (1, 1)")
    assert stream.why_broken(was, seen(session)) == ""
    session.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", (NAME,))
    assert "somebody advanced it or made it anew" in stream.why_broken(was, seen(session))
    stream.drop_slot(session, NAME)
    assert "is gone" in stream.why_broken(was, stream.look(session, NAME))
    session.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (NAME,))
    assert "somebody advanced it or made it anew" in stream.why_broken(was, seen(session))
    stream.drop_slot(session, NAME)
    session.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", (NAME,))
    assert "is not ours any more: test_decoding" in stream.why_broken(was, seen(session))
    # Whatever it is, it is replaced by one that can be read from.
    assert stream.why_broken(expected(opened(session, address)), seen(session)) == ""


def test_a_slot_made_anew_at_once_is_seen_also_where_nothing_was_written(session: Connection, address: Address) -> None:
    opened(session, address)
    _, end = stream.flush_position(session)
    stream.advance(session, NAME, end)
    was = expected(seen(session))
    stream.drop_slot(session, NAME)
    session.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (NAME,))
    assert "made it anew" in stream.why_broken(was, seen(session))


def test_a_stream_that_is_begun_anew_has_another_position(session: Connection, address: Address) -> None:
    was = expected(opened(session, address))
    session.execute("insert into public.orders values (1, 1)")
    assert "made it anew" in stream.why_broken(was, opened(session, address))


def test_a_publication_that_is_gone_made_anew_or_changed_is_seen(session: Connection, address: Address) -> None:
    state = opened(session, address)
    was = expected(state)
    session.execute(f"alter publication {NAME} set (publish = 'insert')".encode())
    assert "does not publish insert, update" in stream.why_broken(was, seen(session))
    session.execute(f"alter publication {NAME} set (publish = 'insert, update, delete, truncate')".encode())
    assert "were changed meanwhile" in stream.why_broken(was, seen(session))
    assert stream.why_broken(replace(was, publication_version=None), seen(session)) == ""
    session.execute(f"drop publication {NAME}".encode())
    assert stream.why_broken(was, seen(session)) == f"publication {NAME} is gone"
    with pytest.raises(HoldfastError, match="was changed while changes were read"):
        stream.check_unchanged(session, NAME, was.publication_oid, state.position)
    session.execute(f"create publication {NAME} for table public.orders, public.lines".encode())
    assert "was made anew" in stream.why_broken(was, seen(session))
    # A slot that is older than its publication cannot be read from: it is replaced.
    session.execute(f"drop publication {NAME}".encode())
    again = opened(session, address)
    assert again.position != state.position
    stream.check_unchanged(session, NAME, again.publication_oid, again.position)
    session.execute("insert into public.orders values (1, 1)")
    _, later = stream.flush_position(session)
    with pytest.raises(HoldfastError, match=f"is behind {later} again, as after a crash"):
        stream.check_unchanged(session, NAME, again.publication_oid, later)


def test_tables_that_left_the_publication_or_came_back_are_told(session: Connection, address: Address) -> None:
    was = expected(opened(session, address))
    assert stream.lost_tables(was, seen(session)) == {}
    session.execute(f"alter publication {NAME} drop table public.orders, public.lines".encode())
    session.execute(f"alter publication {NAME} add table public.lines".encode())
    lost = {table.label: stream.lost_tables(was, seen(session)).get(table.oid) for table in tables(session)}
    assert lost == {
        "public.orders": "it left the publication, or was dropped",
        "public.lines": "it left the publication, and came back",
        "public.notes": None,
    }


def test_a_slot_that_the_server_gives_up_is_warned_of_and_then_seen(session: Connection, address: Address) -> None:
    was = expected(opened(session, address))
    session.execute("alter system set max_slot_wal_keep_size = '16MB'")
    try:
        session.execute("select pg_reload_conf()")
        for _ in range(2):
            write_a_segment(session)
        until(lambda: seen(session).wal_status != "reserved")
        warning = stream.retention_warning(seen(session), 1 << 40)
        assert "more the server gives it up: back up changes now" in warning
        for _ in range(3):
            write_a_segment(session)
        session.execute("checkpoint")
        state = seen(session)
        assert state.lost == "wal removed"
        assert stream.why_broken(was, state) == f"the server has given up slot {NAME}: wal removed"
        assert stream.retention_warning(state, 1) == ""
        with pytest.raises(HoldfastError, match=f"slot {NAME} could not be advanced"):
            stream.advance(session, NAME, state.end)
        assert opened(session, address).lost == ""
    finally:
        session.execute("alter system reset max_slot_wal_keep_size")
        session.execute("select pg_reload_conf()")


def write_a_segment(session: Connection) -> None:
    session.execute("insert into public.orders values (1, 1) on conflict (id) do update set x = 2")
    session.execute("select pg_switch_wal()")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_slot_is_advanced_to_a_position_and_never_past_it(session: Connection, address: Address) -> None:
    state = opened(session, address)
    session.execute("insert into public.orders values (1, 1)")
    _, position = stream.flush_position(session)
    session.execute("insert into public.orders values (2, 1)")
    stream.advance(session, NAME, position)
    assert seen(session).position == position
    for reached in (position, state.position):
        stream.advance(session, NAME, reached)
        assert seen(session).position == position
    with pytest.raises(HoldfastError, match="is gone, or does not move"):
        stream.advance(session, "holdfast_gone", position)


def test_who_uses_a_slot_is_named(session: Connection, address: Address, postgres: PostgresServer) -> None:
    opened(session, address)
    session.execute("insert into public.orders values (1, 1)")
    _, later = stream.flush_position(session)
    reader = subprocess.Popen(
        [
            *(postgres.programs / "pg_recvlogical", "-d", address.url, "--slot", NAME, "--start", "-f", "-"),
            *("-o", "proto_version=1", "-o", f"publication_names={NAME}"),
        ],
        env=address.environment(),
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: seen(session).active_pid is not None)
        pid = seen(session).active_pid
        for use in (
            lambda: stream.advance(session, NAME, later),
            lambda: stream.drop_stream(session, NAME),
            lambda: opened(session, address),
        ):
            with pytest.raises(BusyError, match=rf"slot {NAME} is used by pid {pid} \(pg_recvlogical of postgres\)"):
                use()
        assert publications(session) == [NAME]
    finally:
        reader.kill()
        reader.wait()
    until(lambda: seen(session).active_pid is None)


def test_a_slot_that_somebody_reads_is_waited_for(
    session: Connection, address: Address, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(session, address)
    reader = subprocess.Popen(
        [
            *(postgres.programs / "pg_recvlogical", "-d", address.url, "--slot", NAME, "--start", "-f", "-"),
            *("-o", "proto_version=1", "-o", f"publication_names={NAME}"),
        ],
        env=address.environment(),
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: seen(session).active_pid is not None)
        with monkeypatch.context() as impatient:
            impatient.setattr(peek, "FREE_WAIT_S", 0.0)
            with pytest.raises(BusyError, match=rf"slot {NAME} is used by pid \d+ \(pg_recvlogical of postgres\)"):
                stream.wait_until_free(session, NAME)
        no_waiting(monkeypatch, lambda seconds: reader.kill())
        stream.wait_until_free(session, NAME)
        assert seen(session).active_pid is None
    finally:
        reader.kill()
        reader.wait()


def test_a_server_where_a_standby_took_over_is_seen(
    session: Connection, address: Address, postgres: PostgresServer
) -> None:
    was = expected(opened(session, address))
    with Standby(postgres) as server:
        there = Address(server.url(address.database), server.password)
        with connect(there) as standby:
            assert stream.look(standby, NAME) is None
            with pytest.raises(RefusedError, match="the server is a standby"):
                stream.open_stream(there, NAME, tables(standby))
            standby.execute("select pg_promote()")
            standby.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (NAME,))
            state = seen(standby)
    assert state.timeline == 2
    assert stream.why_broken(was, state).startswith("a standby took over (timeline 2, before 1)")
    assert stream.why_broken(was, replace(state, standby=True)) == "the server is a standby now"
    other = replace(state, system_identifier="7")
    assert stream.why_broken(was, other).startswith("the server is another one: system 7, not ")
