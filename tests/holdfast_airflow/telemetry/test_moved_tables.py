"""Tables that lineage names: what the archive says of a backup, and of a restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.server import PostgresServer
from holdfast_airflow.telemetry import lineage
from holdfast_airflow.telemetry.lineage import Moved, MovedTable, lineage_of, tables_read, tables_written
from tests.support.following.followed import Followed, open_followed
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

ORDERS = MovedTable("public.orders", (("id", "integer"), ("price", "numeric(12,2)")))
CUSTOMERS = MovedTable("shop.customers", (("name", "text"),))


@pytest.fixture(scope="module")
def followed(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A source of two tables, with a full backup, and one of the changes of one table."""
    with (
        passing_database(postgres) as source,
        open_followed(source, tmp_path_factory.mktemp("moved") / "archive") as made,
    ):
        made.run("create schema shop", "create table shop.customers (name text primary key)")
        made.run("create table orders (id int primary key, price numeric(12,2))", "insert into orders values (1, 2)")
        yield made


@pytest.fixture(scope="module")
def backups(followed: Followed) -> list[dict[str, Any]]:
    """What the backups have returned."""
    full = followed.back_up("changes")
    followed.run("insert into orders values (2, 3)")
    return [full, followed.back_up()]


def test_a_full_backup_reads_all_tables_and_an_incremental_one_those_with_changes(
    followed: Followed, backups: list[dict[str, Any]]
) -> None:
    full, changes = (tables_read(followed.store, each) for each in backups)
    assert full == [ORDERS, CUSTOMERS]
    assert changes == [ORDERS]
    assert tables_read(followed.store, {"block": "none"}) == []


def test_a_restore_writes_the_chosen_tables_by_their_new_names(
    followed: Followed, backups: list[dict[str, Any]]
) -> None:
    summary = {"commit": backups[1]["commit"]}

    def written(*, left_out: str = "", chosen: tuple[str, ...] = (), maps: tuple[str, ...] = ()) -> list[str]:
        told = {**summary, "skipped_existing": [left_out]}
        return [each.name for each in tables_written(followed.store, told, source=None, chosen=chosen, maps=maps)]

    assert written() == ["public.orders", "shop.customers"]
    assert written(chosen=("public.*",), maps=("public=back",)) == ["back.orders"]
    assert written(left_out="public.orders") == ["shop.customers"]


def test_names_and_columns_are_bounded(
    followed: Followed, backups: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "MOST_COLUMNS", 2)
    assert tables_read(followed.store, backups[0]) == [ORDERS, MovedTable("shop.customers")]
    monkeypatch.setattr(lineage, "MOST_TABLES", 1)
    assert tables_read(followed.store, backups[0]) == [ORDERS]


def test_tables_are_datasets_with_their_columns(followed: Followed, backups: list[dict[str, Any]]) -> None:
    read = lineage_of(Moved("source", followed.address, followed.store, backups[0])).inputs
    database = followed.address.database
    assert [each.name for each in read] == [database, f"{database}.public.orders", f"{database}.shop.customers"]
    fields = read[1].facets["schema"].fields  # type: ignore[index, union-attr]
    assert [(each.name, each.type, each.ordinal_position) for each in fields] == [
        ("id", "integer", 1),
        ("price", "numeric(12,2)", 2),
    ]
    summary = {**backups[1], "commit": backups[1]["commit"]}
    moved = Moved("target", followed.address, followed.store, summary, tables=("public.*",))
    assert [each.name for each in lineage_of(moved).outputs] == [database, f"{database}.public.orders"]


def test_where_the_archive_does_not_tell_the_tables_the_database_stands_for_them(
    followed: Followed, backups: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(*_: object, **__: object) -> list[MovedTable]:
        raise HoldfastError("the catalog is missing")

    monkeypatch.setattr("holdfast_airflow.telemetry.lineage.tables_read", damaged)
    read = lineage_of(Moved("source", followed.address, followed.store, backups[0])).inputs
    assert [each.name for each in read] == [followed.address.database]
    assert "the lineage names no tables: the catalog is missing" in caplog.text
