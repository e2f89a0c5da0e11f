"""Tables that came and went between two backups: their rows come back by what the log has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.point_in_time.query import Query
from holdfast.point_in_time.table_coverage import table_report
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.logical import ddl_triggers
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.archives.compacting import compact
from tests.support.following.followed import Followed, open_followed
from tests.support.following.followed_tables import begin

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TOLD = pytest.mark.parametrize(
    "is_told",
    [pytest.param(False, id="log of rows", marks=pytest.mark.exhaustive), pytest.param(True, id="log of definitions")],
)

MINUTES = (
    "create table minutes (id int, at timestamptz, x text not null default 'd', primary key (id, at)) "
    "partition by range (at)",
    "create index on minutes (x)",
)


@pytest.fixture
def followed(address: Address, tmp_path: Path, is_told: bool) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as made:
        if is_told:
            made.make(ddl_triggers.CREATED)
        yield made


def minute(number: int) -> str:
    return f"2026-01-01 00:{number:02}:00+00"


def make_minute(number: int) -> str:
    return (
        f"create table m{number} partition of minutes for values from ('{minute(number)}') to ('{minute(number + 1)}')"
    )


def rotate(followed: Followed, minutes: range, kept: int) -> dict[int, str]:
    """Make a partition a minute, fill it, and drop the oldest one; returns a position in each minute."""
    positions = {}
    for number in minutes:
        followed.run(make_minute(number), f"alter table calm add n{number} int")
        followed.run(
            f"insert into minutes select i, timestamptz '{minute(number)}' + i * interval '1 s', 'r{number}' "
            "from generate_series(0, 9) i"
        )
        positions[number] = followed.run(f"update minutes set x = 'u' where id = 3 and x = 'r{number}'")
        followed.run(f"delete from public.minutes where id = 4 and x = 'r{number}'")
        followed.run(f"drop table m{number - kept}")
    return positions


def expected(at: int, kept: int) -> list[tuple[Any, ...]]:
    return [(f"public.m{number}", 9 if number < at else 10) for number in range(at - kept, at + 1)]


@TOLD
def test_one_minute_partitions_have_all_rows_at_each_moment(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    begin(followed, *MINUTES, "create table calm (n int primary key)", *map(make_minute, range(2)))
    followed.back_up()
    positions = rotate(followed, range(2, 8), 2)
    followed.back_up()
    compact(followed.store)

    for number in (4, 5):
        target = new_database()
        said = followed.restore(f"lsn:{positions[number]}", target)
        counts = rows(target, "select tableoid::regclass::text, count(*) from public.minutes group by 1 order by 1")
        if is_told:
            assert counts == expected(number, 2)
            assert "may have been dropped" not in said["schema_note"]
        else:  # nobody knows when a partition went
            assert set(expected(number, 2)) <= set(counts)
            assert "may have been dropped" in said["schema_note"]
        assert rows(
            target, f"select x from public.minutes where id = 3 and tableoid = 'public.m{number}'::regclass"
        ) == [("u",)]
        assert f"public.m{number}" in said["log_only"]
        assert said["lost"] == []
        assert said["equal"] is False
        left = {each["object"]: each["reason"] for each in said["not_restored"]}
        bound = f"for values from ('{minute(number)}') to ('2026-01-01 00:{number:02}:09.000001+00')"
        assert bound in left[f'bound, indexes and conditions of its own of partition "public"."m{number}"']
        keys = f"select count(*) from pg_index where indrelid = 'public.m{number}'::regclass and indisvalid"
        assert rows(target, keys) == [(2,)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_told", [False])
def test_the_later_schema_leaves_out_what_may_have_been_dropped(followed: Followed, new_database: NewDatabase) -> None:
    begin(followed, *MINUTES, "create table calm (n int primary key)", *map(make_minute, range(2)))
    followed.back_up()
    positions = rotate(followed, range(2, 6), 1)
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{positions[4]}", target, schema="later")

    there = [f"public.m{number}" for number in (4,)]
    counts = rows(target, "select tableoid::regclass::text from public.minutes group by 1 order by 1")
    assert [name for (name,) in counts] == there
    assert "rows of table public.m3 (of 12 changes)" in said["lost"]


@pytest.mark.parametrize("is_told", [False])
def test_such_a_partition_is_queried_and_restored_alone_under_another_name(
    followed: Followed, new_database: NewDatabase, tmp_path: Path
) -> None:
    begin(followed, *MINUTES, "create table calm (n int primary key)", *map(make_minute, range(2)))
    followed.back_up()
    positions = rotate(followed, range(2, 6), 1)
    followed.back_up()
    at = f"lsn:{positions[4]}"

    (spill := tmp_path / "spill").mkdir()
    text = "select count(*) from minutes where x = 'r4'"
    asked = Query(followed.store, followed.moment(at), text, memory_bytes=1 << 28, spill=spill)
    assert [row for batch in asked.rows() for row in batch.to_pylist()] == [{"count_star()": 9}]

    target = new_database()
    said = followed.restore(at, target, "public.m4")
    assert rows(target, "select count(*) from public.m4") == [(10,)]
    assert "log_only" in said
    (table,) = table_report(followed.archive().state, followed.store, "shop").describe(["public.m4"])["tables"]
    assert {each["rows"] for each in table["stretches"]} == {"exact"}
    assert {each["schema"] for each in table["stretches"]} == {"approximate"}


@TOLD
def test_where_several_tables_may_have_had_a_partition_it_is_a_table_of_its_own(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    begin(
        followed,
        "create table one (id int primary key) partition by list (id)",
        "create table two (id int primary key) partition by list (id)",
        "create table one_0 partition of one for values in (0)",
        "create table two_0 partition of two for values in (0)",
    )
    followed.back_up()
    followed.run("create table passing partition of one for values in (1)")
    at = followed.run("insert into one values (1)")
    followed.run("insert into two values (0)")
    followed.run("drop table passing")
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    assert rows(target, "select id from public.passing") == [(1,)]
    assert rows(target, "select count(*) from public.one") == [(0,)]
    assert rows(target, "select count(*) from public.two") == [(0,)]
    assert said["log_only"] == ["public.passing"]
    assert any("nor is known what it was part of" in each["reason"] for each in said["not_restored"])


@TOLD
def test_a_name_that_another_table_has_now_is_not_taken_from_it(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    begin(
        followed,
        "create table parted (id int primary key, x text) partition by list (id)",
        "create table part_0 partition of parted for values in (0)",
    )
    followed.back_up()
    followed.run("create table part_1 partition of parted for values in (1)")
    at = followed.run("insert into parted values (1, 'first')")
    followed.run("update parted set x = 'second'")
    followed.run("drop table part_1", "create table part_1 partition of parted for values in (1)")
    followed.run("insert into parted values (1, 'third')")
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    table = "public.parted" if is_told else said["log_only"][0]  # its neighbour of a later day has its bound
    assert rows(target, f"select x from {table}") == [("first",)]
    assert said["log_only"] == ["public.part_1"] if is_told else said["log_only"][0].startswith("public.part_1_")
    assert any("would overlap" in each["reason"] for each in said["not_restored"]) is not is_told
    assert said["equal"] is False


@pytest.mark.parametrize("is_told", [False])
def test_what_was_not_chosen_is_not_kept(followed: Followed, new_database: NewDatabase) -> None:
    begin(
        followed,
        "create table parted (id int primary key) partition by list (id)",
        "create table part_0 partition of parted for values in (0)",
    )
    followed.back_up("changes", "--exclude", "public.secret*")
    followed.run("create table secret_1 partition of parted for values in (1)")
    at = followed.run("insert into parted values (1)")
    followed.run("insert into parted values (0)")
    followed.run("drop table secret_1")
    followed.back_up("changes", "--exclude", "public.secret*")

    assert "rows of table public.secret_1 (of 1 changes)" in followed.restore(f"lsn:{at}", new_database())["lost"]
    changed = {record.label for placed in followed.archive().state.blocks.values() for record in placed.head.tables}
    assert "public.secret_1" not in changed


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_told", [False])
def test_rows_from_before_a_partition_was_attached_end_no_restore(
    followed: Followed, new_database: NewDatabase
) -> None:
    begin(
        followed,
        "create table parted (id int primary key, n int, x text) partition by list (id)",
        "create table part_0 partition of parted for values in (0)",
        "create table calm (n int primary key)",
    )
    followed.back_up()
    followed.run(
        "create table late (id int primary key, n int, x text)",
        "alter table late alter x set storage external",
        "insert into late values (1, 1, repeat('x', 10000))",
    )
    followed.run("alter table parted attach partition late for values in (1)")
    followed.run("update parted set n = 2 where id = 1")  # the log does not have x
    at = followed.run("insert into calm values (1)")
    followed.run("update parted set n = 3 where id = 1")
    followed.run("drop table late")
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    assert rows(target, "select count(*) from public.late") == [(0,)]
    assert rows(target, "select n from public.calm") == [(1,)]
    assert any("of rows from before it was attached" in each["reason"] for each in said["not_restored"])
    assert said["equal"] is False
