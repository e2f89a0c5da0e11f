"""Tables that change names between two backups: rows never come back under another table's name in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.point_in_time.stretches import table_report
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.logical import ddl_triggers
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.following.followed import Followed, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TABLES = (
    "create table t (id int primary key, x text)",
    "create table blue (id int primary key, x text)",
    "create table green (id int primary key, x text)",
    "create table calm (id int primary key)",
    "insert into t select i, 'old' from generate_series(1, 5) i",
    "insert into blue values (1, 'blue')",
    "insert into green values (1, 'green')",
)

EXCHANGE = (
    "alter table blue rename to other",
    "alter table green rename to blue",
    "alter table other rename to green",
)

TOLD = pytest.mark.parametrize("is_told", [False, True], ids=["log of rows", "log of definitions"])


@pytest.fixture
def followed(address: Address, tmp_path: Path, is_told: bool) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as made:
        if is_told:
            made.make(ddl_triggers.CREATED)
        made.make(TABLES)
        made.back_up()
        yield made


def stretches_of(followed: Followed, table: str) -> list[dict[str, Any]]:
    """Return what is said of a table by `points --tables`."""
    report = table_report(followed.archive().state, followed.store, "shop").describe([table])
    return [stretch for each in report["tables"] for stretch in each["stretches"]]


@TOLD
def test_a_copy_that_takes_its_tables_name_is_not_that_table_before(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    followed.run("create table t_new (id bigint primary key, n serial, x text)")
    followed.run("insert into t_new select id, id, x from t where id < 4")
    at = followed.run("insert into calm values (1)")
    followed.run("insert into t_new select id, id, x from t where id > 3")
    followed.run("alter table t rename to t_old", "alter table t_new rename to t")
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    assert rows(target, "select count(*), min(x) from public.t") == [(5, "old")]
    assert rows(target, "select count(*) from public.calm") == [(1,)]
    assert said["unproved_names"] == ["public.t"]
    assert "public.t" in said["schema_note"]
    assert said["equal"] is False


@TOLD
def test_names_that_were_exchanged_and_back_are_said_not_to_be_proved(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    followed.run(*EXCHANGE)
    at = followed.run("insert into calm values (1)")
    followed.run(*EXCHANGE)
    followed.back_up()

    said = followed.restore(f"lsn:{at}", new_database())

    assert said["unproved_names"] == ["public.blue", "public.green"]
    assert all(name in said["schema_note"] for name in said["unproved_names"])
    assert said["equal"] is False
    assert "not proved" in {each["name"] for each in stretches_of(followed, "public.blue")}
    assert {each["name"] for each in stretches_of(followed, "public.calm")} == {"known"}


@TOLD
def test_the_log_proves_names_on_both_sides_of_an_exchange(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    before = followed.run("insert into blue values (2, 'blue')", "insert into green values (2, 'green')")
    followed.run("update blue set x = 'blue!' where id = 2", "update green set x = 'green!' where id = 2")
    followed.run(*EXCHANGE)
    followed.run("insert into blue values (3, 'green')", "insert into green values (3, 'blue')")
    after = followed.run("insert into calm values (1)")
    followed.run("update blue set x = 'x' where id = 3", "update green set x = 'x' where id = 3")
    followed.back_up()

    for at, (blue, green) in ((before, ("blue", "green")), (after, ("green", "blue"))):
        target = new_database()
        said = followed.restore(f"lsn:{at}", target)
        assert rows(target, "select x from public.blue where id = 1") == [(blue,)]
        assert rows(target, "select x from public.green where id = 1") == [(green,)]
        assert (said["unproved_names"], said["equal"]) == ([], True)


@pytest.mark.parametrize("is_told", [True])
def test_other_changes_of_a_table_leave_its_name_proved(followed: Followed, new_database: NewDatabase) -> None:
    followed.run("create index on blue (x)")
    at = followed.run("insert into calm values (1)")
    followed.run("alter table blue add check (id > 0)", "alter table calm owner to postgres")
    followed.back_up()
    said = followed.restore(f"lsn:{at}", new_database())
    assert (said["unproved_names"], said["equal"]) == ([], True)
