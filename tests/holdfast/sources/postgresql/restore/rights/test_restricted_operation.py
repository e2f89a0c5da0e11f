"""Code of a source that runs as things are created has no more rights than their owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.sources.postgresql.catalog.own_objects import LEDGER
from holdfast.sources.postgresql.dump.toc import DumpEntry
from holdfast.sources.postgresql.restore.plan.plan import RestorePlan
from holdfast.sources.postgresql.restore.rights.restricted_operation import is_compared_by_code, run_as_owner, runs_code
from tests.support.databases.planned_shop import entry

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

OBJECTS = """
create schema lib;
create function lib.ask(int) returns int language sql immutable as 'select $1';
create domain lib.even as int check (value % 2 = 0); create domain lib.any_int as int;
create type lib.mood as enum ('sad'); create type lib.pair as (a lib.even, b int);
create table public.by_number (id int) partition by range (id);
create table public.by_mood (m lib.mood) partition by list (m);
create table public.by_code (id int) partition by range (lib.ask(id));
create table public.plain (id int); create table public.typed (d lib.even);
create type lib.text_like; create function lib.make(cstring) returns lib.text_like language internal immutable strict
  as 'textin'; create function lib.show(lib.text_like) returns cstring language internal immutable strict as 'textout';
create type lib.text_like (input = lib.make, output = lib.show, like = text);
create function lib.cast_it(lib.text_like) returns text language sql immutable as 'select ''x''';
create cast (lib.text_like as text) with function lib.cast_it(lib.text_like) as implicit;
create table public.cast_by_code (x lib.text_like); create domain lib.above as lib.text_like;
create table public.cast_by_domain (x lib.above);
"""


@pytest.fixture
def session(undone: Session) -> Session:
    undone.execute(OBJECTS)
    return undone


def attached(root: str) -> DumpEntry:
    sql = f"ALTER TABLE ONLY public.{root} ATTACH PARTITION public.part FOR VALUES …;"
    return entry(1, "TABLE ATTACH", "part", sql=sql)


def table(columns: str, more: str = "") -> DumpEntry:
    return entry(1, "TABLE", "t", sql=f"CREATE TABLE public.t ({columns}){more};")


@pytest.mark.parametrize(
    ("made", "runs"),
    [
        (entry(1, "CHECK CONSTRAINT", "t late", sql="ALTER TABLE public.t ADD CONSTRAINT late CHECK (true);"), True),
        (entry(1, "AGGREGATE", "a(int)", sql="CREATE AGGREGATE lib.a(int) (SFUNC = f, INITCOND = '0');"), True),
        (entry(1, "AGGREGATE", "a(int)", sql="CREATE AGGREGATE lib.a(int) (SFUNC = f);"), False),
        (attached("by_number"), False),
        (attached("by_mood"), True),
        (attached("by_code"), True),
        (table("a int"), False),
        (table("a int, b int GENERATED ALWAYS AS (a + 1) STORED"), False),
        (table("a int, b int GENERATED ALWAYS AS (lib.ask(a)) STORED"), True),
        (table("a int", " PARTITION BY RANGE (lib.ask(a))"), True),
        (table("a int DEFAULT lib.ask(1)"), False),
        (table("a lib.even DEFAULT '2'::lib.even"), True),
        (table("a lib.pair DEFAULT '(2,1)'::lib.pair"), True),
        (table("a lib.any_int DEFAULT '2'::lib.any_int"), False),
        (table("a text DEFAULT 'x'::text"), False),
        (table("a lib.even DEFAULT 2"), False),
    ],
    ids=lambda value: value if isinstance(value, bool) else value.sql[:60],
)
def test_what_may_run_functions_of_the_source_is_known_before_it_is_created(
    session: Session, made: DumpEntry, runs: bool
) -> None:
    assert runs_code(session, made) is runs


@pytest.mark.parametrize(
    ("name", "compared"), [("plain", False), ("typed", False), ("cast_by_code", True), ("cast_by_domain", True)]
)
def test_a_key_is_compared_by_code_where_its_columns_are_cast_by_it(
    session: Session, name: str, compared: bool
) -> None:
    key = entry(1, "FK CONSTRAINT", f"{name} to", sql=f"ALTER TABLE ONLY public.{name} ADD CONSTRAINT to …;")
    assert is_compared_by_code(session, key) is compared


CODE = """
create function lib.who(int) returns int language plpgsql as $$
  begin
    begin
      reset role;
      create role operation_taken superuser;
    exception when insufficient_privilege then null;
    end;
    insert into public.seen select rolname, rolsuper from pg_catalog.pg_roles where rolname = current_user;
    return $1;
  end $$;
create table public.seen (who text, super bool);
grant insert on public.seen to public;
create schema owned authorization operation_owner;
"""

MADE = (
    "CREATE TABLE owned.t (a int, b int DEFAULT 1);\nALTER TABLE owned.t ADD CONSTRAINT late CHECK (true);\n"
    "SELECT lib.who(1);\nALTER TABLE owned.t OWNER TO {owner};"
)


@pytest.fixture
def owners(session: Session) -> Iterator[Session]:
    """The session, with an ordinary owner and a log-in that is a member of it."""
    session.execute(
        "create role operation_owner; create role operation_login; grant operation_owner to operation_login"
    )
    session.execute(CODE)
    yield session
    session.execute("drop owned by operation_owner, operation_login cascade")
    session.execute("drop role operation_owner, operation_login")


def plan(*entries: DumpEntry) -> RestorePlan:
    return RestorePlan(
        tables=(), entries=entries, sequences=(), materialized_views=(), roles=(), login="operation_login"
    )


@pytest.mark.parametrize(("owner", "ran_as"), [("operation_owner", "operation_owner"), ("postgres", "operation_login")])
def test_code_runs_as_an_ordinary_owner_or_else_as_the_log_in(owners: Session, owner: str, ran_as: str) -> None:
    owners.execute("grant usage on schema lib to operation_owner, operation_login")
    made = replace(entry(1, "TABLE", "t", sql=MADE.format(owner=owner), oid=7), schema="owned")
    with owners.transaction():
        run_as_owner(owners, plan(made), made)
    assert owners.execute("select * from public.seen").fetchall() == [(ran_as, False)]
    assert owners.execute(
        "select pg_get_userbyid(relowner) from pg_class where oid = 'owned.t'::regclass"
    ).fetchone() == (owner,)
    assert owners.execute("select count(*) from pg_roles where rolname = 'operation_taken'").fetchone() == (0,)
    left = f"select to_regclass('{LEDGER}.running'), to_regproc('{LEDGER}.run')"
    assert owners.execute(left).fetchone() == (None, None)


def test_rights_that_the_owner_lacks_are_lent_for_that_moment(owners: Session) -> None:
    owners.execute("revoke create on schema public from public; create table public.above (id int)")
    made = entry(
        1, "TABLE", "below", sql="CREATE TABLE public.below (a int DEFAULT lib.who(1));\n"
        "SELECT lib.who(1);\nALTER TABLE public.below OWNER TO operation_owner;", oid=7,
    )  # fmt: skip
    with owners.transaction():
        run_as_owner(owners, plan(made), made)
    assert owners.execute("select who from public.seen").fetchall() == [("operation_owner",)]
    rights = (
        "select has_schema_privilege('operation_owner', 'public', 'create'), "
        "has_schema_privilege('operation_owner', 'lib', 'usage')"
    )
    assert owners.execute(rights).fetchone() == (False, False)


def test_what_belongs_to_a_table_runs_as_the_tables_owner(owners: Session) -> None:
    owners.execute("create table owned.t (a int); alter table owned.t owner to operation_owner")
    made = "CREATE TABLE owned.t ();\nALTER TABLE owned.t OWNER TO operation_owner;"
    base = replace(entry(1, "TABLE", "t", sql=made), schema="owned")
    sql = "ALTER TABLE owned.t ADD CONSTRAINT late CHECK (lib.who(a) > 0);\nINSERT INTO owned.t VALUES (1);"
    late = replace(entry(2, "CHECK CONSTRAINT", "t late", [1], sql), schema="owned")
    with owners.transaction():
        run_as_owner(owners, plan(base, late), late)
    assert owners.execute("select who from public.seen").fetchall() == [("operation_owner",)]
