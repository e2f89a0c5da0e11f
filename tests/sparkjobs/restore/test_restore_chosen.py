"""Chosen tables, and other names: into an empty database, or beside what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from holdfast.archive import Archive
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore
from tests.support.databases.roundtrips import schema_of
from tests.support.jobs.command import all_gone, finish, job_of, start, until
from tests.support.jobs.gate import GUARD, loading_held_up
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]

SHOP = (
    "do $$ begin create role teller; exception when duplicate_object then null; end $$",
    "create type state as enum ('open', 'paid')",
    "create function touch() returns trigger language plpgsql as $$ begin return new; end $$",
    "create table customers (id int primary key, name text)",
    "create table orders (id serial primary key, customer int references customers, state state default 'open')",
    "create index orders_by_customer on orders (customer)",
    "create index of_state on orders (state)",
    "create trigger touched before update on orders for each row execute function touch()",
    "create policy own on orders using (customer in (select c.id from customers c))",
    "comment on table orders is 'what was ordered'",
    "grant select on orders to teller",
    "create view open_orders as select * from orders where state = 'open'",
    "create table events (at int, what text, primary key (at)) partition by range (at)",
    "create table events_1 partition of events for values from (0) to (500)",
    "create table events_2 partition of events default",
    GUARD,
    "create table guarded (id int check (public.guard()))",
    "insert into guarded values (1), (2)",
    "create unlogged table scratch as select generate_series(1, 3) as id",
    "insert into customers select i, 'c' || i from generate_series(1, 100) i",
    "insert into orders (customer, state) select 1 + i % 100, 'paid' from generate_series(1, 1000) i",
    "insert into events select i, 'e' || i from generate_series(1, 1000) i",
)


@pytest.fixture(scope="module")
def shop(create_database: CreateDatabase) -> Address:
    return create_database(*SHOP)


def rows(address: Address, query: str) -> list[Any]:
    with connect(address) as session:
        return session.execute(query.encode()).fetchall()


def digest(address: Address, table: str) -> list[Any]:
    return rows(address, f"select count(*), sum(hashtextextended(t::text, 0)) from {table} t")


def done(ran: Any) -> dict[str, Any]:
    code, record = ran
    assert code == 0, record.error
    return dict(record.result)


def test_a_table_that_was_dropped_comes_back_beside_the_others(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    live = create_database(*SHOP, "insert into customers values (101, 'new')")
    before = schema_of(live)
    with connect(live) as session:
        session.execute("drop table public.orders cascade")
    with connect(live) as busy, busy.transaction():
        busy.execute("lock table public.events, public.guarded in access exclusive mode")
        result = done(run_restore(live, "--tables", "public.orders"))
    assert (result["tables"], result["rows"], result["equal"]) == (1, 1000, True)
    assert schema_of(live, "--table=public.orders") == schema_of(shop, "--table=public.orders")
    assert digest(live, "public.orders") == digest(shop, "public.orders")
    assert digest(live, "public.customers")[0][0] == 101
    assert rows(live, "select nextval('public.orders_id_seq')") == [(1001,)]
    assert rows(live, "select reltuples from pg_class where relname = 'orders'") == [(1000,)]
    assert result["skipped_existing"] == ["function public.touch()", "table public.customers", "type public.state"]
    assert [each["object"] for each in result["not_restored"]] == ["view public.open_orders"]
    with connect(live) as session:
        session.execute("create view public.open_orders as select * from public.orders where state = 'open'")
    assert schema_of(live) == before


def test_a_dry_run_tells_the_plan_and_changes_nothing(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    target = create_database("create table mine (id int)")
    before = schema_of(target)
    result = done(run_restore(target, "--tables", "public.orders", "--tables", "public.events_1", "--dry-run"))
    assert (result["dry_run"], result["tables"], result["rows"]) == (True, 2, 1499)
    assert [table["to"] for table in result["plan"]["tables"]] == ["public.events_1", "public.orders"]
    assert {each["object"]: each["reason"] for each in result["plan"]["not_restored"]} == {
        "attached partition public.events_1": "table public.events is not chosen: the partition becomes a table of "
        "its own",
        "foreign key public.orders orders_customer_fkey": "it needs table public.customers, which is neither chosen "
        "nor in the target",
        "policy public.orders own": "it needs table public.customers, which is neither chosen nor in the target",
        "view public.open_orders": "views do not come with chosen tables",
    }
    assert schema_of(target) == before
    assert done(run_restore(create_database(), "--dry-run"))["rows"] == 2105


def test_tables_come_under_other_names_beside_themselves(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    live = create_database(*SHOP)
    before = schema_of(live)
    maps = ["public.orders=public.order", "public.events=old.events", "public.events_1=old.events_1"]
    maps.append("public.events_2=old.Events 2")
    options = [part for each in maps for part in ("--map", each)]
    result = done(run_restore(live, "--tables", "public.orders", "--tables", "public.events", *options))
    assert (result["tables"], result["rows"], result["equal"]) == (3, 2000, True)
    truth = create_database(
        *SHOP,
        "create schema old",
        "drop view open_orders",
        'alter table orders rename to "order"',
        "alter sequence orders_id_seq rename to order_id_seq",
        "alter index orders_pkey rename to order_pkey",
        'alter table "order" rename constraint orders_id_not_null to order_id_not_null',
        "alter index orders_by_customer rename to order_by_customer",
        "alter index of_state rename to of_state1",
        "alter table events set schema old",
        "alter table events_1 set schema old",
        "alter table events_2 set schema old",
        'alter table old.events_2 rename to "Events 2"',
        'alter index old.events_2_pkey rename to "Events 2_pkey"',
    )
    for tables in ('--table=public."order"', "--table=old.*"):
        assert schema_of(live, tables) == schema_of(truth, tables)
    assert digest(live, 'public."order"') == digest(shop, "public.orders")
    assert digest(live, "old.events") == digest(shop, "public.events")
    with connect(live) as session:
        session.execute('drop table public."order"; drop schema old cascade')
    assert schema_of(live) == before


def test_everything_comes_under_another_schema(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    live = create_database("create table customers (mine int)")
    result = done(run_restore(live, "--map", "public=restored"))
    assert (result["rows"], result["not_restored"]) == (2105, [])
    truth = create_database(*SHOP, "alter schema public rename to restored", "alter schema restored owner to postgres")
    assert schema_of(live, "--table=restored.*") == schema_of(truth, "--table=restored.*")
    assert digest(live, "restored.orders") == digest(shop, "public.orders")
    assert rows(live, "select count(*) from public.customers") == [(0,)]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (
            ["--tables", "public.orders"],
            5,
            "has public.orders already: restore under another name (--map public.orders=",
        ),
        (["--tables", "nothing.*"], 2, "--tables nothing.* matches no table"),
        (["--tables", "public.orders", "--map", "public.orders"], 2, "say schema=schema"),
        (["--map", "nothing=other"], 2, "nothing that is restored is in a schema nothing"),
        (
            ["--tables", "public.*", "--map", "public=x", "--map", "public.orders=x.customers"],
            5,
            "public.customers and public.orders would both become x.customers",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, options: list[str], code: int, words: str
) -> None:
    live = create_database("create table orders (mine int)")
    before = schema_of(live)
    found, message = failed(run_restore(live, *options))
    assert (found, words in message) == (code, True), message
    assert schema_of(live) == before


def test_a_restore_that_fails_takes_back_what_it_created_and_nothing_else(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, store: ObjectStore
) -> None:
    (block,) = Archive.open(store).commit(1).add
    path = next(file.path for table in block.tables if table.name == "orders" for file in table.files)
    body = bytearray(store.get(path))
    body[len(body) // 2] ^= 1
    store.put(path, bytes(body))
    live = create_database("create table mine (id int)", "create type state as enum ('open', 'paid')")
    before = schema_of(live)
    code, message = failed(run_restore(live, "--tables", "public.orders", "--tables", "public.customers"))
    assert (code, path in message, "was dropped again" in message) == (4, True, True)
    assert schema_of(live) == before
    assert rows(live, "select to_regnamespace('holdfast_restore')") == [(None,)]


def kill(store: ObjectStore, live: Address, *options: str) -> None:
    """Restore, and kill the driver while it loads `guarded`."""
    with loading_held_up(live) as gate:
        killed = start("restore", store.url, "--to", live.url, *options, "--json", address=live)
        gate.wait_for_somebody()
        job = job_of(killed)
        job.driver.kill()
        assert finish(killed).code == 1
        until(lambda: all_gone(job.all), "the job to end")


@pytest.mark.exhaustive
def test_a_killed_restore_is_gone_on_with_as_it_was_planned(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, store: ObjectStore, shop: Address
) -> None:
    live = create_database(
        "create table mine (id int)", "create schema other", "create table other.orders_pkey (n int)"
    )
    options = ["--tables", "public.*", "--map", "public=other"]
    kill(store, live, *options)
    assert rows(live, "select to_regclass('other.orders') is not null") == [(True,)]
    code, planned = run_restore(live, *options, "--dry-run")
    assert (code, planned.said[0].startswith("would go on with run restore")) == (0, True)
    with connect(live) as session:
        session.execute("create table other.of_state (came text)")  # an index of this restore is called like that
        session.execute("drop table other.of_state")
    code, record = run_restore(live, *options)
    result = done((code, record))
    assert (result["equal"], result["tables"], result["rows"]) == (True, 6, 2105)
    assert result["resumed"]["run"] in record.said[0]
    assert digest(live, "other.orders") == digest(shop, "public.orders")
    assert rows(
        live,
        "select indexrelid::regclass::text from pg_index where indisprimary and indrelid = 'other.orders'::regclass",
    ) == [("other.orders_pkey1",)]
    assert rows(live, "select to_regnamespace('holdfast_restore')") == [(None,)]


@pytest.mark.exhaustive
def test_a_crash_of_the_server_that_emptied_an_unlogged_table_is_noticed(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = create_database()
    with monkeypatch.context() as patch:
        patch.setattr("sparkjobs.driver.building.object_creation.create_rest", lose)
        assert run_restore(live, "--tables", "public.scratch")[0] == 1
    with connect(live) as session:
        session.execute("truncate public.scratch, holdfast_restore.no_crash")  # both are unlogged
    code, record = run_restore(live, "--tables", "public.scratch")
    assert (
        "had left, since the server has crashed meanwhile, so that public.scratch may be empty again" in record.said[0]
    )
    result = done((code, record))
    assert (result["resumed"], result["rows"], result["equal"]) == (None, 3, True)


def lose(*_: object, **__: object) -> None:
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_a_key_that_the_targets_own_rows_do_not_satisfy_is_left_out_and_told(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    live = create_database("create table customers (id int primary key, name text)")
    result = done(run_restore(live, "--tables", "public.orders"))
    (key,) = [each for each in result["not_restored"] if each["object"].startswith("foreign key")]
    assert key["reason"].startswith("insert or update on table")
    assert "ADD CONSTRAINT orders_customer_fkey" in key["statement"]


def test_a_backup_of_other_tables_is_refused(
    store: ObjectStore, run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    assert run_backup(shop, "--tables", "public.customers")[0] == 0
    code, message = failed(run_restore(create_database(), "--tables", "public.*"))
    assert (
        code,
        "no rows of public.events_1, public.events_2, public.guarded, public.orders" in message,
    ) == (
        5,
        True,
    )


def test_a_partitioned_table_comes_beside_itself_by_one_map(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    live = create_database(*SHOP)
    result = done(run_restore(live, "--tables", "public.events", "--map", "public.events=public.events_old"))
    assert (result["rows"], result["equal"]) == (1000, True)
    with connect(live) as session:
        counts = "select count(*) from public.events_old_1 union all select count(*) from public.events_old_2"
        assert sorted(session.execute(counts).fetchall()) == [(499,), (501,)]
        assert session.execute("select count(*) from public.events_1").fetchone() == (499,)
