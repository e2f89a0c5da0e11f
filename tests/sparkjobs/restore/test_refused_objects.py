"""What the target refuses before the rows, or knows no more, is left out and named: it ends no restore, whoever's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.sparkjobs.restore.test_rows_first import brought_back, rows
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.servers.versions import running

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]

EXTENSIONS = {
    # As postgis_topology and postgis_tiger_geocoder: it reads the path that RESET gives, and leaves one behind.
    "far.control": "default_version = '1.0'\nschema = far\nrelocatable = false\n",
    "far--1.0.sql": """
        create type far.place as (x int, y int);
        do $$ declare path text := (select reset_val from pg_settings where name = 'search_path'); begin
          execute 'set search_path = far, ' || path;
          execute format('alter database %I set search_path = %s, far', current_database(), path);
        end $$;
        create table far.kept (id int);
        select pg_catalog.pg_extension_config_dump('far.kept', '');
    """,
    # As pg_cron and pgaudit.
    "preloaded.control": "default_version = '1.0'\nschema = preloaded\nrelocatable = false\n",
    "preloaded--1.0.sql": """
        do $$ begin
          if current_setting('shared_preload_libraries') = '' and current_setting('preloaded.there', true) is null then
            raise exception 'preloaded must be loaded via shared_preload_libraries' using errcode = '55000';
          end if;
        end $$;
        create table preloaded.jobs (id int generated always as identity, job text);
        select pg_catalog.pg_extension_config_dump('preloaded.jobs', '');
        create function preloaded.next() returns int language sql as 'select 1';
    """,
    # As pg_fact_loader: others may not enter its schema.
    "closed.control": "default_version = '1.0'\nschema = closed\nrelocatable = false\n",
    "closed--1.0.sql": """
        create sequence closed.numbers;
        create table closed.kept (id int default nextval('closed.numbers'));
        select pg_catalog.pg_extension_config_dump('closed.kept', '');
        select pg_catalog.pg_extension_config_dump('closed.numbers', '');
    """,
    # As pg_stat_statements: a newer version has columns of other names.
    "grown.control": "default_version = '2.0'\nrelocatable = true\n",
    "grown--1.0.sql": "create view seen as select 1 as id, 1 as old;",
    "grown--2.0.sql": "create view seen as select 1 as id, 1 as fresh;",
}


@pytest.fixture(scope="module")
def extended() -> Iterator[PostgresServer]:
    """A server with extensions of ours. Of root's, it runs as another user, who may not enter pytest's folders."""
    with TemporaryDirectory(prefix="holdfast-extensions-") as name:
        folder = Path(name)
        (folder / "extension").mkdir()
        for file, text in EXTENSIONS.items():
            (folder / "extension" / file).write_text(text)
        folder.chmod(0o755)
        settings = {"wal_level": "replica", "extension_control_path": f"$system:{folder}"}
        with running(PostgresServer(settings=settings)) as server:
            yield server


@pytest.fixture
def create(extended: PostgresServer) -> CreateDatabase:
    """Makes a database there, runs statements in it and returns its address."""
    numbers = iter(range(1000))

    def make(*statements: str, owner: str = "") -> Address:
        with connect(Address(extended.url(), extended.password)) as session:
            name = f"db_{session.info.backend_pid}_{next(numbers)}"
            session.execute(f"create database {name}".encode())
            if owner:
                if session.execute("select from pg_roles where rolname = %s", (owner,)).fetchone() is None:
                    session.execute(f"create role {owner} login password '{owner}'".encode())
                session.execute(f"alter database {name} owner to {owner}".encode())
        with psycopg.connect(extended.conninfo(name), autocommit=True) as session:  # under the path that users have
            for statement in statements:
                session.execute(statement.encode())
        return Address(extended.url(name), extended.password)

    return make


def test_a_schema_that_is_there_gets_its_owner_only_where_everything_is_restored(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase
) -> None:
    create(owner="dbo")
    source = create("create table t (id int primary key)", "alter schema public owner to dbo")
    whole, beside = create(), create()
    query = "select nspowner::regrole::text from pg_namespace where nspname = 'public'"
    before = rows(beside, query)

    assert brought_back(run_backup, run_restore, source, whole) == {}
    assert run_restore(beside, "--tables", "public.*")[0] == 0

    assert rows(whole, query) == [("dbo",)] != before
    assert rows(beside, query) == before


KEPT = {
    *("configuration rows of far.kept", "configuration rows of closed.kept"),
    *("where sequence closed.numbers stood", "owner of schema closed", "owner of schema left_by_one"),
}


def as_owner(address: Address, owner: str) -> Address:
    return Address(address.url.replace("postgres@", f"{owner}@"), owner)


FAR = (
    "create extension far",
    "create table public.t (id int primary key, p far.place)",
    "insert into public.t values (1, (2, 3))",
)


def test_an_extension_that_reads_the_search_path_is_created(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase
) -> None:
    source, target = create(*FAR), create()

    assert brought_back(run_backup, run_restore, source, target) == {}

    assert rows(target, "select (p).y from public.t") == [(3,)]
    query = "select setconfig from pg_db_role_setting s join pg_database d on d.oid = setdatabase where datname = "
    assert rows(target, f"{query}'{target.database}'") == [(['search_path="$user", public, far'],)]


@pytest.mark.representatives("an owner")
@pytest.mark.parametrize("owner", ["", "dbo"], ids=["a superuser", "an owner"])
def test_a_target_in_which_an_administrator_has_made_extensions_is_empty(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase, owner: str
) -> None:
    made = (
        *("create schema ext", "create extension grown schema ext", "create extension far"),
        *("create extension closed", "create schema left_by_one"),
        *("grant usage on schema ext, far to public", "grant select on ext.seen to public"),
    )
    source, target = create(*made, *FAR[1:]), create(*made, owner=owner)
    with connect(source) as session:
        session.execute("alter table public.t owner to dbo" if owner else "select 1")
        session.execute("create view public.v as select * from ext.seen")

    left = brought_back(run_backup, run_restore, source, as_owner(target, owner) if owner else target)

    assert rows(target, "select (p).y from public.t") == [(3,)]
    assert rows(target, "select * from public.v") == [(1, 1)]
    assert set(left) <= {"owner of schema ext", "owner of view public.v", *KEPT}
    assert bool(left) == bool(owner)


def test_a_target_with_something_of_its_own_is_not(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase
) -> None:
    target = create("create schema ext", "create extension grown schema ext", "create type ext.own as (n int)")
    assert run_backup(create(*FAR))[0] == 0

    code, message = failed(run_restore(target))

    assert (code, "is not empty" in message) == (5, True)


@pytest.mark.representatives("an owner")
@pytest.mark.parametrize("owner", ["", "dbo"], ids=["a superuser", "an owner"])
def test_an_extension_that_needs_a_library_is_left_out_with_what_needs_it(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase, owner: str
) -> None:
    source = create(
        "set preloaded.there = 'yes'",
        "create extension preloaded",
        "comment on extension preloaded is 'ours'",
        "insert into preloaded.jobs (job) values ('nightly')",
        "create view due as select preloaded.next()",
        "create table t (id int primary key)",
        "insert into t values (1)",
    )
    target = create(owner=owner)
    with connect(source) as session:
        session.execute("alter table public.t owner to dbo" if owner else "select 1")

    left = brought_back(run_backup, run_restore, source, as_owner(target, owner) if owner else target)

    assert rows(target, "select * from public.t") == [(1,)]
    assert left["extension preloaded"]["statement"].startswith("CREATE EXTENSION IF NOT EXISTS preloaded")
    reason = "permission denied" if owner else "must be loaded via shared_preload_libraries"
    assert reason in left["extension preloaded"]["reason"]
    what = {
        "extension preloaded",
        "comment EXTENSION preloaded",
        "view public.due",
        "configuration rows of preloaded.jobs",
    }
    assert {name for name in left if not name.startswith("owner of ")} == what


@pytest.mark.representatives("a login")
@pytest.mark.parametrize("options", [(), ("--trust-source",)], ids=["a login", "a superuser"])
def test_a_view_that_a_newer_extension_does_not_answer_is_left_out_with_what_reads_it(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase, options: tuple[str, ...]
) -> None:
    source = create(
        "create extension grown version '1.0'",
        "create view slow as select old from seen",
        "create view slower as select * from slow",
        "create materialized view slowest as select * from slow",
        "create unique index on slowest (old)",
        "create function f() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger g instead of insert on slower for each row execute function f()",
        "grant select on slow, slowest to public",
        "create table t (id int primary key)",
        "insert into t values (1)",
    )
    target = create()

    left = brought_back(run_backup, run_restore, source, target, *options)

    assert rows(target, "select * from public.t") == [(1,)]
    assert left.keys() >= {"view public.slow", "view public.slower", "materialized view public.slowest"}
    assert all("slow" in name for name in left)
    assert "old" in left["view public.slow"]["reason"]
    code, message = failed(run_restore(create(), "--strict", *options))
    assert (code, "view public.slow could not be created" in message) == (5, True)


@pytest.mark.representatives("a login")
@pytest.mark.parametrize("options", [(), ("--trust-source",)], ids=["a login", "a superuser"])
def test_a_grant_whose_grantor_may_not_enter_the_schema_any_more_is_named(
    run_backup: RunJob, run_restore: RunJob, create: CreateDatabase, options: tuple[str, ...]
) -> None:
    create(owner="lender")
    create(owner="reader")
    source = create(
        "create schema s",
        "create table s.t (id int primary key)",
        "insert into s.t values (1)",
        "grant usage on schema s to lender",
        "grant select on s.t to lender with grant option",
        "set role lender",
        "grant select on s.t to reader",
        "reset role",
        "revoke usage on schema s from lender",
    )
    target = create()

    left = brought_back(run_backup, run_restore, source, target, *options)

    assert rows(target, "select * from s.t") == [(1,)]
    assert [("reader" in each["statement"], "permission denied" in each["reason"]) for each in left.values()] == [
        (True, True)
    ]
