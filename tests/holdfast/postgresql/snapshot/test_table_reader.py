from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from holdfast.common.errors import BusyError, HoldfastError
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.copy_out import CopiedRows, copy_out
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot
from holdfast.postgresql.snapshot.table_reader import PIECE_BYTES, cut, open_reader
from holdfast.postgresql.values.decode import Decoder, ValueTooLargeError
from tests.support.jobs.command import until

pytestmark = pytest.mark.service


@pytest.fixture
def session(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as connection:
        connection.execute("create table public.orders (id int, word text)")
        connection.execute("insert into public.orders select i, repeat('x', i) from generate_series(1, 500) i")
        connection.execute("create table public.nothing (id int)")
        yield connection


@pytest.fixture
def held(address: Address, session: psycopg.Connection[Any]) -> Iterator[HeldSnapshot]:
    with hold_snapshot(address) as found:
        yield found


def table_of(held: HeldSnapshot, name: str) -> Table:
    return next(table for table in held.catalog.tables if table.name == name)


def ids(address: Address, held: HeldSnapshot, table: Table, piece_bytes: int) -> list[int]:
    decoder = Decoder(table.columns)
    found: list[int] = []
    with open_reader(address, held.snapshot, [table]) as reader:
        for piece in cut(table, piece_bytes, queries=True):
            for batch in reader.batches(piece, decoder):
                found += batch.column("id").to_pylist()
    return found


@pytest.mark.parametrize("piece_bytes", [1, 8192, 20_000, 1 << 30])
def test_the_pieces_of_a_table_hold_each_row_once(address: Address, held: HeldSnapshot, piece_bytes: int) -> None:
    table = table_of(held, "orders")
    assert sorted(ids(address, held, table, piece_bytes)) == list(range(1, 501))


def test_pieces_leave_no_page_out_and_the_last_is_open(held: HeldSnapshot) -> None:
    table = table_of(held, "orders")
    pieces = cut(table, 20_000, queries=True)
    assert len(pieces) > 2
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    assert [piece.end for piece in pieces[:-1]] == [piece.first for piece in pieces[1:]]
    assert (pieces[0].first, pieces[-1].end) == (0, None)
    assert pieces[-1].condition() == f" where ctid operator(pg_catalog.>=) '({pieces[-1].first},0)'::pg_catalog.tid"


def test_an_empty_table_and_one_without_a_heap_are_read_whole(held: HeldSnapshot) -> None:
    (piece,) = cut(table_of(held, "nothing"), 1, queries=True)
    assert piece.condition() == ""
    (piece,) = cut(table_of(held, "orders").model_copy(update={"access_method": "columnar"}), 1, queries=True)
    assert piece.condition() == ""


@contextmanager
def somebody_waits_to_drop(address: Address, table: str) -> Iterator[psycopg.Connection[Any]]:
    waits = "select exists (select from pg_locks where not granted and relation = %s::regclass)"
    with connect(address) as other, connect(address) as watcher, ThreadPoolExecutor(1) as pool:
        drop = pool.submit(other.execute, f"drop table {table}".encode())
        until(lambda: watcher.execute(waits, (table,)).fetchone() == (True,), "the drop to wait")
        try:
            yield other
        finally:
            other.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                drop.result()


def test_one_who_waits_to_drop_a_table_and_gives_way_does_not_end_the_backup(
    address: Address, held: HeldSnapshot
) -> None:
    table = table_of(held, "orders")
    queues = "select count(*) from pg_locks where not granted and relation = 'public.orders'::regclass"
    with (
        somebody_waits_to_drop(address, "public.orders") as other,
        connect(address) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        rows = pool.submit(ids, address, held, table, 1 << 30)
        until(lambda: watcher.execute(queues).fetchone() == (2,), "the reader to queue behind the drop")
        other.cancel_safe()
        assert sorted(rows.result()) == list(range(1, 501))


def test_one_who_waits_to_drop_a_table_and_stays_is_named_and_the_backup_gives_way(
    address: Address, held: HeldSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.postgresql.snapshot.snapshot.QUEUE_WAIT_S", 0.1)
    table = table_of(held, "orders")
    with (
        somebody_waits_to_drop(address, "public.orders") as other,
        pytest.raises(
            BusyError, match=rf"behind: (public\.)?orders by pid {other.info.backend_pid} \(holdfast\).*--ddl wait"
        ),
        open_reader(address, held.snapshot, [table]),
    ):
        pass


def test_another_snapshot_than_the_held_one_is_noticed(address: Address, held: HeldSnapshot) -> None:
    wrong = replace(held.snapshot, marker="1:1:")
    with pytest.raises(HoldfastError, match="is a pooler in between"), open_reader(address, wrong, []):
        pass


def test_a_snapshot_that_is_gone_is_said_without_the_password(address: Address, held: HeldSnapshot) -> None:
    gone = replace(held.snapshot, name="00000000-00000000-1")
    with pytest.raises(HoldfastError, match="the snapshot is gone") as failed, open_reader(address, gone, []):
        pass
    assert address.password
    assert address.password not in str(failed.value)


def test_a_value_above_the_limit_is_found_by_the_row_it_names(
    address: Address, held: HeldSnapshot, session: psycopg.Connection[Any]
) -> None:
    table = table_of(held, "orders")
    decoder = Decoder(table.columns, max_value_bytes=498)
    with open_reader(address, held.snapshot, [table]) as reader:
        batches = (batch for piece in cut(table, 20_000, queries=True) for batch in reader.batches(piece, decoder))
        with pytest.raises(ValueTooLargeError) as found:
            list(batches)
    said = str(found.value)
    assert 'column "word": a value of 499 bytes is above the limit of 498' in said
    where = said.removeprefix("public.orders, row with ").split(", column")[0]
    assert session.execute(f"select id from public.orders where {where}".encode()).fetchone() == (499,)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What readers ask for rows."""
    asked: list[str] = []

    def listening(session: Any, address: Address, statements: Sequence[str]) -> Iterator[CopiedRows]:
        asked.extend(statements)
        return copy_out(session, address, statements)

    monkeypatch.setattr("holdfast.postgresql.snapshot.table_reader.copy_out", listening)
    return asked


def select_in(copy: str) -> str:
    return copy.removeprefix("COPY (").removesuffix(") TO STDOUT (FORMAT binary)")


def read_pieces(address: Address, held: HeldSnapshot, table: Table, piece_bytes: int) -> list[pa.RecordBatch]:
    decoder = Decoder(table.columns)
    with open_reader(address, held.snapshot, [table]) as reader:
        pieces = (replace(piece, by_query=True) for piece in cut(table, piece_bytes, queries=True))
        return [batch for piece in pieces for batch in reader.batches(piece, decoder)]


@pytest.mark.parametrize("piece_bytes", [1 << 30, 100 * 8192])
def test_a_large_table_comes_column_by_column_with_the_same_rows_in_the_same_order(
    address: Address, session: psycopg.Connection[Any], queries: list[str], piece_bytes: int
) -> None:
    session.execute("create table public.page (id int not null, first text, t int, price numeric(8,2), answer date)")
    session.execute(
        "insert into public.page select i, nullif(repeat('ä', i % 90), ''), i, nullif(i % 7, 0) / 3.0, "
        "case when i % 5 > 0 then date '2020-01-01' + i else 'infinity' end from generate_series(1, 30000) i"
    )
    session.execute("delete from public.page where ctid >= '(40,0)' and ctid < '(90,0)' or id % 50 = 0")
    ordered = session.execute("select id from public.page order by ctid").fetchall()
    with hold_snapshot(address) as held:
        table = table_of(held, "page")
        assert table.pages > 300
        found = pa.Table.from_batches(read_pieces(address, held, table, piece_bytes))
        asked = [query for query in queries if "lateral" in query]
        assert len(asked) == len(cut(table, piece_bytes, queries=True))
        view = table.model_copy(update={"access_method": "columnar"})
        by_rows = pa.Table.from_batches(read_pieces(address, held, view, piece_bytes))
    assert found["id"].to_pylist() == [id_ for (id_,) in ordered]
    assert found == by_rows


def test_the_server_reads_each_page_once_where_rows_come_column_by_column(
    address: Address, session: psycopg.Connection[Any], queries: list[str]
) -> None:
    session.execute("create table public.page (id int)")
    session.execute("insert into public.page select generate_series(1, 30000)")
    with hold_snapshot(address) as held:
        read_pieces(address, held, table_of(held, "page"), 1 << 30)
    (query,) = (query for query in queries if "lateral" in query)
    plan = "\n".join(line for (line,) in session.execute(f"explain {select_in(query)}".encode()))
    assert "Tid Range Scan" in plan
    assert "Seq Scan" not in plan
    assert "Memoize" not in plan


def test_an_older_server_sends_a_large_table_column_by_column_too(
    older: Callable[[int], PostgresServer], queries: list[str]
) -> None:
    server = older(14)
    with psycopg.connect(server.conninfo(), autocommit=True) as administrator:
        administrator.execute("create database by_columns")
    address = Address.parse(server.url("by_columns"), server.password)
    with connect(address) as session:
        session.execute("create table public.page (id int, word text, price numeric(8,2))")
        session.execute("insert into public.page select i, 'w' || i, i / 8.0 from generate_series(1, 30000) i")
        with hold_snapshot(address) as held:
            batches = read_pieces(address, held, table_of(held, "page"), 1 << 30)
        (query,) = (query for query in queries if "lateral" in query)
        assert "Tid Range Scan" in str(session.execute(f"explain {select_in(query)}".encode()).fetchall())
    assert [id_ for batch in batches for id_ in batch["id"].to_pylist()] == list(range(1, 30001))
    assert str(batches[-1]["price"][-1]) == "3750.00"


def test_a_table_with_values_outside_of_its_pages_comes_row_by_row(
    address: Address, session: psycopg.Connection[Any], queries: list[str]
) -> None:
    session.execute("create table public.page (id int, word text)")
    session.execute("alter table public.page alter word set storage external")
    session.execute("insert into public.page select i, repeat('x', 500) from generate_series(1, 2000) i")
    session.execute("insert into public.page values (0, repeat('x', 9000))")
    with hold_snapshot(address) as held:
        table = table_of(held, "page")
        assert table.pages >= 100
        assert sum(batch.num_rows for batch in read_pieces(address, held, table, 1 << 30)) == 2001
    assert not [query for query in queries if "lateral" in query]


def test_a_table_in_another_encoding_comes_row_by_row(new_database: Callable[..., Address], queries: list[str]) -> None:
    address = new_database("encoding 'LATIN1' template template0")
    with connect(address) as session:
        session.execute("create table public.page (id int, word text)")
        session.execute("insert into public.page select i, 'ä' || i from generate_series(1, 30000) i")
    with hold_snapshot(address) as held:
        batches = read_pieces(address, held, table_of(held, "page"), 1 << 30)
    assert [row for batch in batches for row in batch["word"].to_pylist()] == [f"ä{i}" for i in range(1, 30001)]
    assert not [query for query in queries if "lateral" in query]


def test_a_null_in_a_column_that_is_not_null_since_later_comes_too(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table public.page (id int, word text)")
    session.execute("insert into public.page select nullif(i, 7), 'x' from generate_series(1, 30000) i")
    session.execute("alter table public.page add constraint later not null id not valid")
    with hold_snapshot(address) as held:
        table = table_of(held, "page")
        assert table.columns[0].not_null
        found = [id_ for batch in read_pieces(address, held, table, 1 << 30) for id_ in batch.column("id").to_pylist()]
    assert found == [None if number == 7 else number for number in range(1, 30001)]


def test_a_value_above_the_limit_in_rows_that_come_column_by_column_is_found_by_its_row(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table public.page (id int, word text)")
    session.execute("insert into public.page select i, repeat('x', case i when 29000 then 900 else 30 end) "
                    "from generate_series(1, 30000) i")  # fmt: skip
    with hold_snapshot(address) as held:
        table = table_of(held, "page")
        decoder = Decoder(table.columns, max_value_bytes=899)
        piece = replace(cut(table, queries=True)[0], by_query=True)
        with open_reader(address, held.snapshot, [table]) as reader, pytest.raises(ValueTooLargeError) as found:
            list(reader.batches(piece, decoder))
    where = str(found.value).removeprefix("public.page, row with ").split(", column")[0]
    assert session.execute(f"select id from public.page where {where}".encode()).fetchone() == (29000,)


def test_tables_with_the_same_columns_are_read_together_as_each_alone(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    columns = "id int primary key, word varchar(600), price numeric(8,2), born date, note jsonb"
    session.execute(f"create table public.many (tenant int, {columns.replace(' primary key', '')})".encode())
    for number, rows in enumerate((7, 0, 3, 0, 0, 2000, 1, 0)):
        session.execute(f"create table public.t{number} ({columns})".encode())
        session.execute(
            f"insert into public.t{number} select i, nullif(repeat('ä', i % 500), ''), i / 3.0, "
            "case when i % 2 = 0 then 'infinity'::date end, to_jsonb(i) "
            f"from generate_series(1, {rows}) i".encode()
        )
    with hold_snapshot(address) as held:
        pieces = [cut(table, queries=True)[0] for table in held.catalog.tables if table.name.startswith("t")]
        decoder = Decoder(pieces[0].table.columns)
        assert len({piece.table.columns for piece in pieces}) == 1
        with open_reader(address, held.snapshot, [piece.table for piece in pieces]) as reader:
            parts = list(reader.parts(pieces, decoder))
            assert [part.place for part in parts] == [0, 2, 5, 6]
            for place, piece in enumerate(pieces):
                found = [part.rows for part in parts if part.place == place]
                alone = [part.rows for part in reader.parts([piece], decoder)]
                assert pa.Table.from_batches(found, decoder.schema) == pa.Table.from_batches(alone, decoder.schema)
            assert all(part.digest == decoder.digest(part.rows) for part in parts)


def test_a_value_above_the_limit_in_tables_read_together_is_found_by_table_and_row(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table public.more (id int, word text)")
    session.execute("insert into public.more values (1, 'x'), (2, repeat('x', 600))")
    with hold_snapshot(address) as held:
        pieces = [cut(table_of(held, name), queries=True)[0] for name in ("orders", "more")]
        decoder = Decoder(pieces[0].table.columns, max_value_bytes=599)
        said = r'public.more, row 2 of those that COPY gives, column "word"'
        with (
            open_reader(address, held.snapshot, [piece.table for piece in pieces]) as reader,
            pytest.raises(ValueTooLargeError, match=said),
        ):
            list(reader.parts(pieces, decoder))


@pytest.mark.parametrize(("pages", "pieces"), [(1, 1), (3, 3), (400, 8)])
def test_a_table_of_large_values_is_cut_as_far_as_its_heap_allows(pages: int, pieces: int) -> None:
    table = Table(
        oid=1,
        table_schema="public",
        name="photos",
        kind="r",
        persistence="p",
        replica_identity="d",
        access_method="heap",
        parents=(),
        bound=None,
        owner="postgres",
        columns=(),
        key=(),
        pages=pages,
        size=8 * PIECE_BYTES,
        estimated_rows=400,
    )
    assert len(cut(table, queries=True)) == pieces
    assert len(cut(table, queries=False)) == 1
