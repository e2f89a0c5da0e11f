"""Backups of real databases: what is refused, with which words, and that nothing of it is committed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

from holdfast.archive import Archive
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup import grants
from holdfast.storage import ObjectStore
from sparkjobs.driver.application import Job
from sparkjobs.driver.snapshot_reader import Limits
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def shop(create_database: Callable[..., Address]) -> Address:
    """Two tables, one of them in a schema of its own and empty."""
    return create_database(
        "create table orders as select i as id, 'order ' || i as name from generate_series(1, 1000) i",
        "create schema crm",
        "create table crm.people (id int primary key)",
    )


def assert_nothing_committed(store: ObjectStore) -> None:
    assert Archive.open(store).state.sequence == 0


def test_a_backup_commits_one_block_that_says_what_it_holds_and_no_password(
    run_backup: RunJob, shop: Address, store: ObjectStore
) -> None:
    code, record = run_backup(shop)
    assert record.result is not None
    (commit,) = Archive.open(store).commits()
    (block,) = commit.add
    assert (code, record.result["commit"], record.result["rows"], record.result["kind"]) == (0, 1, 1000, "full")
    assert {table.label: table.rows for table in block.tables} == {"public.orders": 1000, "crm.people": 0}
    assert (block.run, block.source.name, block.source.database) == (record.run, "shop", shop.database)
    assert commit.fence is not None
    # The server is set up without logical WAL, so the position is not exact, and that is said.
    assert record.result["snapshot_note"] == "wal_level is replica, not logical"
    assert block.covers.exact is False
    assert_kept_nowhere(store, shop.password)


def assert_kept_nowhere(store: ObjectStore, secret: str | None) -> None:
    assert secret
    files = [path for path in Path(store.url).rglob("*") if path.is_file()]
    assert {path.relative_to(store.url).parts[0] for path in files} >= {"commits", "data", "locks", "runs"}
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_only_chosen_tables_are_read_and_the_others_are_named(
    run_backup: RunJob, shop: Address, store: ObjectStore
) -> None:
    code, record = run_backup(shop, "--tables", "crm.*")
    assert record.result is not None
    assert (code, record.result["not_included"]) == (0, ["rows of public.orders: not selected"])


def test_an_empty_database_is_backed_up(
    run_backup: RunJob, create_database: Callable[..., Address], store: ObjectStore
) -> None:
    code, record = run_backup(create_database())
    assert record.result is not None
    assert (code, record.result["rows"], record.result["tables"]) == (0, 0, 0)


def test_a_pattern_that_matches_nothing_is_refused_with_an_example(
    run_backup: RunJob, shop: Address, store: ObjectStore
) -> None:
    assert failed(run_backup(shop, "--tables", "orders")) == (
        2,
        "--tables orders matches no table; they are named schema.table; did you mean 'public.orders'?",
    )
    assert_nothing_committed(store)


def test_a_value_above_the_limit_is_named_by_table_column_and_row(
    run_backup: RunJob, shop: Address, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_VALUE_BYTES", "9")
    code, message = failed(run_backup(shop))
    assert code == 1
    assert re.match(
        r'public\.orders, row \d+ of those that COPY gives, column "name": a value of 10 bytes is above the limit',
        message,
    )
    assert "set HOLDFAST_MAX_VALUE_BYTES higher" in message
    assert_nothing_committed(store)


def test_a_limit_that_is_no_number_is_refused(
    run_backup: RunJob, shop: Address, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_VALUE_BYTES", "a lot")
    code, message = failed(run_backup(shop))
    assert (code, "write a number of bytes, such as 268435456" in message) == (2, True)


def test_a_type_that_cannot_be_loaded_again_is_refused_with_its_table(
    run_backup: RunJob, create_database: Callable[..., Address], store: ObjectStore
) -> None:
    database = create_database("create table odd (id int, plan pg_node_tree)")
    code, message = failed(run_backup(database))
    assert code == 5
    assert message.startswith('public.odd: column "plan" has type pg_node_tree')
    assert_nothing_committed(store)


@pytest.fixture
def reader(create_database: Callable[..., Address]) -> Iterator[Address]:
    """A database with a table that somebody who may connect may not read."""
    database = create_database(
        "create table secrets (id int)", "drop role if exists reader", "create role reader login password 'r'"
    )
    yield Address(database.url.replace("postgres@", "reader@"), "r")
    with connect(database) as session:
        session.execute("drop owned by reader")
        session.execute("drop role reader")


def test_tables_that_may_not_be_read_are_named_with_the_grant_that_is_missing(
    run_backup: RunJob, reader: Address, store: ObjectStore
) -> None:
    assert failed(run_backup(reader)) == (
        5,
        "reader may not read public.secrets: grant pg_read_all_data to reader, or SELECT on each",
    )
    assert_nothing_committed(store)


def test_a_role_that_was_set_up_makes_a_whole_backup_and_none_after_its_removal(
    run_backup: RunJob, create_database: Callable[..., Address], store: ObjectStore
) -> None:
    database = create_database(
        "create schema hr",
        "create table hr.staff as select i as id from generate_series(1, 100) i",
        "alter table hr.staff enable row level security",
        "create sequence hr.numbers",
        "create table hr.parted (id int) partition by range (id)",
        "create table hr.part partition of hr.parted for values from (0) to (9)",
    )
    role = Address(database.url.replace("postgres@", "set_up@"), "p")
    plan = grants.plan_setup(database, [database.database], "set_up", per_schema=True)
    grants.run(database, plan)
    with connect(database) as session:
        session.execute("alter role set_up password 'p'")
    code, record = run_backup(role)
    assert record.result is not None
    assert (code, record.result["rows"], record.result["not_included"]) == (0, 100, [])
    with connect(role) as session:
        for more in ("insert into hr.staff values (1)", "delete from hr.staff", "create table hr.mine ()",
                     "create schema mine", "alter table hr.staff add x int", "create role another"):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(more.encode())
    grants.run(database, grants.plan_remove(database, [database.database], "set_up", keep_role=True))
    assert failed(run_backup(role)) == (
        5,
        "set_up may not use the schemas hr, and may not read hr.numbers, hr.part, hr.parted, hr.staff: grant "
        "pg_read_all_data to set_up, or USAGE on each schema and SELECT on each table and sequence; row-level security "
        "would hide rows of hr.staff from set_up: use a role with BYPASSRLS (alter role set_up bypassrls)",
    )
    with connect(database) as session:
        session.execute("drop role set_up")


def test_a_backup_keeps_to_the_limits_it_was_given(
    run_backup: RunJob, create_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create_database(
        *(f"create table t{number} as select generate_series(1, 10) as id" for number in range(4)),
        "create table many as select repeat('x', 1000) as word from generate_series(1, 2000)",
    )
    monkeypatch.setattr("sparkjobs.tasks.pieces.PIECE_BYTES", 1)
    code, record = run_backup(source, "--connections", "1", "--bandwidth", "1 MB")
    assert record.result is not None, record.error
    assert (code, record.result["rows"]) == (0, 2040)
    assert record.result["seconds"] > 2  # two megabytes in one session, and a megabyte a second


def test_sessions_share_the_bandwidth() -> None:
    job = cast("Job", SimpleNamespace(cores=8))
    assert Limits(connections=4, bandwidth=100.0).pace(job, 10) == 25.0
    assert Limits(connections=4, bandwidth=100.0).pace(job, 2) == 50.0
    assert Limits(bandwidth=100.0).pace(job, 10) == 12.5
    assert Limits(connections=16, bandwidth=100.0).pace(job, 10) == 12.5
    assert Limits(connections=4).pace(job, 10) is None
