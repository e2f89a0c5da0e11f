"""Definitions mean in the target what they mean in the source, also where their text does not say it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.catalog import catalog_queries
from holdfast.postgresql.connection.address import Address
from tests.sparkjobs.restore.test_rows_first import brought_back, rows
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

CreateOn = Callable[..., Address]

# As citext has it: an operator of its own that a search_path alone finds, and a cast to text without one.
WORDS = (
    "create schema lib",
    "create domain lib.plain as text",
    "create type lib.word as (w text)",
    "create function lib.same(lib.word, lib.word) returns bool language sql immutable as "
    "'select pg_catalog.lower(($1).w) operator(pg_catalog.=) pg_catalog.lower(($2).w)'",
    "create operator lib.= (function = lib.same, leftarg = lib.word, rightarg = lib.word)",
    "set search_path = lib, public",
)
USERS = (
    *WORDS,
    "create table public.users (id int primary key, email lib.word)",
    "create table public.invites (id int primary key, email lib.word)",
    "insert into public.users values (1, row('Ann@X.org')), (2, row('bob@x.org'))",
    "insert into public.invites values (1, row('ann@x.org')), (2, row('bob@x.org'))",
)
ASKING = (
    "create view public.by_using as select u.id, i.id as invite "
    "from public.users u join public.invites i using (email)",
    "create view public.by_nullif as select u.id, nullif(u.email, row('ANN@x.org')::lib.word) as e from public.users u",
    "create view public.on_that as select id from public.by_nullif where e is null",
    "create view public.by_case as select id from public.users where case email when row('ANN@x.org')::lib.word "
    "then true else false end",
    "create view public.distinct_from as select id from public.users where email is distinct from "
    "row('ANN@x.org')::lib.word",
    "create materialized view public.kept as select u.id from public.users u join public.invites i using (email)",
    "create table public.checked (id int, email lib.word check (email is distinct from row('BAD')::lib.word), "
    "is_ann bool generated always as (email is not distinct from row('ANN')::lib.word) stored, "
    "other bool default (row('a')::lib.word is distinct from row('A')::lib.word))",
    "insert into public.checked (id, email) values (1, row('ann')), (2, row('bob'))",
    "create policy mine on public.users using (email is not distinct from row('ANN@X.ORG')::lib.word)",
    "create function public.f() returns trigger language plpgsql as 'begin return new; end'",
    "create trigger t before update on public.users for each row "
    "when (old.email is distinct from new.email) execute function public.f()",
    "create index by_email on public.users ((email is distinct from row('x')::lib.word)) "
    "where email is distinct from row('y')::lib.word",
    "create rule r as on delete to public.invites where old.email is not distinct from row('ANN@x.org')::lib.word "
    "do instead nothing",
    "create statistics public.st on (nullif(email, row('x')::lib.word)), id from public.users",
    "create function public.body(a lib.word, b lib.word) returns bool begin atomic "
    "return a is not distinct from b; end",
    "create domain public.named as lib.word check (value is distinct from row('BAD')::lib.word)",
)
ASKED = """
select i.type || ' ' || i.identity, array_agg(u.identity order by u.identity) from (
  select distinct classid, objid, refclassid, refobjid from pg_depend d where deptype = 'n'
    and refclassid in ('pg_operator'::regclass, 'pg_proc'::regclass)) d,
pg_identify_object(d.classid, d.objid, 0) i, pg_identify_object(d.refclassid, d.refobjid, 0) u
where i.type <> 'operator' group by 1 order by 1
"""


@pytest.mark.parametrize("major", [pytest.param(major, marks=pytest.mark.exhaustive) for major in (14, 15, 17)] + [18])
def test_what_has_no_place_for_an_operators_name_asks_the_same_one(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn, major: int
) -> None:
    source, target = create_on(major, *USERS, *ASKING), create_on(major)

    left = brought_back(run_backup, run_restore, source, target)

    assert left == {}
    assert rows(target, ASKED) == rows(source, ASKED)
    assert len(rows(target, ASKED)) > len(ASKING)
    for view in ("by_using", "on_that", "by_case", "distinct_from", "kept", "checked"):
        query = f"select * from public.{view} order by 1"
        assert rows(target, query) == rows(source, query)
    assert rows(target, "select count(*) from public.by_using") == [(2,)]


@pytest.mark.exhaustive
def test_under_other_names_they_ask_what_is_called_so_there(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn
) -> None:
    source, target = create_on(18, *USERS, *ASKING[:6]), create_on(18)

    left = brought_back(
        run_backup, run_restore, source, target, "--map", "public=other", "--map", "lib=other_lib"
    )  # fmt: skip

    assert {name: each["reason"] for name, each in left.items()} == {}
    assert rows(target, "select count(*) from other.by_using") == [(2,)]
    assert rows(target, "select id from other.kept order by 1") == [(1,), (2,)]


CITEXT = (
    "create extension citext",
    "create table users (id int primary key, email citext)",
    "create table invites (id int primary key, email citext)",
    "insert into users values (1, 'Ann@X.org'), (2, 'bob@x.org')",
    "insert into invites values (1, 'ann@x.org'), (2, 'bob@x.org')",
    "create view accepted as select u.id, i.id as invite from users u join invites i using (email)",
    "create table only_one (email citext check (nullif(email, 'NOBODY') is not null))",
    "create extension cube",  # without a path, none of PostgreSQL's own takes its operator's place
    "create table cubes (c cube)",
    "create view same_cubes as select from cubes join cubes other using (c)",
)


def test_what_would_be_read_as_another_operator_without_a_word_is_not(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn
) -> None:
    source, target = create_on(18, *CITEXT), create_on(18)

    assert brought_back(run_backup, run_restore, source, target) == {}

    assert rows(target, "select count(*) from public.accepted") == [(2,)]
    assert rows(target, ASKED) == rows(source, ASKED)


@pytest.mark.exhaustive
def test_an_archive_that_does_not_say_what_definitions_ask_is_restored_as_pg_restore_does(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_queries, "read_definitions", lambda connection: ())
    source, target = create_on(18, *CITEXT), create_on(18)

    left = brought_back(run_backup, run_restore, source, target)

    assert rows(target, "select count(*) from public.accepted") == [(1,)]
    assert left.keys() == {"view public.same_cubes"}
    assert "operator does not exist: public.cube = public.cube" in left["view public.same_cubes"]["reason"]
