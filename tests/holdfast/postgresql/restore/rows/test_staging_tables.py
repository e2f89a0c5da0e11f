"""Rows that do not fit their table yet are brought to the moment beside it, and come back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.restore.plan.ledger import read_steps
from holdfast.postgresql.restore.rows.staging_tables import (
    MisfitError,
    bring_back,
    is_aside,
    is_back,
    is_loaded,
    leave_root,
    left_out,
    not_taken,
    put_conditions_back,
    set_aside,
    staging_table,
    step_of,
)
from tests.support.databases.records import column
from tests.support.databases.records import table as record

Session = psycopg.Connection[Any]

FILES = ("data/2", "data/1")


def test_a_file_has_another_step_where_its_rows_go_aside_first() -> None:
    table = record(column("id"), column("twice", 2, generated="s"))
    there = staging_table(table, {"aside 7": ""})
    assert (there.table_schema, there.name, there.kind) == (LEDGER, "rows_7", "r")
    assert there.columns == table.columns
    assert [each.generated for each in staging_table(table, {"aside 7": "computed"}).columns] == ["", ""]
    assert (step_of(table, "data/1"), step_of(there, "data/1")) == ("data/1", "data/1 aside")


def test_a_file_is_loaded_where_its_rows_belong_by_now() -> None:
    table = record(column("id"))
    assert not is_loaded(table, "data/1", {})
    assert is_loaded(table, "data/1", {"data/1": ""})
    # All files are noted as loaded into the table itself, so that nobody who is late loads one there.
    assert not is_loaded(table, "data/1", {"data/1": "", "aside 7": ""})
    assert is_loaded(table, "data/1", {"aside 7": "", "data/1 aside": ""})
    assert (is_aside(table, {}), is_aside(table, {"aside 7"}), is_back(table, {"back 7"})) == (False, True, True)


@pytest.fixture
def session(undone: Session) -> Session:
    undone.execute("create domain public.positive as int check (value > 0)")
    return undone


def make(session: Session, definition: str, name: str = "t") -> Table:
    session.execute(f"create table public.{name} {definition}".encode())
    return next(each for each in read_tables(session) if each.name == name)


def moved(session: Session, table: Table, *rows: str, **options: Any) -> Table:
    """Set a table's rows aside and put others there; return what they are in."""
    set_aside(session, [table], {table.oid: FILES}, **options)
    there = staging_table(table, read_steps(session))
    for row in rows:
        session.execute(f"insert into {qualified(there.table_schema, there.name)} values ({row})".encode())
    return there


def rows(session: Session, table: str = "public.t") -> list[Any]:
    return session.execute(f"select * from {table} order by 1".encode()).fetchall()


@pytest.mark.service
def test_the_table_beside_has_no_condition_and_the_same_values(session: Session) -> None:
    table = make(
        session,
        '(id public.positive not null check (id > 10), "Word" varchar(2) collate "C", up int check (up > 0), '
        "twice int generated always as (id * 2) stored)",
    )
    session.execute("insert into public.t values (11, 'x', 1)")
    there = moved(session, table, "null, 'a', -1", "-3, 'b', null")
    assert rows(session) == []
    name = qualified(there.table_schema, there.name)
    assert sorted(rows(session, name), key=str) == [(-3, "b", None, -6), (None, "a", -1, None)]
    steps = read_steps(session)
    assert {*FILES, f"aside {table.oid}"} <= set(steps)
    # A second attempt changes nothing.
    set_aside(session, [table], {table.oid: FILES})
    assert len(rows(session, name)) == 2


@pytest.mark.service
def test_rows_that_fit_by_now_come_back_once(session: Session) -> None:
    columns = "id int generated always as identity check (id > 0), twice int generated always as (id * 2) stored"
    table = make(session, f"({columns})")
    there = moved(session, table, "5")
    bring_back(session, table)
    assert rows(session) == [(5, 10)]
    assert is_back(table, read_steps(session))
    assert session.execute("select to_regclass(%s)", (f"{there.table_schema}.{there.name}",)).fetchone() == (None,)
    bring_back(session, table)
    assert rows(session) == [(5, 10)]


@pytest.mark.service
def test_rows_that_break_a_condition_stay_aside_unless_it_may_give_way(session: Session) -> None:
    table = make(session, "(id int constraint positive check (id > 0))")
    moved(session, table, "-5", "5")
    with pytest.raises(
        MisfitError, match=r'^public\.t does not take its rows: .* violates check constraint "positive"'
    ):
        bring_back(session, table)
    assert rows(session) == []
    bring_back(session, table, reason="the moment had none")
    assert rows(session) == [(-5,), (5,)]
    [left] = left_out(table, read_steps(session))
    assert (left.what, left.reason) == ("CHECK positive of public.t", "the moment had none")
    put_conditions_back(session, table)
    [kept] = left_out(table, read_steps(session))
    valid = "select convalidated from pg_constraint where conrelid = 'public.t'::regclass and contype = 'c'"
    assert session.execute(valid).fetchall() == [(False,)]
    assert kept.what == left.what


@pytest.mark.service
def test_values_that_a_formula_cannot_compute_here_are_kept_as_they_came(session: Session) -> None:
    session.execute(
        "create function public.fail(int) returns int language plpgsql immutable as $$ begin raise 'it fails'; end $$"
    )
    table = make(session, "(id int, computed int generated always as (public.fail(id)) stored)")
    there = moved(session, table, "1, 77", keep_computed=[table.oid], is_begun=False)
    assert [each.generated for each in there.columns] == ["", ""]
    bring_back(session, table, reason="")
    assert rows(session) == [(1, 77)]
    assert [each.what for each in left_out(table, read_steps(session))] == [
        "formula of computed of public.t, public.fail(id)"
    ]


@pytest.mark.service
def test_partitions_whose_root_cannot_assign_their_rows_become_tables_of_their_own(session: Session) -> None:
    session.execute(
        "create function public.key(int) returns int language plpgsql immutable as "
        "$$ begin if $1 = 13 then raise 'unlucky'; end if; return $1; end $$"
    )
    make(session, "(id int) partition by range (public.key(id))", "root")
    part = make(session, "(id int)", "part")
    session.execute("alter table public.root attach partition public.part for values from (0) to (100)")
    moved(session, part, "12")
    leave_root(session, [part])
    assert session.execute("select count(*) from pg_inherits").fetchone() == (1,)
    session.execute(f"insert into {LEDGER}.rows_{part.oid} values (13)".encode())
    leave_root(session, [part])
    assert session.execute("select count(*) from pg_inherits").fetchone() == (0,)
    bring_back(session, part, reason="")
    assert rows(session, "public.part") == [(12,), (13,)]
    [left] = left_out(part, read_steps(session))
    assert "public.part" in left.what
    assert "unlucky" in left.reason


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (psycopg.errors.CheckViolation, MisfitError),
        (psycopg.errors.RaiseException, MisfitError),
        (psycopg.errors.DiskFull, psycopg.errors.DiskFull),
        (psycopg.errors.DeadlockDetected, psycopg.errors.DeadlockDetected),
    ],
)
@pytest.mark.service
def test_only_what_will_never_fit_is_a_misfit(
    session: Session, error: type[psycopg.Error], raised: type[Exception]
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        session.execute(f"do $$ begin raise 'no' using errcode = '{error.sqlstate}'; end $$".encode())
    with pytest.raises(raised):
        not_taken(session, "public.t does not take its rows", caught.value)


@pytest.mark.service
def test_rows_of_a_root_go_aside_together(session: Session) -> None:
    root = make(session, "(id int) partition by list (id)", "root")
    session.execute("create table public.one partition of public.root default; insert into public.root values (1)")
    tables = [root.model_copy(update={"oid": 70}), root.model_copy(update={"oid": 71})]
    set_aside(session, tables, {70: FILES, 71: ("data/3",)})
    assert rows(session, "public.root") == []
    steps = read_steps(session)
    assert {"aside 70", "aside 71", "data/1", "data/2", "data/3"} <= set(steps)
