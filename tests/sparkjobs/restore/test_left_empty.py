"""Restores without the rows of some tables, or of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

SHOP = (
    "create table customers (id int primary key)",
    "create table orders (id serial primary key, customer int references customers)",
    "create table log (at int, what text) partition by range (at)",
    "create table log_1 partition of log for values from (0) to (100)",
    "create table log_2 partition of log default",
    "create materialized view per_customer as select customer, count(*) as n from orders group by 1",
    "insert into customers select generate_series(1, 10)",
    "insert into orders (customer) select 1 + i % 10 from generate_series(1, 100) i",
    "insert into log select i, 'what' from generate_series(1, 200) i",
    "select lo_from_bytea(0, 'a picture')",
    "refresh materialized view per_customer",
)
COUNTS = "select (select count(*) from customers), (select count(*) from orders), (select count(*) from log)"


@pytest.fixture(scope="module")
def shop(create_database: Callable[..., Address]) -> Address:
    return create_database(*SHOP)


def counts(address: Address) -> Any:
    with connect(address) as session:
        session.execute("set search_path = public")
        return session.execute(COUNTS).fetchone()


def named_of(ran: Any) -> dict[str, str]:
    code, record = ran
    assert code == 0, record.error
    return {each["object"]: each["reason"] for each in record.result["not_restored"]}


def test_excluded_tables_come_back_empty_with_their_partitions(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    plan = run_restore(target, "--exclude", "public.log", "--dry-run")[1].result
    assert plan is not None
    assert (plan["rows"], plan["tables"]) == (111, 3)
    ran = run_restore(target, "--exclude", "public.log")
    assert named_of(ran) == {"rows of table public.log_1": "--exclude", "rows of table public.log_2": "--exclude"}
    assert ran[1].result is not None
    assert (ran[1].result["rows"], ran[1].result["tables"], counts(target)) == (111, 3, (10, 100, 0))


def test_a_key_to_an_excluded_table_gives_way_and_is_named(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    named = named_of(run_restore(target, "--exclude", "public.customers"))
    assert named.pop("rows of table public.customers") == "--exclude"
    ((what, why),) = named.items()
    assert what == "foreign key public.orders orders_customer_fkey"
    assert "violates foreign key constraint" in why
    assert counts(target) == (0, 100, 200)


def test_of_chosen_tables_excluded_ones_stay_out(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    code, record = run_restore(target, "--tables", "public.*", "--exclude", "public.log", "--exclude", "public.orders")
    assert code == 0, record.error
    with connect(target) as session:
        found = session.execute("select relname from pg_class where relkind in ('r', 'p') and relnamespace = 2200")
        assert [name for (name,) in found] == ["customers"]
    assert failed(run_restore(target, "--tables", "public.log", "--exclude", "public.*"))[0] == 2
    assert failed(run_restore(create_database(), "--exclude", "public.nothing"))[0] == 2


def test_definitions_alone_bring_no_row_no_large_object_and_no_value(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database()
    ran = run_restore(target, "--schema-only")
    assert named_of(ran) == {"all rows, large objects and values of sequences": "--schema-only"}
    assert ran[1].result is not None
    assert (ran[1].result["rows"], ran[1].result["tables"], counts(target)) == (0, 0, (0, 0, 0))
    with connect(target) as session:
        assert session.execute("select count(*) from pg_largeobject_metadata").fetchone() == (0,)
        assert session.execute("select nextval('public.orders_id_seq')").fetchone() == (1,)
        assert session.execute("select count(*) from pg_constraint where contype = 'f'").fetchone() == (1,)


@pytest.mark.exhaustive
def test_definitions_of_one_table_come_beside_others(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob
) -> None:
    target = create_database(*SHOP)
    options = ("--schema-only", "--tables", "public.log", "--map", "public.log=public.log_new")
    code, record = run_restore(target, *options)
    assert code == 0, record.error
    with connect(target) as session:
        assert session.execute("select count(*) from public.log_new_1").fetchone() == (0,)
