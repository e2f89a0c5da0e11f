"""What is said of each table's moments, against what a restore gives at each of them and what the server had."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.common.lsn import parse_position
from holdfast.point_in_time.table_coverage import TableCoverage, TableRange, TableReport, table_report
from holdfast.point_in_time.target_contents import catalog_of, catalog_reader, older_rows, parts_of
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import open_store
from tests.support.following.followed import Followed, open_followed
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

TABLES = (
    "create table customers (id int primary key, name text)",
    "create table orders (id int primary key, amount int, word text)",
    "create table visits (at timestamptz, page text)",
    "insert into customers values (1, 'Ada'), (2, 'Bob')",
    "insert into orders values (1, 10, 'a'), (2, 20, 'b')",
    "insert into visits values (now(), '/')",
)

HISTORY = (
    ("insert into orders values (3, 30, 'c')",),
    ("insert into visits values (now(), '/orders')",),
    ("alter table orders alter amount type bigint using amount * 100",),
    ("update orders set word = 'd' where id = 1",),
    ("update customers set name = 'Eve' where id = 2",),
    None,
    ("create table notes (id int primary key, t text)", "insert into notes values (1, 'x')"),
    ("insert into notes values (2, 'y')",),
    ("alter table customers add column mail text default 'none'",),
    ("insert into customers values (3, 'Joe', 'joe@example.org')",),
    None,
    ("drop table orders",),
    ("update notes set t = upper(t)",),
    None,
    ("insert into notes values (3, 'z')",),
    None,
)
"""Transactions; None is a backup."""


@pytest.fixture(scope="module")
def followed(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """The whole history, in an archive."""
    folder = tmp_path_factory.mktemp("followed") / "archive"
    with passing_database(postgres) as address, open_followed(address, folder) as made:
        made.make(TABLES)
        made.back_up()
        made.note()
        for transaction in HISTORY:
            if transaction is None:
                made.back_up()
                made.note()
            else:
                made.run(*transaction)
        yield made


def given(followed: Followed) -> TableReport:
    return table_report(followed.archive().state, followed.store, "shop")


def at(table: TableCoverage, position: str) -> TableRange | None:
    found = [each for each in table.ranges if each.first <= parse_position(position) <= each.last]
    assert len(found) < 2
    return found[0] if found else None


def test_each_moment_is_told_as_a_restore_gives_it(followed: Followed) -> None:
    tables = {table.label: table for table in given(followed).tables}
    told_of = set[str]()
    for position, truth in followed.moments:
        moment = followed.moment(f"lsn:{position}")
        catalog = catalog_of(followed.store, moment)
        lacking = {
            each.label: each
            for each in older_rows(
                moment, catalog.with_rows(), *parts_of(catalog_reader(followed.store), moment, catalog)
            )
        }
        there = {table.oid: table.label for table in catalog.with_rows()}
        for oid, label in there.items():
            stretch = at(tables[label], position)
            assert stretch is not None, (label, position)
            told_of.add(stretch.outcome.rows)
            lack = lacking.get(label)
            if lack is None:
                assert stretch.outcome.rows == "exact" or moment.doubt, (label, position)
            else:
                assert (stretch.outcome.as_of, stretch.outcome.reason) == (lack.as_of, lack.reason)
            if stretch.outcome.rows == "exact" and stretch.outcome.is_schema_known:
                table = next(each for each in catalog.tables if each.oid == oid)
                got, known = followed.table_at(moment, table), truth[oid]
                assert got.columns == known.columns
                assert got.only(sorted(got.columns)) == known.only(sorted(known.columns)), (label, position)
    assert told_of == {"exact", "older", "missing"}


def described(table: TableCoverage) -> list[tuple[str, str]]:
    return [(each["rows"], each["schema"]) for each in table.describe()["stretches"]]


def test_what_migrations_did_to_tables_is_told_of_each(followed: Followed) -> None:
    tables = {table.label: table for table in given(followed).tables}
    assert {label: described(table) for label, table in tables.items()} == {
        "public.customers": [("exact", "known"), ("exact", "approximate"), ("exact", "known")],
        "public.notes": [("missing", "approximate"), ("exact", "known")],
        # Exact at the backup before it was rewritten, older up to the next, exact from there until it was dropped.
        "public.orders": [("exact", "known"), ("older", "approximate"), ("exact", "known"), ("exact", "approximate")],
        "public.visits": [("exact", "known"), ("older", "known")],
    }
    orders, visits = tables["public.orders"], tables["public.visits"]
    assert orders.ranges[1].outcome.as_of == orders.ranges[0].end
    assert visits.exact_to == visits.ranges[1].start
    assert not any(table.is_exact for table in tables.values())


def test_a_table_that_migrations_leave_alone_is_exact_all_the_time(address: Address, tmp_path: Path) -> None:
    with open_followed(address, tmp_path / "archive") as followed:
        followed.make(TABLES)
        followed.back_up()
        followed.run("alter table orders add column note text")
        followed.run("insert into customers values (4, 'Kim')")
        followed.back_up()
        said = given(followed)
    (customers,) = (table for table in said.tables if table.is_exact)
    assert (customers.label, len(customers.ranges)) == ("public.customers", 1)
    value = said.describe()
    assert ([each["table"] for each in value["tables"]], value["tables_exact"]) == (
        ["public.orders", "public.visits"],
        1,
    )
    value = said.describe(["public.c*"])
    assert ([each["table"] for each in value["tables"]], value["tables_exact"]) == (["public.customers"], 0)


def test_behind_a_backup_that_was_ended_the_schema_is_not_known(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise OSError("ended")

    with open_followed(address, tmp_path / "archive") as followed:
        followed.make(TABLES)
        followed.back_up()
        for number in range(10, 30):
            followed.run(f"insert into customers values ({number}, repeat('x', 500))")
        with monkeypatch.context() as patch:
            patch.setattr("sparkjobs.driver.log_windows.WINDOW_BYTES", 1 << 10)
            patch.setattr("sparkjobs.driver.archived_log.ArchivedLog.let_go", ended)
            with pytest.raises(OSError, match="ended"):
                followed.back_up()
        tables = {table.label: described(table) for table in given(followed).tables}
        assert tables["public.customers"] == [("exact", "known"), ("exact", "approximate")]
        followed.back_up()
        tables = {table.label: described(table) for table in given(followed).tables}
        assert tables["public.customers"] == [("exact", "known")]


@pytest.mark.exhaustive
def test_where_a_file_is_damaged_the_others_are_told_of(followed: Followed, tmp_path: Path) -> None:
    before = {table.label: described(table) for table in given(followed).tables}
    placed = followed.moment(f"lsn:{followed.moments[-4][0]}").schema
    damaged = open_store(str(shutil.copytree(followed.store.url, tmp_path / "archive")))
    damaged.delete(placed.block.catalog.path)
    said = table_report(followed.archive().state, damaged, "shop")
    assert "is missing" in {each.reason for each in said.unread}.pop()
    after = {table.label: described(table) for table in said.tables}
    assert set(after) == set(before)
    assert after != before
