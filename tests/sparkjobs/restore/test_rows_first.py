"""Restores whose rows are right, and something that follows them is not: rows come first, what fails is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.objects import object_creation
from holdfast.postgresql.restore.rows import load, staging_tables
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]

ASKS_OTHER_TABLE = (
    "create table zz (id int primary key, v text unique)",
    "insert into zz select i, 'v' || i from generate_series(1, 5) i",
    "create function in_zz(p text) returns bool language plpgsql stable as "
    "$$ begin return exists (select from public.zz where v = p); end $$",
    "create table aa (id int primary key, v text check (in_zz(v)))",
    "insert into aa select i, 'v' || i from generate_series(1, 5) i",
)
ASK_EACH_OTHER = (
    "create table one (id int)",
    "create table two (id int)",
    "create function is_one(n int) returns bool language sql stable as "
    "'select exists (select from public.one where id = n)'",
    "create function is_two(n int) returns bool language sql stable as "
    "'select exists (select from public.two where id = n)'",
    "insert into one values (1)",
    "insert into two values (1)",
    "alter table one add constraint of_two check (is_two(id))",
    "alter table two add constraint of_one check (is_one(id))",
)
NEVER_TRUE_NOW = (
    "create function fine(n int) returns bool language sql as 'select true'",
    "create domain small as int constraint few check (fine(value))",
    "create table t (id int primary key, n int constraint positive check (fine(n)), s small)",
    "insert into t select i, i, i from generate_series(1, 10) i",
    "create table parted (n int, constraint of_all check (fine(n))) partition by range (n)",
    "create table parted_1 partition of parted for values from (0) to (100)",
    "insert into parted values (1)",
    "create or replace function fine(n int) returns bool language sql as 'select n > 5'",
)
ORPHANS = (
    "create table types (id int primary key)",
    "create table gage (id int primary key, t int references types)",
    "insert into types values (1), (2)",
    "insert into gage values (1, 1), (2, 2)",
    "set session_replication_role = replica",
    "delete from types where id = 2",
    "insert into gage values (3, 77)",
)
PATHS = (
    "create extension pg_trgm",
    "create function slugify_inner(v text) returns text language sql immutable as "
    "$$ select replace(lower(v), ' ', '-') $$",
    "create function slugify(v text) returns text language plpgsql immutable strict as "
    "$$ begin return trim(both '-' from slugify_inner(v)); end $$",
    "create table pages (id int generated always as identity primary key, name text default slugify('No Name'), "
    "slug text generated always as (slugify(name)) stored, check (slugify(name) <> ''))",
    "insert into pages (name) select 'Page No ' || i from generate_series(1, 30) i",
)
RAISES = (
    "create function tax(n int) returns int language plpgsql immutable as 'begin return n * 2; end'",
    "create table inv (id int primary key, net int check (tax(net) > 0), "
    "gross int generated always as (tax(net)) stored)",
    "insert into inv select i, i from generate_series(1, 5) i",
    "create or replace function tax(n int) returns int language plpgsql immutable as "
    "$$ begin raise exception 'no tax any more'; end $$",
)


KEYED = (
    "create function key(n int) returns int language plpgsql immutable as 'begin return n; end'",
    "create table keyed (n int) partition by hash (key(n))",
    "create table keyed_0 partition of keyed for values with (modulus 1, remainder 0)",
    "insert into keyed values (1)",
    "create or replace function key(n int) returns int language plpgsql immutable as 'begin return 1 / 0; end'",
)


def rows(address: Address, query: str) -> list[Any]:
    with connect(address) as session:
        return session.execute(query.encode()).fetchall()


def brought_back(
    run_backup: RunJob, run_restore: RunJob, source: Address, target: Address, *options: str
) -> dict[str, dict[str, str]]:
    """Back up and restore; return what was not restored, by what it is."""
    assert run_backup(source)[0] == 0
    code, record = run_restore(target, *options)
    assert record.result is not None, record.error
    assert (code, record.result["equal"]) == (0, True)
    with connect(target) as session:
        assert session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)
    return {each["object"]: each for each in record.result["not_restored"]}


@pytest.mark.representatives("each other")
@pytest.mark.parametrize("made", [ASKS_OTHER_TABLE, ASK_EACH_OTHER], ids=["another table", "each other"])
def test_conditions_that_ask_other_tables_are_as_they_were(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase, made: tuple[str, ...]
) -> None:
    source, target = create_database(*made), create_database()

    assert brought_back(run_backup, run_restore, source, target) == {}

    checks = "select conname, convalidated from pg_constraint where contype = 'c' order by 1"
    assert [row for row in rows(target, checks) if row[1]] == rows(source, checks)


def test_a_condition_that_rows_break_is_there_for_new_rows_and_named(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    source, target = create_database(*NEVER_TRUE_NOW), create_database()

    left = brought_back(run_backup, run_restore, source, target)

    assert rows(target, "select count(*), sum(n), sum(s) from public.t") == [(10, 55, 55)]
    assert rows(target, "select * from public.parted") == [(1,)]
    assert {name: each["statement"] for name, each in left.items()} == {
        "CHECK positive of public.t": 'alter table public.t validate constraint "positive";',
        "CHECK few of domain public.small": 'alter domain public.small validate constraint "few";',
        "CHECK of_all of public.parted": 'alter table public.parted validate constraint "of_all";',
    }
    assert all("NOT VALID" in each["reason"] for each in left.values())
    with connect(target) as session:
        with pytest.raises(psycopg.errors.CheckViolation):
            session.execute("insert into public.t values (11, 1, 7)")
        session.execute("update public.t set n = n + 5, s = s + 5")
        session.execute("update public.parted set n = 6")
        for each in left.values():
            session.execute(each["statement"].encode())


DUPLICATES = (
    "create function same(n int) returns int language sql immutable as 'select n'",
    "create table twice (id int primary key)",
    "create unique index once on twice (same(id))",
    "insert into twice values (1), (2)",
    "create or replace function same(n int) returns int language sql immutable as 'select 7'",
)


def test_orphans_and_duplicates_come_back_and_their_keys_are_named(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    source, target = create_database(*ORPHANS, *DUPLICATES), create_database()

    left = brought_back(run_backup, run_restore, source, target)

    assert rows(target, "select * from public.gage order by 1") == [(1, 1), (2, 2), (3, 77)]
    assert rows(target, "select count(*) from public.types, public.twice") == [(2,)]
    key, index = left["foreign key public.gage gage_t_fkey"], left["index public.once"]
    assert len(left) == 2
    assert key["statement"] == "alter table public.gage validate constraint gage_t_fkey;"
    assert "(77)" in key["reason"] or "(2)" in key["reason"]
    assert index["statement"].startswith("CREATE UNIQUE INDEX once")
    with connect(target) as session:
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            session.execute("insert into public.gage values (4, 78)")
        session.execute("delete from public.gage where t <> 1")
        session.execute("delete from public.twice where id = 1")
        for each in left.values():
            session.execute(each["statement"].encode())


RECOMPUTED = (
    "create function tax(n int) returns int language sql immutable as 'select n * 2'",
    "create table inv (net int, gross int generated always as (tax(net)) stored)",
    "insert into inv values (1)",
    "create or replace function tax(n int) returns int language sql immutable as 'select n * 3'",
)
EMPTY_VIEW = (
    "create table own (id int)",
    "create materialized view shares as select 6 / id as share from own",
    "insert into own values (0)",
)
NO_STATISTICS = (
    "create function shown(n int) returns int language plpgsql immutable as 'begin return n; end'",
    "create table seen (id int, n int)",
    "create statistics of_shown on (shown(n)), id from seen",
    "insert into seen values (1, 1), (2, 2)",
    "create or replace function shown(n int) returns int language plpgsql immutable as 'begin return 1 / 0; end'",
)
STRICT = {
    "check": (NEVER_TRUE_NOW, "does not take its rows"),
    "foreign key": (ORPHANS, "gage_t_fkey"),
    "unique": (DUPLICATES, "once"),
    "generated column": (RECOMPUTED, "values of generated column public.inv.gross"),
    "materialized view": (EMPTY_VIEW, "rows of materialized view public.shares (division by zero)"),
    "statistics": (NO_STATISTICS, "statistics of public.seen"),
}


@pytest.mark.representatives("check")
@pytest.mark.parametrize(("made", "named"), STRICT.values(), ids=STRICT)
def test_strict_refuses_where_something_would_give_way_or_be_left_out(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase, made: tuple[str, ...], named: str
) -> None:
    assert run_backup(create_database(*made))[0] == 0
    target = create_database()

    code, message = failed(run_restore(target, "--strict"))

    assert code == 5
    assert named in message
    assert not_restored(run_restore(target))  # what it did is gone on with


def test_functions_that_need_a_search_path_get_one_while_rows_are_loaded_and_are_named(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    source, target = create_database(*PATHS), create_database()

    left = brought_back(run_backup, run_restore, source, target)

    pages = "select id, name, slug from public.pages order by id"
    assert rows(target, pages) == rows(source, pages)
    assert {name: each["statement"] for name, each in left.items()} == {
        "search_path of function public.slugify(text)": (
            "alter function public.slugify(text) set search_path = public;"
        )
    }
    settings = "select proconfig from pg_proc where proname = 'slugify'"
    assert rows(target, settings) == [(None,)]


def test_a_formula_that_fails_leaves_the_values_of_the_backup(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    source, target = create_database(*RAISES), create_database()

    left = brought_back(run_backup, run_restore, source, target)

    assert rows(target, "select * from public.inv order by 1") == [(n, n, 2 * n) for n in range(1, 6)]
    assert {name: each["statement"] for name, each in left.items()} == {
        "CHECK inv_net_check of public.inv": 'alter table public.inv validate constraint "inv_net_check";',
        "formula of gross of public.inv, public.tax(net)": (
            'alter table public.inv drop column "gross", '
            'add column "gross" integer generated always as (public.tax(net)) stored;'
        ),
    }
    assert all("no tax any more" in each["reason"] for each in left.values())


@pytest.mark.exhaustive
def test_a_restore_that_was_ended_names_the_same_when_it_goes_on(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_backup(create_database(*NEVER_TRUE_NOW, *ORPHANS, *PATHS[1:], *KEYED, *RAISES))[0] == 0
    target, other = create_database(), create_database()
    steps = [(staging_tables, "put_conditions_back"), (load, "refresh_views"), (object_creation, "finish")]
    for module, name in steps:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, lost)
            assert run_restore(target)[0] == 1

    assert not_restored(run_restore(target)) == not_restored(run_restore(other)) != []


def lost(*_: object, **__: object) -> None:
    raise psycopg.OperationalError("the connection was lost")


def not_restored(ran: Any) -> list[dict[str, str]]:
    code, record = ran
    assert code == 0, record.error
    found: list[dict[str, str]] = record.result["not_restored"]
    return sorted(found, key=lambda each: each["object"])
