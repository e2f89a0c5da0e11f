"""Moments between changes of definitions, where the log tells which objects each of them touched."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.point_in_time.composed_target import ComposedTarget
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.logical import ddl_triggers
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.following.followed import Followed, doubtful_tables, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TABLES = (
    "create type mood as enum ('sad', 'glad')",
    "create table customers (id int primary key, name text, n int)",
    "create table orders (id serial primary key, customer int references customers, amount int not null default 1)",
    "create table worked (n int generated always as identity primary key)",
    "create table notes (id int primary key, t text)",
    "create table moods (id int primary key, m mood)",
    "create table days (day date, n int, primary key (day)) partition by range (day)",
    "create table days_1 partition of days for values from ('2026-01-01') to ('2026-02-01')",
    "create view sums as select customer, sum(amount) as total from orders group by 1",
    "create function twice(n int) returns int language sql immutable as 'select 2 * n'",
    "create index on orders (customer)",
    "insert into customers select i, 'c' || i, i from generate_series(1, 20) i",
    "insert into orders (customer, amount) select 1 + i % 20, i from generate_series(1, 40) i",
    "insert into notes select i, 'n' || i from generate_series(1, 10) i",
    "insert into moods values (1, 'sad')",
    "insert into days values ('2026-01-05', 1)",
)

WORK = "insert into worked values (default)"

STEPS: dict[str, tuple[str, ...]] = {
    "a renamed table": ("alter table notes rename to remarks",),
    "a column": ("alter table orders add column word text default 'w'", "update orders set word = 'x' where id = 1"),
    "an index of another table": ("create index on remarks (t)", "insert into remarks values (11, 'n11')"),
    "another type": ("alter table customers alter n type text using n::text", "update customers set n = 'y'"),
    "a function": ("create or replace function twice(n int) returns int language sql immutable as 'select n + n'",),
    "a new table": ("create table late (id int primary key)", "insert into late values (1)"),
    "a table that goes": ("drop table moods",),
    "a partition": (
        "create table days_2 partition of days for values from ('2026-02-01') to ('2026-03-01')",
        "insert into days values ('2026-02-05', 2)",
    ),
    "privileges": ("grant select on remarks to public",),
    "a comment": ("comment on table customers is 'people'",),
}
"""Migrations, one behind the other."""

HERE = ("--no-publications", "--exclude-schema=holdfast_log", "--no-comments")


@pytest.fixture
def telling(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database that an archive follows, whose log tells of definitions."""
    with open_followed(address, tmp_path / "archive") as made:
        for statement in ddl_triggers.CREATED:
            made.session.execute(statement.encode())
        made.make(TABLES)
        made.back_up()
        yield made


def definitions(address: Address) -> set[str]:
    """Return what pg_dump says of a database, without the triggers that tell of its definitions."""
    lines = schema_of(address, "--no-publications", "--exclude-schema=holdfast_log")
    return {line.strip(",") for line in lines if "holdfast" not in line and not line.startswith("--")}


@dataclass
class Instant:
    """A moment of a source, and what it held.

    :param name: of the migration before it.
    """

    name: str
    position: str
    definitions: set[str]
    rows: dict[str, str]

    @classmethod
    def now(cls, followed: Followed, name: str) -> Instant:
        return cls(name, followed.run(WORK), definitions(followed.address), hashes(followed.address))


@dataclass
class Restored:
    """What a restore to an instant gives.

    :param lines: definitions that only one of both has.
    :param rows: tables whose rows are others.
    """

    instant: Instant
    said: dict[str, Any]
    lines: set[str]
    rows: set[str]

    @classmethod
    def of(cls, followed: Followed, instant: Instant, target: Address) -> Restored:
        said = followed.restore(f"lsn:{instant.position}", target)
        found = hashes(target)
        rows = {table for table in found.keys() | instant.rows.keys() if found.get(table) != instant.rows.get(table)}
        return cls(instant, said, definitions(target) ^ instant.definitions, rows)

    @property
    def stale(self) -> set[str]:
        return {each["table"] for each in self.said["stale"]}


def test_each_moment_between_migrations_has_its_own_schema_and_rows(
    telling: Followed, new_database: NewDatabase
) -> None:
    instants = []
    for name, statements in STEPS.items():
        telling.run(*statements)
        instants.append(Instant.now(telling, name))
    telling.back_up()

    found = [Restored.of(telling, instant, new_database()) for instant in instants]

    assert all(isinstance(telling.moment(f"lsn:{each.position}"), ComposedTarget) for each in instants[:-1])
    until = list(STEPS).index("another type")
    assert "public.customers are of" in found[-1].said["schema_note"]  # else it would come without its rows
    assert {line.strip() for line in found[-1].lines if "fkey" not in line} == {"n text"}
    for each in found[:-1]:
        name = each.instant.name
        assert each.said["schema_note"] == "", name
        assert each.rows == each.stale, name
        # Without the rows that it leads to, a foreign key is left out; all else is there.
        assert all("orders_customer_fkey" in line for line in each.lines), (name, each.lines)
    assert not any(each.stale or each.lines for each in found[:until])
    (stale,) = found[until].said["stale"]
    assert (stale["table"], stale["whole_at"]) == ("public.customers", "commit:4")
    assert [each.stale for each in found[until:]] == [
        *[{"public.customers"}] * 2,
        *[{"public.customers", "public.late"}] * (len(found) - until - 2),
    ]


@pytest.mark.exhaustive
def test_what_is_altered_twice_is_named_or_taken_from_one_backup(telling: Followed, new_database: NewDatabase) -> None:
    telling.run("create or replace function twice(n int) returns int language sql immutable as 'select n + n'")
    first = Instant.now(telling, "a function, once")
    telling.run("create or replace function twice(n int) returns int language sql immutable as 'select n * 2'")
    telling.run("alter table notes add column a int")
    second = Instant.now(telling, "a column, once")
    telling.run("alter table notes add column b int")
    telling.back_up()
    between = telling.moment(f"lsn:{first.position}")
    assert "function public.twice(integer)" in between.approximate
    assert isinstance(between, ComposedTarget)
    there = telling.moment(f"lsn:{second.position}")
    assert isinstance(there, ComposedTarget)
    assert there.composed.unsure == ("table public.notes",)
    assert Restored.of(telling, first, new_database()).rows == set()


def test_a_message_that_anybody_writes_makes_nothing_wrong_look_known(telling: Followed) -> None:
    """Whoever may connect may write one: it can add to what was touched, and take nothing away."""
    oid = telling.session.execute("select 'notes'::regclass::oid::int8").fetchone()
    assert oid is not None
    before = Instant.now(telling, "nothing")
    forged = f'{{"tag": "ALTER TABLE", "objects": [[1259, {oid[0]}], [1249, {oid[0]}]]}}'
    telling.run(f"select pg_logical_emit_message(true, '{ddl_triggers.PREFIX}', '{forged}')")
    between = Instant.now(telling, "a forged message")
    telling.run("alter table notes add column a int")
    telling.run("create index on orders (amount)")
    telling.back_up()
    assert telling.moment(f"lsn:{before.position}").approximate == ""
    assert "table public.notes" in telling.moment(f"lsn:{between.position}").approximate


def test_a_message_without_objects_leaves_them_unknown(telling: Followed) -> None:
    telling.run(f"select pg_logical_emit_message(true, '{ddl_triggers.PREFIX}', '[]')")
    between = Instant.now(telling, "")
    telling.run("alter table notes add column a int")
    telling.back_up()
    assert "it is not known when" in telling.moment(f"lsn:{between.position}").approximate


KINDS = (
    "alter table {table} add column {new} int default {n}",
    "alter table {table} add column {new} text",
    "alter table {table} add column {new} timestamptz default clock_timestamp()",
    "create index on {table} (id)",
    "alter table {table} add constraint {new} check (id < {n}000000)",
    "alter table {table} alter id set default {n}",
    "create or replace function f_{k}(n int) returns int language sql as 'select {n}'",
    "create or replace view v_{k} as select id from {table}",
    "create table {new} (id int primary key)",
    "create table {new} as select id from {table}",
    "comment on table {table} is '{n}'",
    "grant select on {table} to public",
    "revoke select on {table} from public",
    "alter table {table} rename to {new}",
    "alter table {table} rename column id to id_{n}; alter table {table} rename column id_{n} to id",
    "drop table if exists v_none; drop view if exists v_{k}",
    "drop function if exists f_{k}(int)",
    "create schema s_{n}; alter table {table} set schema s_{n}; alter table s_{n}.{bare} set schema public",
    "create sequence {new}; alter table {table} alter id set default nextval('{new}')",
    "alter table {table} alter id type bigint; alter table {table} alter id type int",
    "create trigger {new} before insert on {table} for each row execute function suppress_redundant_updates_trigger()",
    "alter table {table} enable row level security",
    "create policy {new} on {table} using (id > {n})",
    "create type {new} as enum ('a', 'b')",
    "create domain {new} as int check (value < {n}000)",
    "create extension if not exists citext",
    "alter table {table} add column {new} citext",
    "create table {new} () inherits ({table})",
    "alter table {table} add constraint {new} foreign key (id) references worked (n) not valid",
    "create rule {new} as on delete to {table} do nothing",
    "alter table {table} add column {new} int generated always as (id * 2) stored",
    "comment on column {table}.id is '{n}'",
    "alter default privileges grant select on tables to public",
    "alter table {table} set (fillfactor = 7{k})",
    "alter table {table} replica identity full",
    "alter index if exists {table}_pkey rename to {new}_pkey",
    "alter table {table} alter id set statistics {n}",
    "alter table {table} drop column if exists x_{k}",
    "truncate {table}",
    "alter table {table} disable trigger user",
    "alter table {table} disable trigger all; alter table {table} enable trigger all",
    "alter table {table} cluster on {table}_pkey; alter table {table} set without cluster",
    "alter type mood add value 'm{n}'",
    "create table {new}_p (id int primary key) partition by range (id); "
    "create table {new}_1 partition of {new}_p for values from (0) to (1000)",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 40))
def test_what_is_called_known_is_what_was_there(telling: Followed, new_database: NewDatabase, seed: int) -> None:
    """Any statements, several between two backups: a schema without a note is the moment's, and so are all rows."""
    draw = random.Random(seed)
    instants = []
    for n in range(1, 13):
        tables = [
            row[0]
            for row in telling.session.execute(
                "select c.relname from pg_class c where relnamespace = 'public'::regnamespace and relkind = 'r' "
                "and not relispartition "
                "and exists (select from pg_attribute where attrelid = c.oid and attname = 'id') "
                "order by 1"
            )
        ]
        table = draw.choice(tables)
        words = {"table": table, "bare": table, "new": f"x_{n}", "n": n, "k": draw.randint(1, 3)}
        text = draw.choice(KINDS).format(**words)
        try:
            telling.run(*text.split("; "))
        except Exception:  # noqa: BLE001 - such as a view that is in the way: the next one may be made
            telling.session.execute("rollback")
            continue
        instants.append(Instant.now(telling, text))
    telling.back_up()
    for instant in instants:
        restored = Restored.of(telling, instant, new_database())
        moment = telling.moment(f"lsn:{instant.position}")
        if isinstance(moment, ComposedTarget) or not moment.approximate:
            doubtful = doubtful_tables(telling, moment, instant.rows)
            assert restored.rows <= restored.stale | doubtful, (instant.name, restored.rows, doubtful)
        if not restored.said["schema_note"] and not restored.said["not_restored"]:
            assert restored.lines == set(), (instant.name, restored.lines)
