"""Conditions that rows break: dropped for them, told, and added again where the rows satisfy them by then."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect, refusal_of
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.plan.relaxed_constraints import (
    RelaxedConstraint,
    add_again,
    detach,
    drop_condition,
    drop_expression,
    failure_of_bound,
)

pytestmark = pytest.mark.service

Session = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def session(begun: Session) -> Session:
    """A target that a restore of everything has claimed: all that is in it is the restore's."""
    return begun


def make(session: Session, *statements: str) -> None:
    for statement in statements:
        session.execute(statement.encode())


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return session.execute(query.encode()).fetchall()


def refused(session: Session, statement: str) -> psycopg.Error:
    error = refusal_of(session, statement)
    assert error is not None, statement
    return error


def given_way(session: Session, statement: str, table: str = "public.t", reason: str = "") -> RelaxedConstraint:
    """Run a statement that a condition of a table is in the way of, and return that condition, which is dropped."""
    dropped = drop_condition(session, table, table, refused(session, statement), reason)
    assert dropped is not None
    make(session, statement)
    return dropped


def created(session: Session, *relations: str) -> None:
    """Note that the restore has made these, and that all else was there before."""
    for relation in relations:
        make(
            session,
            "insert into holdfast_restore.created (class, object) "
            f"values ('pg_catalog.pg_class'::regclass, '{relation}'::regclass)",
        )


def test_a_check_gives_way_and_comes_again_once_its_rows_are_mended(session: Session) -> None:
    make(session, "create table public.t (a int constraint positive check (a > 0))")
    dropped = given_way(session, "insert into public.t values (-1)")
    assert (dropped.not_restored.what, dropped.column) == ("CHECK positive of public.t", "")
    assert dropped.not_restored.statement == 'alter table public.t add constraint "positive" CHECK ((a > 0));'
    assert 'violates check constraint "positive"' in dropped.not_restored.reason
    make(session, "update public.t set a = 1")
    assert add_again(session, dropped) is None
    refused(session, "insert into public.t values (-1)")


def test_a_check_that_rows_still_break_is_there_for_new_ones(session: Session) -> None:
    make(session, "create table public.t (a int constraint positive check (a > 0))")
    dropped = given_way(session, "insert into public.t values (-1)", reason="rows of another moment break it")
    assert dropped.not_restored.reason == "rows of another moment break it"
    told = add_again(session, dropped)
    assert told is not None
    assert told.reason.startswith("new rows are checked, but those that are there are not (NOT VALID): ")
    assert told.statement == 'alter table public.t validate constraint "positive";'
    refused(session, "insert into public.t values (-2)")
    make(session, "update public.t set a = 1", told.statement)


def test_not_null_gives_way_and_comes_again(session: Session) -> None:
    make(session, "create table public.t (a int not null, b int not null)")
    dropped = given_way(session, "insert into public.t values (1, null)")
    assert dropped.not_restored.what == "NOT NULL of b of public.t"
    refused(session, "insert into public.t values (null, 1)")
    make(session, "update public.t set b = 1")
    assert add_again(session, dropped) is None
    refused(session, "insert into public.t values (1, null)")


def test_a_condition_of_a_domain_gives_way_where_it_stands(session: Session) -> None:
    make(
        session,
        "create domain public.word as text constraint short check (length(value) < 4) not null",
        "create domain public.name as public.word constraint lower check (value = lower(value))",
        "create table public.t (a public.name)",
    )
    dropped = given_way(session, "insert into public.t values ('longer')")
    assert dropped.not_restored.what == "CHECK short of domain public.word"
    nothing = given_way(session, "insert into public.t values (null)")
    assert nothing.not_restored.what == "NOT NULL of domain public.word"
    refused(session, "insert into public.t values ('ABC')")
    make(session, "delete from public.t")
    assert (add_again(session, dropped), add_again(session, nothing)) == (None, None)


def test_a_bound_gives_way_with_the_partition_becoming_a_table_of_its_own(session: Session) -> None:
    make(
        session,
        "create table public.root (a int) partition by range (a)",
        "create table public.t partition of public.root for values from (0) to (10)",
    )
    dropped = given_way(session, "insert into public.t values (10)")
    assert dropped.not_restored.what == "partition public.t of public.root"
    assert (dropped.not_valid, dropped.validate) == ("", "")
    # Of a restore of everything all goes if it is undone: nothing needs noting.
    assert rows(session, "select count(*) from holdfast_restore.detached") == [(0,)]
    told = add_again(session, dropped)
    assert told is not None
    assert "violated by some row" in told.reason
    make(session, "update public.t set a = 9", told.statement)
    assert rows(session, "select a from public.root") == [(9,)]


def test_a_partition_that_is_detached_is_noted_where_the_target_has_other_things(session: Session) -> None:
    make(
        session,
        "create table public.root (a int) partition by range (a)",
        "create table public.t partition of public.root for values from (0) to (10)",
    )
    created(session, "public.root")  # the ledger does not name its partitions: they go with it
    given_way(session, "insert into public.t values (10)")
    assert rows(session, "select relation::regclass::text from holdfast_restore.detached") == [("public.t",)]


def test_a_condition_of_all_partitions_gives_way_where_it_comes_from(session: Session) -> None:
    make(
        session,
        "create table public.root (a int constraint positive check (a > 0)) partition by range (a)",
        "create table public.t partition of public.root default",
        "create table public.u partition of public.root for values from (-9) to (0)",
    )
    dropped = given_way(session, "insert into public.t values (-10)")
    assert dropped.not_restored.what == "CHECK positive of public.root"
    make(session, "insert into public.root values (-1)")


def test_what_was_there_before_gives_no_way(session: Session) -> None:
    make(
        session,
        "create table public.before (a int constraint positive check (a > 0))",
        "create table public.t () inherits (public.before)",
        "create table public.own (a int constraint positive check (a > 0))",
        "create domain public.word as text check (value <> '')",
        "create table public.words (a public.word)",
    )
    created(session, "public.t", "public.own", "public.words")
    for table, value in (("public.t", "-1"), ("public.before", "-1"), ("public.words", "''")):
        error = refused(session, f"insert into {table} values ({value})")
        assert drop_condition(session, table, table, error) is None
    assert given_way(session, "insert into public.own values (-1)", "public.own").not_restored.what.endswith(
        "public.own"
    )


def test_no_other_refusal_makes_a_condition_give_way(session: Session) -> None:
    make(session, "create table public.t (a int primary key check (a > 0))", "insert into public.t values (1)")
    error = refused(session, "insert into public.t values (1)")
    assert drop_condition(session, "public.t", "public.t", error) is None
    refused(session, "insert into public.t values (-1)")


FAILS = """
create function public.fails(n int) returns boolean language plpgsql as $$
begin
    if n < 0 then raise 'it fails for %', n; end if;
    return true;
end $$
"""


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (
            ["create table public.t (a int check (a < 9), constraint asks check (public.fails(a)))"],
            "CHECK asks of public.t",
        ),
        (
            [
                "create domain public.word as int constraint asks check (public.fails(value))",
                "create table public.t (a public.word)",
            ],
            "CHECK asks of domain public.word",
        ),
    ],
)
def test_where_a_function_fails_the_condition_that_asks_one_gives_way(
    session: Session, made: list[str], what: str
) -> None:
    make(session, FAILS, *made)
    dropped = given_way(session, "insert into public.t values (-1)")
    assert dropped.not_restored.what == what
    assert "it fails for -1" in dropped.not_restored.reason


KEYED = (
    "create function public.half(n int) returns int immutable language sql as 'select 100 / n'",
    "create table public.root (a int) partition by list (public.half(a))",
    "create table public.t partition of public.root for values in (50)",
    "create table public.rows (a int)",
)


def test_a_bound_whose_function_fails_gives_way_before_any_other_condition(session: Session) -> None:
    make(session, *KEYED, "alter table public.t add check (public.half(a) > 0)", "insert into public.rows values (0)")
    error = failure_of_bound(session, "public.t", "public.rows")
    assert isinstance(error, psycopg.errors.DivisionByZero)
    dropped = drop_condition(session, "public.t", "public.rows", error)
    assert dropped is not None
    assert dropped.not_restored.what == "partition public.t of public.root"
    assert detach(session, "public.t", error) is None  # it is no partition any more


def test_rows_that_can_be_assigned_keep_a_bound(session: Session) -> None:
    make(session, *KEYED, "insert into public.rows values (2), (5)")
    assert failure_of_bound(session, "public.t", "public.rows") is None
    assert failure_of_bound(session, "public.rows", "public.rows") is None  # no partition has a bound


def test_a_formula_whose_function_fails_leaves_the_values_to_the_backup(session: Session) -> None:
    make(
        session,
        KEYED[0],
        "create table public.t (a int, b int generated always as (a + 1) stored, "
        'c int generated always as (public.half(a)) stored, "D" int generated always as (public.half(a + 1)) stored)',
    )
    error = refused(session, "insert into public.t values (0)")
    dropped = drop_expression(session, "public.t", [], error)
    assert dropped is not None
    assert (dropped.column, dropped.not_restored.what) == ("c", "formula of c of public.t, public.half(a)")
    assert dropped.not_restored.statement == (
        'alter table public.t drop column "c", add column "c" integer generated always as (public.half(a)) stored;'
    )
    make(session, "insert into public.t (a, c) values (0, 7)")
    assert add_again(session, dropped) == dropped.not_restored  # nothing is computed again by itself
    other = drop_expression(session, "public.t", ["c"], error)
    assert other is not None
    assert other.column == "D"
    assert drop_expression(session, "public.t", ["c", "D"], error) is None  # PostgreSQL's own functions do not fail


def test_what_was_dropped_is_told_to_other_processes() -> None:
    told = NotRestored("CHECK c of t", "rows break it", "alter table t add check (a > 0);")
    dropped = RelaxedConstraint(told, "not valid", "validate", "column")
    assert RelaxedConstraint.from_dict(dropped.to_dict()) == dropped
    assert RelaxedConstraint.from_dict(told.describe()) == RelaxedConstraint(told)


def test_a_connection_that_is_gone_is_no_refusal(address: Address) -> None:
    with connect(address) as session, pytest.raises(psycopg.OperationalError):
        refusal_of(session, "select pg_terminate_backend(pg_backend_pid())")
