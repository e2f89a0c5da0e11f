"""Tables that are made between two backups, where the source publishes them at once: each moment has their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.server import PostgresServer
from holdfast.sources.postgresql.logical import ddl_triggers, new_tables
from tests.support.archives.compacting import compact
from tests.support.following.followed import Followed, agree, comes_back, open_followed
from tests.support.servers.postgres import create_database

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TABLES = ("create table customers (id int primary key, name text)", "insert into customers values (1, 'Ada')")


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """An archive that follows a database which publishes new tables."""
    with open_followed(address, tmp_path / "archive") as made:
        begin(made)
        yield made


def begin(followed: Followed) -> None:
    followed.make((*TABLES, *new_tables.CREATED))
    followed.back_up()
    followed.note()


def oids(followed: Followed, *names: str) -> set[int]:
    found = set()
    for name in names:
        row = followed.session.execute("select %s::regclass::oid::int8", (name,)).fetchone()
        assert row is not None
        found.add(int(row[0]))
    return found


def migrate(followed: Followed) -> set[int]:
    """Make tables in the ways that have rows at once, among other work; returns their oids."""
    followed.run(
        "create table orders (id int primary key, word text)",
        "insert into orders values (1, 'in the transaction that made it')",
    )
    followed.run("insert into orders values (2, 'later')")
    followed.run("create table lines (id int not null, n int)", "alter table lines add primary key (id)")
    followed.run("insert into lines values (1, 10), (2, 20)", "update customers set name = 'Eve'")
    followed.run(
        "savepoint s", "create table notes (t text primary key)", "release s", "insert into notes values ('x')"
    )
    followed.run("update orders set word = upper(word)", "delete from lines where id = 1")
    followed.run(
        "create table parts (id int primary key, n int) partition by range (id)",
        "create table few partition of parts for values from (0) to (10)",
        "insert into parts values (1, 1)",
    )
    followed.run("alter table orders add column more int default 7", "insert into orders values (3, 'more', 8)")
    return oids(followed, "orders", "lines", "notes", "few")


@pytest.mark.parametrize(
    "window_bytes",
    [pytest.param(1 << 10, id="many windows", marks=pytest.mark.exhaustive), pytest.param(1 << 28, id="one window")],
)
def test_new_tables_have_their_rows_from_the_first_on(
    followed: Followed, new_database: NewDatabase, window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkjobs.driver.log_windows.WINDOW_BYTES", window_bytes)
    made = migrate(followed)
    assert followed.back_up().get("begun", []) == []
    made_later = followed.run("create table later (id int primary key)", "insert into later values (1)")
    followed.run("update lines set n = n + 1", "insert into later values (2)")
    followed.back_up()
    exactly = made | oids(followed, "later")
    moments = followed.moments
    # A table cannot be missing from a moment of before it was.
    for number, (_, truth) in enumerate(moments):
        agree(followed, number, exactly & truth.keys(), every=len(moments), schemas=("auto", "later"))
    assert comes_back(followed, f"lsn:{made_later}", new_database())["stale"] == []
    compact(followed.store)
    agree(followed, schemas=("later",))


@pytest.mark.representatives("made of a query", "rewritten")
@pytest.mark.parametrize(
    ("statements", "name"),
    [
        (("create table t as select 1 as id", "alter table t add primary key (id)"), "t"),
        (("create table t (id int)", "insert into t values (1)", "alter table t add primary key (id)"), "t"),
        (("create table t (id int primary key)", "insert into t values (1)", "vacuum full t"), "t"),
        (
            (
                "create table t (id int primary key, v int not null)",
                "insert into t values (1, 2)",
                "alter table t drop constraint t_pkey, add primary key (v)",
            ),
            "t",
        ),
        (
            (
                "create table t (id int primary key, v int)",
                "insert into t values (1, 2)",
                "alter table t alter v type bigint using v * 100",
            ),
            "t",
        ),
    ],
    ids=["made of a query", "filled before its key", "in another file", "another key", "rewritten"],
)
def test_what_the_log_does_not_have_whole_begins_with_a_snapshot(
    followed: Followed, new_database: NewDatabase, statements: tuple[str, ...], name: str
) -> None:
    for statement in statements:
        followed.session.execute(statement.encode())
        followed.note()
    followed.back_up()
    followed.run(f"update {name} set id = id + 1")
    followed.back_up()
    agree(followed, schemas=("auto", "later"))
    assert comes_back(followed, "latest", new_database())["stale"] == []
    assert followed.moment("latest").tables()[str(*oids(followed, name))].stale == ""


def test_with_definitions_a_moment_right_behind_a_migration_is_exact(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(ddl_triggers.CREATED)
    followed.back_up()
    at = followed.run("create table orders (id int primary key)", "insert into orders values (1)")
    followed.run("insert into orders values (2)")
    followed.back_up()
    moment = followed.moment(f"lsn:{at}")
    assert moment.approximate == ""
    agree(followed, len(followed.moments) - 2, oids(followed, "customers", "orders"))
    said = comes_back(followed, f"lsn:{at}", new_database())
    assert (said["stale"], said["not_restored"], said["schema_note"]) == ([], [], "")


@pytest.mark.exhaustive
def test_a_new_table_that_is_not_wanted_is_not_in_the_archive(address: Address, tmp_path: Path) -> None:
    with open_followed(address, tmp_path / "archive") as followed:
        followed.make((*TABLES, *new_tables.CREATED))
        followed.back_up("changes", "--exclude", "*.log_*")
        followed.run("create table log_1 (id int primary key)", "insert into log_1 values (1)")
        followed.run("create table orders (id int primary key)", "insert into orders values (1)")
        followed.back_up("changes", "--exclude", "*.log_*")
        assert {table.label for table in followed.tables_at(followed.moment("latest")).values()} == {
            "public.customers",
            "public.orders",
        }
        published = followed.session.execute("select tablename::text from pg_publication_tables order by 1")
        assert [name for (name,) in published] == ["customers", "orders"]


def test_what_is_ours_is_in_no_backup(followed: Followed, new_database: NewDatabase) -> None:
    followed.run("create table orders (id int primary key)")
    followed.back_up("full")
    target = new_database()
    assert followed.restore("latest", target)["not_restored"] == []
    with open_followed(target, target_place := Path(followed.store.url).parent / "other") as other:
        found = other.session.execute("select nspname::text from pg_namespace where nspname ~ '^holdfast'").fetchall()
        assert found == []
        assert other.session.execute("select count(*) from pg_event_trigger").fetchone() == (0,)
    assert target_place.is_dir()


def test_each_release_publishes_new_tables(older: PostgresServer, tmp_path: Path) -> None:
    with open_followed(create_database(older), tmp_path / "archive") as followed:
        begin(followed)
        made = migrate(followed)
        followed.back_up()
        for number, (_, truth) in enumerate(followed.moments):
            agree(followed, number, made & truth.keys(), every=len(followed.moments), schemas=("later",))
