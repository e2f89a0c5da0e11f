"""A reader of a held snapshot is let in before somebody who waits to change its table."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.export import enter_snapshot
from holdfast.postgresql.snapshot.snapshot import hold_snapshot, open_snapshot

pytestmark = pytest.mark.service


@pytest.fixture
def shop(new_database: Callable[..., Address]) -> Address:
    address = new_database()
    with connect(address) as session:
        session.execute("create table public.one (id int)")
        session.execute("create table public.two (id int)")
        session.execute("insert into public.one values (1)")
    return address


def waiting(address: Address) -> int:
    with connect(address) as session:
        row = session.execute("select count(*) from pg_locks where not granted and locktype = 'relation'").fetchone()
    return row[0] if row else 0


def test_readers_come_in_one_after_the_other_while_writers_go_on_waiting(shop: Address) -> None:
    def empty() -> None:
        with connect(shop) as session:
            session.execute("truncate public.one, public.two")

    writer = threading.Thread(target=empty)
    with hold_snapshot(shop, ddl_waits=True) as held:
        writer.start()
        while not waiting(shop):
            pass
        for _ in range(2):
            with open_snapshot(shop, held.snapshot) as seen:
                assert seen.session.execute("select count(*) from public.one").fetchone() == (1,)
        with connect(shop) as session:
            enter_snapshot(session, held.snapshot)
            session.execute("set local lock_timeout = '30s'")
            session.execute("lock table public.one, public.two in access share mode")
        assert (held.why_gone(), waiting(shop)) == ("", 1)
    writer.join()
    with connect(shop) as session:
        assert session.execute("select count(*) from public.one").fetchone() == (0,)


def test_without_it_a_reader_gives_way(shop: Address) -> None:
    def empty() -> None:
        with connect(shop) as session:
            session.execute("truncate public.one")

    writer = threading.Thread(target=empty)
    with hold_snapshot(shop) as held:
        writer.start()
        while not waiting(shop):
            pass
        with connect(shop) as session:
            enter_snapshot(session, held.snapshot)
            session.execute("set local lock_timeout = '3s'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                session.execute("lock table public.one in access share mode")
    writer.join()
