"""What a session of the Arrow driver tells where something fails."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from adbc_driver_manager import AdbcConnection, AdbcDatabase

from holdfast.common.free_ports import free_port
from holdfast.postgresql.connection import arrow_session
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import BrokenOffError, SessionError
from tests.support.jobs.command import until

pytestmark = pytest.mark.service

MANY = "select i, repeat('x', 100) from generate_series(1, 1000000) i"


def begin_and_fail(session: ArrowSession) -> None:
    session.execute("set application_name = 'left'")
    rows = session.batches(MANY)  # it is not at its end when the session is
    next(rows)
    raise OSError(28, "No space left on device")


def test_closing_does_not_hide_what_failed_in_the_middle_of_a_query(address: Address) -> None:
    with pytest.raises(OSError, match="No space left on device"), ArrowSession(address) as session:
        begin_and_fail(session)
    with connect(address) as session:
        left = "select count(*) from pg_catalog.pg_stat_activity where application_name = 'left'"
        until(lambda: session.execute(left).fetchone() == (0,), "the end of the session")


def test_a_query_that_the_server_breaks_off_is_told_in_its_words(address: Address) -> None:
    with pytest.raises(BrokenOffError, match="division by zero"), ArrowSession(address) as session:
        for _ in session.batches("select 1 / (i - 500000) from generate_series(1, 1000000) i"):
            pass


@pytest.mark.parametrize("use", [lambda session: session.value("select 1"), lambda session: session.execute("begin")])
def test_a_connection_that_is_lost_between_queries_may_be_tried_again(
    address: Address, use: Callable[[ArrowSession], object]
) -> None:
    """Up to 1.10 the driver ended the process."""
    with ArrowSession(address) as session, connect(address) as other:
        pid = session.value("select pg_catalog.pg_backend_pid()")
        assert other.execute("select pg_terminate_backend(%s, 60000)", (pid,)).fetchone() == (True,)
        with pytest.raises(BrokenOffError, match=r"reading from .* failed: "):
            use(session)


def test_what_the_server_refuses_is_not_tried_again_nor_is_a_server_that_is_not_there(address: Address) -> None:
    with ArrowSession(address) as session, pytest.raises(SessionError, match="does not exist") as refused:
        session.value("select nothing_like_that()")
    assert refused.value.sqlstate == "42883"
    with pytest.raises(SessionError, match=r"failed: .*onnect") as absent:
        ArrowSession(Address.parse(f"postgresql://me@127.0.0.1:{free_port()}/x"))
    assert absent.value.sqlstate is None


def test_a_driver_that_cannot_close_hides_nothing(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(AdbcConnection):
        def close(self) -> None:
            super().close()
            raise RuntimeError("Cannot close AdbcConnection")

    monkeypatch.setattr(arrow_session, "AdbcConnection", Broken)
    with pytest.raises(psycopg.DataError) as raised, ArrowSession(address):
        raise psycopg.DataError("bad row")
    assert raised.value.__notes__[0] == "then, while tidying up: RuntimeError: Cannot close AdbcConnection"


def test_a_type_that_was_made_after_the_first_session_is_read_by_the_next(address: Address) -> None:
    with ArrowSession(address) as session:
        assert session.value("select 1") == 1
    with connect(address) as other:
        other.execute("create type public.mood as enum ('sad', 'happy')")
        other.execute("create table public.people as select 'sad'::public.mood as mood")
    with ArrowSession(address) as session:
        assert session.value("select mood from public.people") in ("sad", b"sad")
        assert session.value("select mood::text from public.people") == "sad"


def test_connections_are_opened_and_closed_one_at_a_time(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's count of them is not atomic: sessions in two threads ended in "count underflowed"."""
    alone: list[str] = []

    class CountedConnection(AdbcConnection):
        def __init__(self, database: AdbcDatabase) -> None:
            assert arrow_session._COUNTING.locked()
            super().__init__(database)
            alone.append("opened")

        def close(self) -> None:
            assert arrow_session._COUNTING.locked()
            super().close()
            alone.append("closed")

    monkeypatch.setattr(arrow_session, "AdbcConnection", CountedConnection)
    with ArrowSession(address) as session:
        assert session.value("select 1") == 1
    assert alone == ["opened", "closed"]
    assert not arrow_session._COUNTING.locked()
