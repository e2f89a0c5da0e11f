"""Rows of partitions that hash what another database hashes otherwise come back through the table that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import ReportedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows import staging_tables
from tests.sparkjobs.restore.test_rows_first import brought_back
from tests.support.following.followed import Followed, open_followed
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TYPES = (
    "create type col as enum ('red', 'green', 'blue', 'black')",
    "create domain coldom as col",
    "create type pair as (c col, n int)",
    "create type cols as range (subtype = col)",
)
KEYS = {
    "enum": ("c col", "c", "(enum_range(null::col))[1 + i % 4]"),
    "domain": ("c coldom", "c", "(enum_range(null::col))[1 + i % 4]"),
    "array": ("c col[]", "c", "array[(enum_range(null::col))[1 + i % 4]]"),
    "composite": ("c pair", "c", "row((enum_range(null::col))[1 + i % 4], 1)::pair"),
    "range": ("c cols", "c", "cols('red', (enum_range(null::col))[1 + i % 4], '[]')"),
    "expression": ("c col", "(array[c])", "(enum_range(null::col))[1 + i % 4]"),
    "name": ("c regclass", "c", "(array['he', 'he0', 'he1', 'he2']::regclass[])[1 + i % 4]"),
}
"""Column, key and values of tables."""


def tree(name: str, column: str, key: str, value: str) -> list[str]:
    """Return what makes a table of four partitions, one of which has its columns in another order."""
    made = [
        f"create table {name} (id int, {column}, note text) partition by hash ({key})",
        f"create table {name}0 (note text, gone int, {column}, id int)",
        f"alter table {name}0 drop column gone",
        f"alter table {name} attach partition {name}0 for values with (modulus 4, remainder 0)",
    ]
    made += [
        f"create table {name}{each} partition of {name} for values with (modulus 4, remainder {each})"
        for each in (1, 2, 3)
    ]
    return [*made, f"insert into {name} (id, c, note) select i, {value}, 'n' || i from generate_series(1, 40) i"]


ENUM = (
    TYPES[0],
    "create table he (c col not null, id int, primary key (c, id)) partition by hash (c)",
    *(f"create table he{n} partition of he for values with (modulus 4, remainder {n})" for n in range(4)),
    "insert into he select (enum_range(null::col))[1 + i % 4], i from generate_series(1, 200) i",
)


def rows(address: Address, table: str) -> list[str]:
    with connect(address) as session:
        session.execute("set search_path = public")
        return sorted(row for (row,) in session.execute(f"select (id, c)::text from {table}".encode()))


def test_rows_come_back_through_the_table_that_hashes_them_by_oids(
    create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    trees = [statement for name, how in KEYS.items() for statement in tree(f"by_{name}", *how)]
    source = create_database(*ENUM, *TYPES[1:], *trees)
    assert run_backup(source)[0] == 0
    target = create_database()
    code, record = run_restore(target)
    assert (code, record.error) == (0, None)
    for name in ("he", *(f"by_{key}" for key in KEYS)):
        assert rows(target, name) == rows(source, name)
    with connect(target) as session:
        found = session.execute("select count(*) from public.he where c = 'red' and id = 4").fetchone()
    assert found == (1,)
    target = create_database("create table mine (id int)")
    code, record = run_restore(target, "--tables", "public.he", "--map", "public=other")
    assert (code, record.result and record.result["rows"]) == (0, 200), record.error
    assert len(rows(target, "other.he")) == 200


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        opened.make((*ENUM, "create table plain (id int primary key, c int)", "insert into plain values (1, 1)"))
        yield opened


def test_changes_of_such_partitions_come_back_too(followed: Followed, new_database: NewDatabase) -> None:
    followed.back_up()
    followed.run("delete from he where id % 3 = 0", "update he set c = 'black' where id = 1")
    followed.run("insert into he values ('red', 900)", "delete from he2")
    position = followed.run("update he set id = id + 1000 where id < 50")
    then = rows(followed.address, "he")
    followed.run("alter table he add check (id > 2)", "delete from he where id > 100")
    followed.back_up()
    for at, tables in ((f"lsn:{position}", ()), (f"lsn:{position}", ("public.he",)), ("latest", ())):
        target = new_database()
        assert followed.restore(at, target, *tables)["equal"]
        assert rows(target, "he") == (rows(followed.address, "he") if at == "latest" else then)


def test_a_restore_that_ended_while_their_rows_were_aside_goes_on(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.back_up()
    followed.run("update he set id = id + 1000", "insert into he0 select c, id + 5000 from he0")
    followed.back_up()
    target, calls, bring_back = new_database(), [], staging_tables.bring_back

    def end_at_the_second(*given: Any, **more: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            raise ConnectionError("the power is gone")
        bring_back(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(staging_tables, "bring_back", end_at_the_second)
        with pytest.raises(ReportedError, match="the power is gone"):
            followed.restore("latest", target)
    said = followed.restore("latest", target)
    assert (said["equal"], said["resumed"] is not None) == (True, True)
    assert rows(target, "he") == rows(followed.address, "he")


@pytest.mark.exhaustive
def test_text_that_has_other_bytes_in_the_target_comes_back_through_its_root(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    made = tree("words", "c text", "c", "'ä' || i")
    source = create_on(18, *made, options="encoding 'LATIN1' locale 'C' template template0")
    assert run_backup(source)[0] == 0
    target = create_on(18)
    assert run_restore(target)[0] == 0
    assert rows(target, "words") == rows(source, "words")


ASKING = (
    "create function fine(n int) returns bool language plpgsql as 'begin return true; end'",
    "create function known(n int) returns bool language plpgsql as 'begin return true; end'",
    "alter table he add constraint of_all check (fine(id))",
    *(f"alter table he{n} add constraint of_one check (known(id))" for n in range(4)),
    "create or replace function fine(n int) returns bool language plpgsql as 'begin return n > 5; end'",
    "create or replace function known(n int) returns bool language plpgsql as "
    "$$ begin raise exception 'not known any more: %', n; end $$",
)


OF_ALL = "CHECK of_all of public.he"


def broken(address: Address) -> set[str]:
    """Return the conditions that rows break: where they are is the database's own affair."""
    with connect(address) as session:
        places = session.execute("select distinct tableoid::regclass::text from public.he").fetchall()
    return {OF_ALL, *(f"CHECK of_one of {place}" for (place,) in places)}


def test_conditions_that_such_rows_break_give_way_and_are_named(
    create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    source, target = create_database(*ENUM, *ASKING), create_database()

    left = brought_back(run_backup, run_restore, source, target)

    assert rows(target, "he") == rows(source, "he")
    assert left.keys() == broken(target)
    for name, each in left.items():
        table, condition = ("he", "of_all") if name == OF_ALL else (name.rpartition(".")[2], "of_one")
        assert each["statement"] == f'alter table public.{table} validate constraint "{condition}";'
        assert name == OF_ALL or "not known any more" in each["reason"]


FORMULA = (
    "create function tax(n int) returns int language plpgsql immutable as 'begin return n * 2; end'",
    "create table parted (c col not null, id int, gross int generated always as (tax(id)) stored) "
    "partition by hash (c)",
    "create or replace function tax(n int) returns int language plpgsql immutable as "
    "$$ begin raise exception 'no tax any more'; end $$",
)


@pytest.mark.exhaustive
def test_a_formula_that_fails_leaves_the_values_of_all_partitions(
    create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    source = create_database(
        TYPES[0],
        *FORMULA[:2],
        *(f"create table parted{n} partition of parted for values with (modulus 3, remainder {n})" for n in range(3)),
        "insert into parted select (enum_range(null::col))[1 + i % 4], i from generate_series(1, 60) i",
        FORMULA[2],
    )
    target = create_database()

    left = brought_back(run_backup, run_restore, source, target)

    with connect(target) as session:
        found = session.execute("select count(*), bool_and(gross = id * 2) from public.parted").fetchone()
    assert found == (60, True)
    assert left.keys() == {"formula of gross of public.parted, public.tax(id)"}
