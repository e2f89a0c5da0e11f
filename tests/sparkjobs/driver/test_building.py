"""What the login of a restore builds for others: views that policies hide rows from, extensions, foreign keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.archive.format import runs
from holdfast.archive.format.runs import RunRecord
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore
from tests.support.databases.owners import loaders, passing_roles
from tests.support.databases.roundtrips import schema_of
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

SOURCE = """
create schema s;
grant usage, create on schema s to building_one, building_two, building_maker;
set role building_one;
create table s.t (id int primary key, who text);
insert into s.t values (1, 'building_one'), (2, 'building_two'), (3, 'building_maker');
alter table s.t enable row level security;
create policy own on s.t using (who = current_user);
grant select, references on s.t to building_two, building_maker;
set role building_two;
set row_security = on;
create function s.ids() returns setof int language plpgsql as $$ begin return query select id from s.t; end $$;
create materialized view s.direct as select id from s.t;
create materialized view s.indirect as select * from s.ids() id;
create table s.refers (id int references s.t);
insert into s.refers values (2);
set role building_maker;
create materialized view s.makers as select id from s.t;
reset role;
create materialized view s.everything as select id from s.t;
"""
LEFT = """
select rolname from pg_roles, pg_database
where datname = current_database() and rolname ~ ('^holdfast_loader_' || pg_database.oid)
"""
VIEWS = "select array(select id from s.{} order by 1)"


@pytest.fixture
def server(create_database: Callable[..., Address]) -> Iterator[Address]:
    address = create_database()
    with passing_roles(address, {"building_one": "", "building_two": "", "building_maker": "createrole"}):
        yield address


def test_objects_are_counted_as_they_are_made(
    create_database: Callable[..., Address],
    run_backup: RunJob,
    run_restore: RunJob,
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "INTERVAL_S", -1.0)  # each count is recorded
    tables = [f"create table t_{number} (id int primary key)" for number in range(20)]
    assert run_backup(create_database(*tables))[0] == 0
    code, last = run_restore(create_database())
    assert code == 0, last.error
    keys = [runs.record_key(last.run, number) for number in range(last.number)]
    records = [RunRecord.from_bytes(store.get(key), key) for key in keys]
    for step, least in (("creating tables", 20), ("building indexes and constraints", 20)):
        counts = [(each.objects, each.of_objects) for each in records if each.step == step]
        whole = counts[0][1]
        assert whole >= least
        assert counts == [(number, whole) for number in range(whole + 1)]


@pytest.mark.usefixtures("server")
def test_views_hold_what_their_owners_may_see(
    create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    source, target = create_database(), create_database()
    with connect(source) as session:
        session.execute(SOURCE.encode())
    assert run_backup(source)[0] == 0

    code, record = run_restore(target)

    assert code == 0, record.error
    assert record.result is not None
    assert [each["object"] for each in record.result["not_restored"]] == ["rows of materialized view s.makers"]
    assert "let that one fill it" in record.result["not_restored"][0]["reason"]
    with connect(target) as session:
        shown = {name: session.execute(VIEWS.format(name).encode()).fetchone() for name in ("direct", "indirect")}
        assert shown == {"direct": ([2],), "indirect": ([2],)}
        assert session.execute(VIEWS.format("everything").encode()).fetchone() == ([1, 2, 3],)
    assert schema_of(target) == schema_of(source)
    assert loaders(target) == {}
    with connect(target) as session:
        assert session.execute(LEFT).fetchall() == []
        assert session.execute("select evtname from pg_event_trigger").fetchall() == []


def test_a_child_of_a_table_that_is_there_is_for_the_owner_of_that(
    create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    made = ("create table parent (id int)", "create table child (n int) inherits (parent)")
    source, target = create_database(*made), create_database(made[0])
    assert run_backup(source)[0] == 0
    before = schema_of(target)

    code, message = failed(run_restore(target, "--tables", "public.child"))

    assert code == 5
    assert "must be owner of table parent (SQLSTATE 42501): restore as the owner of what" in message
    assert schema_of(target) == before
    assert run_restore(target, "--tables", "public.child", "--trust-source")[0] == 0


def test_a_key_leads_only_to_what_its_owner_may_refer_to(
    server: Address, create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    made = ("create table customers (id int primary key)", "insert into customers values (1)")
    key = "create table orders (id int primary key, customer int references customers)"
    source = create_database(
        *made, "grant references on customers to building_two", key, "insert into orders values (1, 1)"
    )
    with connect(source) as session:
        session.execute("alter table public.orders owner to building_two")
    assert run_backup(source)[0] == 0
    for granted, left in ((True, []), (False, ["foreign key public.orders orders_customer_fkey"])):
        target = create_database(*made)
        with connect(target) as session:
            if granted:
                session.execute("grant references on public.customers to building_two")
        code, record = run_restore(target, "--tables", "public.orders")
        assert code == 0, record.error
        assert record.result is not None
        assert [each["object"] for each in record.result["not_restored"]] == left
        assert loaders(target) == {}
