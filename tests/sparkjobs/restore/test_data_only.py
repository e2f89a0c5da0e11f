"""Restores of rows alone, into tables that the target has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from sparkjobs.driver import building
from tests.support.following.followed import open_followed
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

SCHEMA = (
    # The one that refers comes first, by name and by number.
    "create table a_orders (id serial primary key, customer int not null, at date, total numeric(9,2),"
    " gross numeric(9,2) generated always as (total * 1.2) stored)",
    "create table customers (id int generated always as identity primary key, boss int, name text unique)",
    "alter table customers add foreign key (boss) references customers",
    "alter table a_orders add foreign key (customer) references customers",
    "create table log (at int primary key, what text) partition by range (at)",
    "create table log_1 partition of log for values from (0) to (100)",
    "create table log_2 partition of log default",
    "create table audit (what text)",
    "create function note() returns trigger language plpgsql as "
    "$$ begin insert into public.audit values (tg_op); new.at = '2000-01-01'; return new; end $$",
    "create trigger audit before insert on a_orders for each row execute function note()",
    "create trigger always_audit before insert on a_orders for each row execute function note()",
    "alter table a_orders enable always trigger always_audit",
    "create trigger off_audit before insert on a_orders for each row execute function note()",
    "alter table a_orders disable trigger off_audit",
    "create rule refuse as on insert to audit do instead nothing",
    "create materialized view per_customer as select customer, count(*) as n from a_orders group by 1",
)
ROWS = (
    "insert into customers (boss, name) select nullif(i % 10, 0), 'c' || i from generate_series(1, 50) i",
    "insert into a_orders (customer, at, total) select 1 + i % 50, '2026-01-01', i from generate_series(1, 100) i",
    "update a_orders set at = '2026-01-01'",  # a trigger that fires once more would show
    "insert into log select i, 'what' from generate_series(1, 200) i",
    "alter table audit disable rule refuse",
    "insert into audit values ('kept')",
    "alter table audit enable rule refuse",
    "select lo_from_bytea(0, 'a picture')",
)
SHOWN = """
select (select count(*) from customers), (select count(*) from a_orders where at = '2026-01-01'),
  (select count(*) from log_2), (select count(*) from audit), (select sum(gross) from a_orders)::float8
"""
FILLED = (50, 100, 101, 1, 6060.0)
EMPTY = (0, 0, 0, 0, None)
DEFINITIONS = """
select conname::text, convalidated::text, conrelid::regclass::text from pg_constraint
  where connamespace = 'public'::regnamespace
union all select tgname::text, tgenabled::text, tgrelid::regclass::text from pg_trigger where not tgisinternal
union all select rulename::text, ev_enabled::text, ev_class::regclass::text from pg_rewrite where ev_class > 16384
union all select nspname::text, '', '' from pg_namespace where nspname ~ 'holdfast'
order by 1, 2, 3
"""


@pytest.fixture(scope="module")
def shop(create_database: Callable[..., Address]) -> Address:
    return create_database(*SCHEMA, *ROWS)


@pytest.fixture
def target(create_database: Callable[..., Address]) -> Address:
    """A database with the tables of the shop, and no rows."""
    return create_database(*SCHEMA)


def asked(address: Address, query: str) -> Any:
    with connect(address) as session:
        session.execute("set search_path = public")
        return session.execute(query.encode()).fetchall()


def done(ran: Any) -> dict[str, Any]:
    code, record = ran
    assert code == 0, record.error
    assert record.result is not None
    found: dict[str, Any] = record.result
    return found


def refused(target: Address, ran: Any) -> str:
    """Return the sentence of a restore that left the target as it was."""
    code, said = failed(ran)
    assert code == 5
    assert asked(target, "select to_regnamespace('holdfast_restore')::text") == [(None,)]
    return said


@pytest.fixture
def changed(target: Address) -> Callable[[str], None]:
    """Changes the target by statements."""

    def change(statements: str) -> None:
        with connect(target) as session:
            session.execute("set search_path = public")
            session.execute(statements.encode())

    return change


def test_rows_come_into_tables_that_are_there_and_all_else_stays(
    backed_up: None, target: Address, shop: Address, run_restore: RunJob
) -> None:
    before = asked(target, DEFINITIONS)
    result = done(run_restore(target, "--data-only"))
    assert (result["rows"], result["equal"], result["tables"]) == (351, True, 5)
    assert asked(target, SHOWN) == asked(shop, SHOWN) == [FILLED]
    assert asked(target, DEFINITIONS) == before
    assert {each["object"]: each["statement"] for each in result["not_restored"]} == {
        "1 large objects": "",
        "rows of materialized view public.per_customer": 'refresh materialized view "public"."per_customer";',
    }
    assert asked(target, "select nextval('a_orders_id_seq')") == [(101,)]
    assert asked(target, "insert into customers (name) values ('new') returning id") == [(51,)]


def test_a_table_comes_into_one_of_another_name(
    backed_up: None, target: Address, run_restore: RunJob, changed: Callable[[str], None]
) -> None:
    changed("create table before (like customers)")
    options = ("--data-only", "--tables", "public.customers", "--map", "public.customers=public.before")
    result = done(run_restore(target, *options))
    assert (result["rows"], result["not_restored"]) == (
        50,
        [
            {
                "object": "where sequence public.before_id_seq stood",
                "reason": "the target has no such sequence",
                "statement": "",
            }
        ],
    )
    assert asked(target, "select (select count(*) from before), (select count(*) from customers)") == [(50, 0)]


def test_a_dry_run_changes_nothing(backed_up: None, target: Address, run_restore: RunJob) -> None:
    plan = done(run_restore(target, "--data-only", "--exclude", "public.log", "--dry-run"))
    assert (plan["rows"], plan["tables"], plan["plan"]["objects"]) == (151, 3, [])
    assert asked(target, SHOWN) == [EMPTY]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("alter table audit disable rule refuse; insert into audit values ('x')",
         "public.audit has rows already, and --data-only fills empty tables: empty them (truncate)"),
        ("drop table audit", "there is no table public.audit"),
        ("alter table audit rename what to which", "public.audit has no column what"),
        ("alter table a_orders drop gross; alter table a_orders add gross numeric(9,2)",
         "public.a_orders has a column gross that is not generated"),
        ("alter table audit alter what type varchar(9)", "a column what of type character varying(9), which is text"),
        ("alter table customers add first_order int references a_orders",
         "foreign keys of public.a_orders, public.customers lead to each other"),
        ("create role clerk_of_rows; alter table audit owner to clerk_of_rows", "say --trust-source"),
    ],
)  # fmt: skip
def test_tables_that_cannot_take_the_rows_are_named(
    backed_up: None, target: Address, run_restore: RunJob, changed: Callable[[str], None], change: str, said: str
) -> None:
    changed(change)
    assert said in refused(target, run_restore(target, "--data-only"))
    assert asked(target, "select count(*) from customers") == [(0,)]
    changed("drop owned by clerk_of_rows; drop role clerk_of_rows" if "clerk" in change else "")


def test_a_circle_of_keys_of_which_one_is_deferrable_is_filled(
    backed_up: None, target: Address, run_restore: RunJob, changed: Callable[[str], None]
) -> None:
    changed("alter table a_orders alter constraint a_orders_customer_fkey deferrable")
    changed("alter table customers add first_order int references a_orders")
    assert done(run_restore(target, "--data-only"))["equal"]
    assert asked(target, SHOWN) == [FILLED]


@pytest.mark.parametrize(
    "change",
    [
        "alter table customers add constraint later check (id < 40)",
        "create table other (id int primary key); alter table audit add foreign key (what) references customers (name)",
        "alter table a_orders alter constraint a_orders_customer_fkey deferrable",
    ],
)
def test_rows_that_the_target_refuses_leave_its_tables_empty(
    backed_up: None, target: Address, run_restore: RunJob, changed: Callable[[str], None], change: str
) -> None:
    changed(change)
    chosen = ("--exclude", "public.customers") if "deferrable" in change else ()
    said = refused(target, run_restore(target, "--data-only", *chosen))
    assert "violates" in said
    assert said.endswith("the tables of the target are as empty as they were")
    assert asked(target, SHOWN) == [EMPTY]
    assert asked(target, "select nextval('a_orders_id_seq')") == [(1,)]


def test_a_strict_one_leaves_tables_empty_where_a_sequence_is_not_as_it_stood(
    backed_up: None, target: Address, run_restore: RunJob, changed: Callable[[str], None]
) -> None:
    changed("alter sequence a_orders_id_seq maxvalue 50")
    said = refused(target, run_restore(target, "--data-only", "--strict"))
    assert "outside of its bounds" in said
    assert said.endswith("the tables of the target are as empty as they were")
    assert asked(target, SHOWN) == [EMPTY]
    assert asked(target, "select nextval('a_orders_id_seq')") == [(1,)]
    result = done(run_restore(target, "--data-only"))
    assert [each["reason"] for each in result["not_restored"] if "a_orders_id_seq" in each["object"]]


def test_one_that_fails_for_good_behind_its_filling_says_that_the_rows_are_there(
    backed_up: None, target: Address, run_restore: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> None:
        raise RefusedError("no")

    monkeypatch.setattr("sparkjobs.driver.restoring.object_creation.finish", refuse)
    said = refused(target, run_restore(target, "--data-only"))
    assert said.endswith("all rows are in the tables of the target")
    assert asked(target, SHOWN) == [FILLED]


def test_one_that_was_interrupted_goes_on(
    backed_up: None, target: Address, run_restore: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(building, "set_sequences", lambda *given: 1 / 0)
        code, said = failed(run_restore(target, "--data-only"))
    assert (code, "run it again: it goes on from 5 of 5 files" in said) == (1, True)
    assert asked(target, SHOWN) == [EMPTY]
    result = done(run_restore(target, "--data-only"))
    assert (result["resumed"]["files"], result["equal"]) == (5, True)
    assert asked(target, SHOWN) == [FILLED]


def test_a_role_that_is_no_superuser_fills_its_own_tables(
    backed_up: None, create_database: Callable[..., Address], run_restore: RunJob, shop: Address
) -> None:
    target = create_database("create role filler login password 'x'", "grant create on schema public to filler")
    own = Address(target.url.replace("postgres@", "filler@"), "x")
    with connect(target) as session:
        session.execute(f"grant create on database {target.database} to filler".encode())
    with connect(own) as session:
        for statement in ("set search_path = public", *SCHEMA):
            session.execute(statement.encode())
    assert done(run_restore(own, "--data-only"))["equal"]
    assert asked(target, SHOWN) == [FILLED]


def test_changes_since_the_snapshot_come_too(
    address: Address, new_database: Callable[..., Address], tmp_path: Path
) -> None:
    table = "create table public.t (id int primary key, n int, twice int generated always as (n * 2) stored)"
    target = new_database()
    with connect(target) as session:
        session.execute(table.encode())
    with open_followed(address, tmp_path / "archive") as followed:
        followed.run(table, "insert into public.t select i, i from generate_series(1, 50) i")
        followed.back_up("changes")
        followed.run("update public.t set n = n + 1 where id < 20", "delete from public.t where id > 40")
        followed.back_up()
        assert followed.restore("latest", target, data_only=True)["equal"]
    assert asked(target, "select count(*), sum(n), sum(twice) from t") == [(40, 839, 1678)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("major", [14, 16])
def test_on_older_servers_no_trigger_fires_and_keys_are_checked(
    run_backup: RunJob, run_restore: RunJob, create_on: Callable[..., Address], major: int
) -> None:
    """There, a session that fires no event triggers checks no keys either."""
    assert run_backup(create_on(major, *SCHEMA, *ROWS))[0] == 0
    target = create_on(major, *SCHEMA)
    assert "violates foreign key" in refused(
        target, run_restore(target, "--data-only", "--exclude", "public.customers")
    )
    before = asked(target, DEFINITIONS)
    assert done(run_restore(target, "--data-only"))["equal"]
    assert (asked(target, SHOWN), asked(target, DEFINITIONS)) == ([FILLED], before)
