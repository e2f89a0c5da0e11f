"""Copies of slots, of which each is read beside the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdfast.common.errors import BusyError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import SessionError
from holdfast.postgresql.logical import peek
from holdfast.postgresql.logical.peek import copy_slot, count_copies, peek_query
from tests.support.databases.streams import Stream, open_stream
from tests.support.jobs.command import until
from tests.support.servers.postgres import passing_database
from tests.support.servers.versions import running

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def small() -> Iterator[PostgresServer]:
    """A server with three slots."""
    with running(PostgresServer(settings={"max_replication_slots": "3"})) as server:
        yield server


@pytest.fixture
def stream(small: PostgresServer) -> Iterator[Stream]:
    with passing_database(small) as address:
        with connect(address) as session:
            session.execute("create table public.t (id int primary key)")
        with open_stream(address, "public.t") as opened:
            yield opened


def messages(session: ArrowSession, slot: str, stream: Stream, upto: str) -> int:
    found = session.value(peek_query(slot, stream.name, upto, None, what="count(*)"))
    assert isinstance(found, int)
    return found


def copies(stream: Stream) -> int:
    """Return how many slots there are beside the stream's own."""
    row = stream.session.execute("select count(*) - 1 from pg_replication_slots").fetchone()
    assert row is not None
    return int(row[0])


def test_copies_are_read_beside_each_other_and_go_with_their_sessions(stream: Stream) -> None:
    ends = [stream.position()]
    for number in range(2):
        stream.session.execute(f"insert into public.t values ({number}), ({number + 10})".encode())
        ends.append(stream.position())
    with ArrowSession(stream.address) as one, ArrowSession(stream.address) as other:
        slots = [copy_slot(one, stream.name, ends[0]), copy_slot(other, stream.name, ends[1])]
        assert copies(stream) == 2
        each = 5  # begin, what the table is, two rows, commit
        assert messages(one, slots[0], stream, ends[2]) == 2 * each - 1
        assert messages(other, slots[1], stream, ends[2]) == each
    until(lambda: copies(stream) == 0, "copies to go")


def test_so_many_copies_are_worth_it_as_slots_are_free_but_one(stream: Stream) -> None:
    assert count_copies(stream.session, stream.name, stream.name) == 1
    with ArrowSession(stream.address) as session:
        copy_slot(session, stream.name, stream.position())
        assert count_copies(stream.session, stream.name, stream.name) == 0
    until(lambda: copies(stream) == 0, "copies to go")
    assert count_copies(stream.session, stream.name, "none") == count_copies(stream.session, "none", stream.name) == 0


def test_a_young_publication_and_standbys_to_wait_for_make_copies_worth_nothing(stream: Stream) -> None:
    def said(statement: str, count: int) -> None:
        stream.session.execute(statement.encode())
        stream.session.execute("select pg_reload_conf()")
        until(lambda: count_copies(stream.session, stream.name, stream.name) == count, statement)

    said("alter system set synchronized_standby_slots = 'standby'", 0)
    said("alter system reset synchronized_standby_slots", 1)
    stream.session.execute(f"alter publication {stream.name} set (publish = 'insert')".encode())
    assert count_copies(stream.session, stream.name, stream.name) == 0


def test_a_copy_waits_for_a_free_slot(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peek, "FREE_WAIT_S", 0.3)
    start = stream.position()
    with ArrowSession(stream.address) as session:
        with ExitStack() as others:
            for _ in range(2):
                copy_slot(others.enter_context(ArrowSession(stream.address)), stream.name, start)
            with pytest.raises(BusyError, match=f"no replication slot is free beside {stream.name}: raise max_"):
                copy_slot(session, stream.name, start)
        monkeypatch.setattr(peek, "FREE_WAIT_S", 30.0)
        assert copy_slot(session, stream.name, start).startswith(stream.name)


def test_a_slot_that_is_not_there_cannot_be_copied(address: Address) -> None:
    with (
        ArrowSession(address) as session,
        pytest.raises(SessionError, match='replication slot "gone" does not exist'),
    ):
        copy_slot(session, "gone", "0/1")
