"""Marks just before and just after a migration: everything is there as it was, whatever the migration did next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.operations import marks
from holdfast.operations.marks import SetMark, set_mark
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.logical.flush_position import emit
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.following.followed import Followed, open_followed
from tests.support.servers.postgres import create_database

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]
Connection = psycopg.Connection[Any]

TABLES = (
    "create type mood as enum ('sad', 'glad')",
    "create table customers (id int primary key, name text, n int, m mood)",
    "create table orders (id int primary key, customer int references customers, amount int not null, word text)",
    "create table notes (id int primary key, t text)",
    "create view sums as select customer, sum(amount) as total from orders group by 1",
    "create function twice(n int) returns int language sql immutable as 'select 2 * n'",
    "create table counted (id int generated always as identity primary key, n int)",
    "insert into customers select i, 'c' || i, i, 'glad' from generate_series(1, 20) i",
    "insert into orders select i, 1 + i % 20, i, 'w' || i from generate_series(1, 40) i",
    "insert into notes select i, 'n' || i from generate_series(1, 10) i",
    "insert into counted (n) select i from generate_series(1, 10) i",
)

WORK = (
    "update orders set amount = amount + 1 where id <= 10",
    "delete from orders where id = 40",
    "insert into customers values (21, 'new', 21, 'sad')",
    "update notes set t = 'changed' where id = 3",
    "insert into counted (n) values (11), (12)",
)

MIGRATIONS = {
    "a rewrite that leaves the form": ("drop view sums", "alter table orders alter amount type int using amount * 100"),
    "there and back": (
        "drop view sums",
        "alter table orders alter amount type bigint",
        "alter table orders alter amount type int",
    ),
    "another type": ("drop view sums", "alter table customers alter column n type text using n::text"),
    "a table that goes": ("drop view sums", "drop table orders"),
    "tables that change places": (
        "alter table notes rename to notes_old",
        "create table notes (id int primary key, t text)",
        "insert into notes select id, upper(t) from notes_old",
        "drop table notes_old",
    ),
    "another key": ("alter table notes drop constraint notes_pkey, add primary key (t)",),
    "a column that goes and comes": ("alter table notes drop column t", "alter table notes add column t text"),
    "data that is moved": (
        "alter table customers add column first text",
        "update customers set first = name",
        "alter table customers alter first set not null, drop column name",
    ),
    "a label": ("alter type mood add value 'so-so'", "alter table customers add column other mood default 'glad'"),
    "what the log tells nothing of": (
        "create or replace function twice(n int) returns int language sql immutable as 'select 3 * n'",
        "create index on orders (word)",
        "alter table orders add check (amount < 1000000)",
        "create or replace view sums as select customer, sum(amount) + 1 as total from orders group by 1",
        "truncate notes",
    ),
}


ALONE = ("--no-publications", "--exclude-schema=holdfast_log")
"""Without what is ours."""


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database that an application works with, and an archive that follows it."""
    with open_followed(address, tmp_path / "archive") as made:
        made.make(TABLES)
        made.back_up()
        yield made


def told(address: Address) -> list[str]:
    """Return the definitions without the event triggers that tell of them."""
    return [line for line in schema_of(address, *ALONE) if line.strip("-") and "holdfast" not in line]


def mark(followed: Followed, name: str) -> SetMark:
    return set_mark(followed.archive(), [followed.store], followed.address, "shop", name)


@pytest.mark.representatives("data that is moved")
@pytest.mark.parametrize("migration", MIGRATIONS)
def test_a_mark_before_a_migration_brings_back_all_that_was_there(
    followed: Followed, new_database: NewDatabase, migration: str
) -> None:
    followed.make(WORK)
    assert mark(followed, "before").why_unknown == ""
    schema, found = schema_of(followed.address, *ALONE), hashes(followed.address)
    # Alone and together, with what an application writes meanwhile.
    followed.make(MIGRATIONS[migration])
    followed.make(("insert into counted (n) values (77)",))
    followed.back_up()

    target = new_database()
    said = followed.restore("before", target)

    assert said["stale"] == []
    assert said["not_restored"] == []
    assert said["schema_note"] == ""
    assert schema_of(target, *ALONE) == schema
    assert hashes(target) == found
    assert followed.store.list("marks/").objects == ()


@pytest.mark.exhaustive
def test_each_release_has_marks_that_know_the_schema(older: PostgresServer, tmp_path: Path) -> None:
    """Migrations one behind the other, with nothing but a mark before each."""
    with open_followed(create_database(older), tmp_path / "archive") as followed:
        followed.make(TABLES)
        followed.back_up()
        known: dict[str, tuple[list[str], dict[str, str]]] = {}
        for name in ("a label", "what the log tells nothing of", "another type"):
            followed.make((f"insert into counted (n) values ({len(known)})",))
            assert mark(followed, name).why_unknown == ""
            known[name] = schema_of(followed.address, *ALONE), hashes(followed.address)
            followed.make(MIGRATIONS[name])
            if name == "a label":  # tables with the type start over, and are whole from here on
                followed.back_up()
        followed.back_up()
        for name, (schema, found) in known.items():
            target = create_database(older)
            said = followed.restore(name, target)
            assert (said["stale"], said["not_restored"], said["schema_note"]) == ([], [], ""), name
            assert schema_of(target, *ALONE) == schema
            assert hashes(target) == found


@pytest.mark.exhaustive
def test_a_mark_behind_what_made_rows_unfit_has_these_rows_as_they_were(
    followed: Followed, new_database: NewDatabase
) -> None:
    """VACUUM FULL has put the new column's default into the rows: nobody knows which it was."""
    followed.session.execute("alter table orders add late int default 0")
    followed.session.execute("vacuum full orders")
    followed.make(
        (
            "create index orders_late on orders (late)",
            "create table fresh (id int primary key)",
            "alter table notes add column later text",
            "create function thrice(n int) returns int language sql immutable as 'select 3 * n'",
            *WORK[:2],
        )
    )
    assert mark(followed, "behind").why_unknown == ""
    followed.back_up()

    target = new_database()
    said = followed.restore("behind", target)

    assert rows(target, "select count(*) from public.orders") == [(40,)]
    assert rows(target, "select public.thrice(2), count(later) from public.notes") == [(6, 0)]
    assert rows(target, "select total from public.sums where customer = 2") == [(22,)]
    assert [each["table"] for each in said["stale"]] == ["public.orders", "public.fresh"]
    assert "public.orders" in said["schema_note"]
    assert "orders_late" in said["schema_note"]
    assert said["equal"] is False
    assert followed.restore("behind", new_database(), schema="later")["stale"][0]["as_of"] is None


@pytest.mark.exhaustive
def test_a_mark_behind_a_label_that_was_added_and_renamed_can_be_restored(
    followed: Followed, new_database: NewDatabase
) -> None:
    """The label is in changes, and neither in the snapshot nor in the mark."""
    followed.make(("alter type mood add value 'so-so'",))
    followed.make(("insert into customers values (21, 'new', 21, 'so-so')",))
    followed.back_up()
    followed.make(("alter type mood rename value 'so-so' to 'well'", "insert into notes values (11, 'n11')"))
    assert mark(followed, "renamed").why_unknown == ""
    followed.back_up()

    target = new_database()
    said = followed.restore("renamed", target)

    assert rows(target, "select m::text from public.customers where id = 21") == [("so-so",)]
    assert rows(target, "select t from public.notes where id = 11") == [("n11",)]
    assert [(each["table"], bool(each["as_of"])) for each in said["stale"]] == [("public.customers", True)]
    target = new_database()
    said = followed.restore("renamed", target, schema="later")
    assert rows(target, "select count(*) from public.customers") == [(0,)]
    assert [(each["table"], each["as_of"]) for each in said["stale"]] == [("public.customers", None)]
    assert said["equal"] is False


def test_a_mark_is_exact_though_others_commit_while_it_is_set(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = emit

    def among_others(session: Connection, prefix: str, content: str) -> tuple[str, datetime]:
        followed.make(("insert into notes values (98, 'before it')",))
        original(session, prefix, content)
        followed.make(("insert into notes values (99, 'behind it')",))
        return original(session, "holdfast_nothing", "")

    followed.make(("alter table customers add column early int",))
    schema = schema_of(followed.address, *ALONE)
    monkeypatch.setattr(marks, "emit", among_others)
    assert mark(followed, "before").why_unknown == ""
    followed.make(MIGRATIONS["another key"])
    followed.back_up()

    target = new_database()
    said = followed.restore("before", target)

    assert (said["stale"], said["not_restored"], said["schema_note"]) == ([], [], "")
    assert schema_of(target, *ALONE) == schema
    assert rows(target, "select id from public.notes where id > 90") == [(98,)]


@pytest.mark.exhaustive
def test_a_mark_that_definitions_change_beside_is_set_again(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, times = emit, list[str]()

    def beside(session: Connection, prefix: str, content: str) -> tuple[str, datetime]:
        times.append(content)
        if len(times) < 3:
            followed.make((f"create table {json.loads(content)['mark']}_{len(times)} (id int)",))
        return original(session, prefix, content)

    monkeypatch.setattr(marks, "emit", beside)
    assert mark(followed, "m").why_unknown == ""
    assert len(times) == 3
    times[:] = []
    monkeypatch.setattr(marks, "TRIES", 2)
    assert "were changed just then" in mark(followed, "n").why_unknown
    followed.make(("create table later (id int)",))
    followed.back_up()
    moment = followed.moment("m")
    assert (moment.approximate, moment.schema.head.marks[-1].name) == ("", "m")
    assert followed.moment("n").approximate != ""
    assert followed.store.list("marks/").objects == ()


def test_a_mark_of_who_may_not_read_the_catalog_is_a_mark_all_the_same(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise psycopg.errors.InsufficientPrivilege("permission denied for table pg_class")

    for step in ("schema_fingerprint", "read_objects"):
        with monkeypatch.context() as patch:
            patch.setattr(marks, step, refused)
            assert "permission denied" in mark(followed, step).why_unknown
        followed.make(("insert into counted (n) values (5)",))
    followed.back_up()
    assert followed.moment("read_objects").approximate == ""


@pytest.mark.representatives("there and back")
@pytest.mark.parametrize("migration", MIGRATIONS)
def test_where_the_log_tells_of_definitions_all_is_there_up_to_the_first_change(
    followed: Followed,
    new_database: NewDatabase,
    migration: str,
) -> None:
    """Nobody sets a mark."""
    followed.make(ddl_triggers.CREATED)
    followed.back_up()
    followed.make(WORK)
    at = followed.note()
    schema, found = told(followed.address), hashes(followed.address)
    followed.make(MIGRATIONS[migration])
    followed.make(("insert into counted (n) values (77)",))
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    assert (said["stale"], said["not_restored"], said["schema_note"]) == ([], [], "")
    assert told(target) == schema
    assert hashes(target) == found
