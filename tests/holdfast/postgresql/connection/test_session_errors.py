"""Networks that are cut, disks that are full, servers that go: who reads or writes is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from bench.support.faults.network import Fault, faulty_network
from holdfast.common.errors import exit_code_of
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import BrokenOffError, explained
from tests.support.servers.small_disk import small_disk

pytestmark = pytest.mark.service


@pytest.mark.parametrize("fault", ["reset", "closed", "silent"])
def test_a_reader_whose_network_is_cut_is_told_and_does_not_wait_for_ever(
    address: Address, postgres: PostgresServer, fault: Fault
) -> None:
    with faulty_network(postgres.port, fault, to_client=1_000_000) as network:
        there = network.way_to(address)
        with ArrowSession(there) as session, pytest.raises(BrokenOffError) as broken:
            for _ in session.batches("select repeat(i::text, 100) from generate_series(1, 200000) i"):
                pass
    assert str(broken.value).startswith(f"reading from {there.url} broke off: ")
    assert str(broken.value).endswith("Connection timed out" if fault == "silent" else "unexpectedly")
    assert str(address.password) not in str(broken.value)


def test_a_connection_that_is_lost_is_told_with_what_to_do(address: Address) -> None:
    with connect(address) as session, connect(address) as other:
        other.execute("select pg_terminate_backend(%s)", (session.info.backend_pid,))
        assert told(address, session, "select 1") == (
            1,
            f"the work in {address.url} ended: terminating connection due to administrator command (SQLSTATE 57P01): "
            "start again when the server is up and can be reached",
        )
        assert told(address, session, "select 1") == (
            1,
            f"the work in {address.url} ended: the connection is closed: "
            "start again when the server is up and can be reached",
        )


def test_a_silent_server_is_given_up_by_who_writes_to_it(address: Address, postgres: PostgresServer) -> None:
    with connect(address) as session:
        session.execute("create table public.rows (word text)")
    with faulty_network(postgres.port, "silent", to_server=1_000_000) as network:
        there = network.way_to(address)
        session = connect(there)
        with pytest.raises(psycopg.OperationalError) as raised:
            send_for_ever(session)
    assert "start again when the server is up" in str(explained(raised.value, there.url))


def send_for_ever(session: psycopg.Connection[object]) -> None:
    with session.cursor() as cursor, cursor.copy("copy public.rows from stdin") as copy:
        while True:
            copy.write(b"x" * 100_000 + b"\n")


def test_a_full_disk_of_the_server_is_told_with_what_to_do(postgres: PostgresServer, address: Address) -> None:
    with small_disk(Path(str(postgres.folder)) / "small", "1m") as disk, connect(address) as session:
        session.execute(f"create tablespace small location '{disk}'".encode())
        session.execute("create table public.rows (word text) tablespace small")
        many = "select repeat('x', 999) from generate_series(1, 9999)"
        code, said = told(address, session, f"insert into public.rows {many}")
        session.execute("drop table public.rows")
        session.execute("drop tablespace small")
    assert (code, "could not extend file" in said) == (1, True)
    assert said.endswith(": make room on the server's disk, then start again")


def test_a_server_that_takes_no_writes_is_refused_as_a_target(address: Address) -> None:
    with connect(address) as session:
        session.execute("set default_transaction_read_only = on")
        code, said = told(address, session, "create schema mine")
    assert code == 5
    assert "cannot execute CREATE SCHEMA in a read-only transaction (SQLSTATE 25006): the server is a standby" in said


def test_what_is_no_outage_is_left_as_it_is(address: Address) -> None:
    with connect(address) as session, pytest.raises(psycopg.Error) as raised:
        session.execute("select 1 / 0")
    assert explained(raised.value, address.url) is None
    assert explained(ValueError(), address.url) is None


def told(address: Address, session: psycopg.Connection[object], statement: str) -> tuple[int, str]:
    """Return the exit code and the sentence of a statement's error."""
    with pytest.raises(psycopg.Error) as raised:
        session.execute(statement.encode())
    found = explained(raised.value, address.url)
    assert found is not None
    assert "\n" not in str(found)
    return exit_code_of(found), str(found)
