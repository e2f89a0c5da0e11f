"""Files of rows are loaded into tables, each once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from holdfast.common.errors import DamagedError, RefusedError
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.parallel_sessions import Sessions
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.objects.sequence_positions import find_places, set_sequences
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rows import load
from holdfast.postgresql.values.content_hash import ContentHash
from holdfast.postgresql.values.decode import Decoder
from tests.support.jobs.command import until

pytestmark = pytest.mark.service


CLAIM = ledger.TargetClaim("archive", "block", (), (), commit=1, run="run")


@pytest.fixture
def session(address: Address, catalog: Catalog) -> Iterator[psycopg.Connection[Any]]:
    """A session in the source itself: its table serves as the one to load."""
    with connect(address) as connection:
        ledger.create_ledger(connection, CLAIM)
        yield connection


def orders(catalog: Catalog) -> Table:
    return next(table for table in catalog.tables if table.name == "orders")


def rows(catalog: Catalog, *ids: int) -> list[pa.RecordBatch]:
    names = pa.array([f"order {each}" for each in ids], pa.string())
    return [pa.record_batch([pa.array(ids, pa.int32()), names], schema=Decoder(orders(catalog).columns).schema)]


def count(session: psycopg.Connection[Any]) -> int:
    row = session.execute("select count(*) from public.orders").fetchone()
    assert row is not None
    return int(row[0])


def test_a_file_is_loaded_once_however_often_it_is_tried(session: psycopg.Connection[Any], catalog: Catalog) -> None:
    assert load.load_file(session, orders(catalog), "data/x", rows(catalog, 1, 2)) == 2
    assert load.load_file(session, orders(catalog), "data/x", rows(catalog, 1, 2)) == 0
    assert count(session) == 2


def test_a_load_that_fails_leaves_nothing_and_can_be_tried_again(
    session: psycopg.Connection[Any], catalog: Catalog
) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield from rows(catalog, 1)
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        load.load_file(session, orders(catalog), "data/x", cut())
    assert count(session) == 0
    assert load.load_file(session, orders(catalog), "data/x", rows(catalog, 1)) == 1


def test_two_attempts_at_one_file_at_once_load_it_once(
    address: Address, session: psycopg.Connection[Any], catalog: Catalog
) -> None:
    by_second: list[int] = []

    def second() -> None:
        with connect(address) as other:
            by_second.append(load.load_file(other, orders(catalog), "data/x", rows(catalog, 1)))

    thread = threading.Thread(target=second)

    def first() -> Iterator[pa.RecordBatch]:
        thread.start()
        with connect(address) as watcher:
            waits = "select exists (select from pg_locks where not granted and locktype = 'transactionid')"
            until(lambda: watcher.execute(waits).fetchone() == (True,), "the second attempt to wait")
        yield from rows(catalog, 1)

    by_first = load.load_file(session, orders(catalog), "data/x", first())
    thread.join()
    assert (by_first, by_second) == (1, [0])
    assert count(session) == 1


def test_sequences_and_views_come_back_in_their_order(
    address: Address, session: psycopg.Connection[Any], catalog: Catalog
) -> None:
    load.load_file(session, orders(catalog), "data/x", rows(catalog, 1, 2, 3))
    session.execute("select setval('public.numbers', 1, false)")
    find_places(session, catalog.sequences)
    assert set_sequences(session) == ()
    with Sessions(address, 2) as sessions:
        load.refresh_views(sessions, catalog.materialized_views)
    assert session.execute("select nextval('public.numbers')").fetchone() == (42,)
    assert session.execute("select n from public.a").fetchone() == (3,)


def test_a_table_that_postgresql_cannot_analyze_is_named(
    address: Address, session: psycopg.Connection[Any], catalog: Catalog
) -> None:
    session.execute("create table public.far (r numrange)")
    session.execute("insert into public.far values ('[1,1e400)'), ('[2,1e400)')")
    with Sessions(address, 2) as sessions:
        (left,) = load.analyze(sessions, [("public", "far"), ("public", "orders")])
    assert (left.what, left.statement) == ("statistics of public.far", 'analyze "public"."far";')
    assert "out of range" in left.reason


def test_a_server_without_a_lock_left_fails_no_restore_for_statistics(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    class Full:
        """A session whose server has no room for more locks."""

        def __init__(self, below: psycopg.Connection[Any]) -> None:
            self._below = below

        def __getattr__(self, name: str) -> Any:
            return getattr(self._below, name)

        def execute(self, query: Any, *more: Any) -> Any:
            if query.startswith(b"analyze"):
                raise psycopg.errors.OutOfMemory("out of shared memory")
            return self._below.execute(query, *more)

    (left,) = load.refused_statistics(Full(session), [("public", "orders")])  # type: ignore[arg-type]
    assert (left.what, left.statement) == ("statistics of public.orders", 'analyze "public"."orders";')
    assert 200 <= load.most_locked(session) < 1_000_000


def test_rows_that_a_table_does_not_take_are_refused_with_the_servers_words(
    session: psycopg.Connection[Any], catalog: Catalog
) -> None:
    session.execute("alter table public.orders add check (id > 1)")
    with pytest.raises(RefusedError, match=r"^public\.orders does not take its rows: .* violates check constraint"):
        load.load_file(session, orders(catalog), "data/x", rows(catalog, 1))


def test_a_lost_connection_is_no_refusal(address: Address, session: psycopg.Connection[Any], catalog: Catalog) -> None:
    with connect(address) as other:
        other.execute("select pg_terminate_backend(%s)", (session.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        load.load_file(session, orders(catalog), "data/x", rows(catalog, 1))


def test_tables_that_differ_are_named_with_how(
    address: Address, session: psycopg.Connection[Any], catalog: Catalog
) -> None:
    table = orders(catalog)
    load.load_file(session, table, "data/x", rows(catalog, 1, 2))
    right = load.content_hash(session, table)
    with Sessions(address, 2) as sessions:
        load.check_equal(load.differences(sessions, {table.oid: right}, [table]))
        with pytest.raises(DamagedError, match=r"public\.orders has 2 rows instead of 3"):
            load.check_equal(load.differences(sessions, {table.oid: ContentHash(3, right.total)}, [table]))
        session.execute("update public.orders set name = 'changed' where id = 1")
        with pytest.raises(DamagedError, match=r"public\.orders has 2 rows with other contents"):
            load.check_equal(load.differences(sessions, {table.oid: right}, [table]))
