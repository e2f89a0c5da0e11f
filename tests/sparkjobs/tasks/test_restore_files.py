"""The work of a restore's tasks on a real server: files come into tables once, and what does not fit is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.format.document import FileRecord
from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rows.apply import Applied
from holdfast.postgresql.restore.rows.generated_columns import hash_apart, sum_apart
from holdfast.postgresql.restore.rows.staging_tables import MisfitError
from holdfast.postgresql.values.stored_columns import schema_of
from holdfast.storage import ObjectStore, open_store
from sparkjobs.tasks.restore_files import ChangeApplier, ChangedTable, FileHasher, FileLoader
from tests.support.archives import histories
from tests.support.archives.histories import SINCE, history_of, write_base, write_changes
from tests.support.archives.queried import order

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


@pytest.fixture
def session(address: Address) -> Iterator[Session]:
    with connect(address) as opened:
        ledger.create_ledger(opened, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        opened.execute("create table public.a (id int check (id > 0)); create table public.b (id int)")
        opened.execute(
            "create table public.orders (id int8, day date, text text, note text, gone int, price numeric(10,2) "
            "check (price > 0)); alter table public.orders drop gone"
        )
        yield opened


def tables(session: Session) -> dict[str, Table]:
    return {table.name: table for table in read_tables(session)}


def file(store: ObjectStore, table: Table, name: str, *ids: int) -> FileRecord:
    schema = schema_of(table.columns)
    [made] = write_parquet(store, f"data/{name}", schema, [pa.record_batch([pa.array(ids, pa.int32())], schema=schema)])
    return made


def ids(session: Session, table: str) -> list[int]:
    return [row[0] for row in session.execute(f"select id from public.{table} order by 1".encode())]


def told() -> tuple[list[tuple[int, int]], Any]:
    seen: list[tuple[int, int]] = []
    return seen, lambda rows, size: seen.append((rows, size))


def test_files_are_loaded_once_and_told_with_their_rows(session: Session, address: Address, store: ObjectStore) -> None:
    a, b = (tables(session)[name] for name in "ab")
    files = [(a, file(store, a, "1", 1, 2)), (b, file(store, b, "2", 3))]
    seen, report = told()
    assert list(FileLoader(store, address, ())(files, report)) == []
    assert (ids(session, "a"), ids(session, "b")) == ([1, 2], [3])
    assert seen == [(2, files[0][1].size), (1, files[1][1].size)]
    list(FileLoader(store, address, ())(files, report))
    assert ids(session, "a") == [1, 2]
    assert seen[2:] == [(0, files[0][1].size), (0, files[1][1].size)]


def test_a_table_that_does_not_take_its_rows_is_told_once_where_that_is_tolerated(
    session: Session, address: Address, store: ObjectStore
) -> None:
    a, b = (tables(session)[name] for name in "ab")
    files = [(a, file(store, a, "1", -1)), (a, file(store, a, "2", 5)), (b, file(store, b, "3", -1))]
    seen, report = told()
    assert list(FileLoader(store, address, {a.oid})(files, report)) == [a.oid]
    assert (ids(session, "a"), ids(session, "b"), len(seen)) == ([], [-1], 1)
    with pytest.raises(MisfitError, match=r"public\.a does not take its rows"):
        list(FileLoader(store, address, {b.oid})(files, report))
    with pytest.raises(MisfitError, match=r"^shop\.orders does not take its rows"):
        list(FileLoader(store, address, (), {a.oid: "shop.orders"})(files, report))


def test_columns_of_files_are_hashed_apart(session: Session, store: ObjectStore) -> None:
    a = tables(session)["a"]
    files = [(a, file(store, a, "1", 1, 2)), (a, file(store, a, "2", 3))]
    seen, report = told()
    found = list(FileHasher(store)(files, report))
    assert [oid for oid, _ in found] == [a.oid, a.oid]
    schema = schema_of(a.columns)
    whole = hash_apart(a, [pa.record_batch([pa.array([3, 1, 2], pa.int32())], schema=schema)])
    assert sum_apart(apart for _, apart in found) == whole
    assert [rows for rows, _ in seen] == [2, 1]


def changed(session: Session, store: ObjectStore, *changes: histories.Change) -> ChangedTable:
    base = write_base(store, [], 1)
    records = write_changes(store, list(changes), block_of=9, file_of=1, key=(1,))
    return ChangedTable(tables(session)["orders"], history_of(base, records, 9000, 0, (1,)))


def test_changes_are_applied_by_their_net_once(session: Session, address: Address, store: ObjectStore) -> None:
    session.execute("insert into public.orders values (1, 'infinity', 'a', 'n', 1.00), (2, 'infinity', 'b', 'n', 2.00)")
    wanted = changed(
        session,
        store,
        histories.Change(0, SINCE + 1, 0, "U", order(1, "x", "1.00")),
        histories.Change(0, SINCE + 2, 0, "U", order(1, "changed", "1.50")),
        histories.Change(0, SINCE + 3, 0, "D", {1: 2}),
        histories.Change(0, SINCE + 4, 0, "I", order(3, "new", "4.00")),
    )
    assert (wanted.step, len(wanted.files)) == ("changes 1", 4)
    assert wanted.size == sum(each.size for each in wanted.files)
    seen, report = told()
    applier = ChangeApplier(store, address, ())
    assert list(applier([wanted], report)) == []
    rows = session.execute("select id, text from public.orders order by 1").fetchall()
    assert rows == [(1, "changed"), (3, "new")]
    assert seen == [(2, wanted.size)]
    noted = Applied.from_json(ledger.read_steps(session)["changes 1"])
    assert (noted.deleted.rows, noted.inserted.rows) == (2, 2)
    assert list(applier([wanted], report)) == []
    assert seen[1:] == [(0, wanted.size)]
    assert session.execute("select count(*) from public.orders").fetchone() == (2,)


def test_changes_that_a_table_does_not_take_are_told_where_that_is_tolerated(
    session: Session, address: Address, store: ObjectStore
) -> None:
    wanted = changed(session, store, histories.Change(0, SINCE + 1, 0, "I", order(1, "free", "0.00")))
    seen, report = told()
    assert list(ChangeApplier(store, address, {wanted.table.oid})([wanted], report)) == [wanted.table.oid]
    assert seen == [(0, wanted.size)]
    assert "changes 1" not in ledger.read_steps(session)
    with pytest.raises(MisfitError, match="violates check constraint"):
        list(ChangeApplier(store, address, ())([wanted], report))
