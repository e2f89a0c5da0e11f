"""What a session of the Arrow driver tells where something fails."""

from __future__ import annotations

import psycopg
import pytest
from adbc_driver_manager import AdbcConnection

from holdfast.sources.postgresql.connection import arrow_session
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.arrow_session import ArrowSession, BrokenOffError
from holdfast.sources.postgresql.connection.session import connect
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


def test_a_driver_that_cannot_close_hides_nothing(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(AdbcConnection):
        def close(self) -> None:
            super().close()
            raise RuntimeError("Cannot close AdbcConnection")

    monkeypatch.setattr(arrow_session, "AdbcConnection", Broken)
    with pytest.raises(psycopg.DataError) as raised, ArrowSession(address):
        raise psycopg.DataError("bad row")
    assert raised.value.__notes__[0] == "then, while tidying up: RuntimeError: Cannot close AdbcConnection"
