"""An owner of a table who would have a backup run code of theirs by reading it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.owners_code import owners_code, readable_columns, refuse_owners_code
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.postgresql.snapshot.table_reader import Piece, SnapshotTableReader, cut, open_reader
from holdfast.postgresql.values.decode import Decoder
from tests.support.jobs.command_here import run_here
from tests.support.servers.versions import older_server, running

pytestmark = pytest.mark.service

TENANT = """
do $$ begin create role reading_tenant; exception when duplicate_object then null; end $$;
create schema tenant authorization reading_tenant;
set role reading_tenant;
create function tenant.word(text) returns text language plpgsql immutable as $$
  begin
    if current_user <> 'reading_tenant' then raise exception 'code of an owner ran as %', current_user; end if;
    return $1;
  end $$;
create function tenant.inlined(text) returns text language sql immutable as $$ select tenant.word($1) $$;
create domain tenant.checked as text check (tenant.word('x') = 'x');
create table tenant.t (id int, word text);
insert into tenant.t select i, 'w' || i from generate_series(1, 20000) i;
"""
"""Its function fails where it runs for anybody but its owner: what reads the table without an error has not run it."""

CODE = {
    "index": "create index on tenant.t ((tenant.word('x') || word))",
    "inlined function": "create index on tenant.t ((tenant.inlined('x') || word))",
    "predicate": "create index on tenant.t (id) where tenant.word('x') = 'x'",
    "statistics": "create statistics tenant.s on (tenant.word('x') || word), id from tenant.t",
    "policy": "alter table tenant.t enable row level security; "
    "create policy p on tenant.t using (tenant.word('x') = 'x')",
    "check": "alter table tenant.t add check (tenant.word('x') = 'x' or word = '')",
    "default": "alter table tenant.t add more text default tenant.word('x')",
    "domain": "alter table tenant.t add more tenant.checked default 'y'",
    "exclusion": "alter table tenant.t add exclude using btree ((tenant.word('x') || id) with =)",
    "generated column": "alter table tenant.t add more text generated always as (word || tenant.word('x')) stored",
    "generated column and index": "alter table tenant.t add more text generated always as (word || 'x') stored; "
    "create index on tenant.t ((tenant.word('x') || word))",
    "partition": "create table tenant.root (id int, word text) partition by range ((id + length(tenant.word('')))); "
    "alter table tenant.root attach partition tenant.t for values from (0) to (30000)",
}
"""Places where PostgreSQL keeps an expression of an owner's, of a table that is read."""


@pytest.fixture
def tenant(address: Address) -> Iterator[Address]:
    with connect(address) as session:
        session.execute(TENANT.encode())
    yield address
    with connect(address) as session:
        session.execute(b"drop owned by reading_tenant cascade; drop role reading_tenant")


def put(address: Address, statement: str) -> None:
    with connect(address) as session:
        session.execute(f"set role reading_tenant; {statement}".encode())


def read(address: Address) -> int:
    """Read the tenant's table as a backup does, in pieces where it may be; return how many rows came."""
    with connect(address) as now:
        found = owners_code(now)
    with hold_snapshot(address) as held:
        (table,) = (table for table in readable_columns(held.catalog, found).with_rows() if table.name == "t")
        assert table.pages > 64
        decoder = Decoder(table.columns)
        pieces = cut(table, 8192 * 80, queries=table.oid not in found)
        assert (len(pieces) == 1) == (table.oid in found)
        with open_reader(address, held.snapshot, [table]) as reader:
            rows: int = sum(batch.num_rows for piece in pieces for batch in reader.batches(piece, decoder))
    with connect(address) as now:
        refuse_owners_code(owners_code(now), {table.oid} if len(pieces) > 1 else set())
    return rows


def test_a_backup_runs_no_code_of_an_owner(tenant: Address, tmp_path: Path) -> None:
    for number, statement in enumerate(CODE.values()):
        schema = f"tenant_{number}"
        with connect(tenant) as session:
            session.execute(
                TENANT.replace("schema tenant", f"schema {schema}").replace("tenant.", f"{schema}.").encode()
            )
        put(tenant, statement.replace("tenant.", f"{schema}."))
    archive = str(tmp_path / "archive")
    assert run_here("init", archive).code == 0
    done = run_here("backup", archive, "--source", tenant.url, address=tenant)
    assert done.code == 0, done.err


@pytest.mark.representatives("index", "inlined function", "statistics")
@pytest.mark.parametrize("code", CODE)
def test_a_table_large_enough_for_pieces_is_cut_only_where_nothing_of_its_owner_is_planned(
    tenant: Address, code: str
) -> None:
    put(tenant, CODE[code])
    assert read(tenant) == 20000


@pytest.mark.exhaustive
@pytest.mark.parametrize("major", [14, 15, 16, 17])
def test_no_server_runs_code_of_an_owner_where_it_is_read(major: int) -> None:
    with running(older_server(major)) as server:
        for number, statement in enumerate(CODE.values()):
            with psycopg.connect(server.conninfo(), autocommit=True) as session:
                session.execute(f"create database tenant_{number}".encode())
            address = Address(server.url(f"tenant_{number}"), server.password)
            with connect(address) as session:
                session.execute(TENANT.encode())
            put(address, statement)
            assert read(address) == 20000


def test_a_query_would_run_it(tenant: Address) -> None:
    """The attack itself: without this, the other tests would prove nothing."""
    for code in ("index", "inlined function", "predicate", "statistics"):
        put(tenant, CODE[code])
        with connect(tenant) as session, pytest.raises(psycopg.Error, match="code of an owner ran as postgres"):
            session.execute(b"select word from only tenant.t where ctid >= '(1,0)'")
        put(tenant, "drop table tenant.t; create table tenant.t (id int, word text)")
        put(tenant, "drop statistics if exists tenant.s")


THIEF = """
create function tenant.never(tid, tid) returns bool language sql immutable as 'select false';
create function tenant.never(text, text) returns bool language sql immutable as 'select false';
create operator tenant.>= (leftarg = tid, rightarg = tid, function = tenant.never);
create operator tenant.< (leftarg = tid, rightarg = tid, function = tenant.never);
create operator tenant.= (leftarg = text, rightarg = text, function = tenant.never);
create function tenant.steal(text) returns text language plpgsql immutable as $$
  begin perform set_config('search_path', 'tenant, pg_catalog', false); return $1; end $$;
create index on tenant.t ((tenant.steal('x') || word));
"""


def test_operators_of_an_owner_take_no_rows_and_a_session_that_they_change_is_not_believed(tenant: Address) -> None:
    """The owner makes an index between two pieces: the planner then runs its function in the session that reads."""
    with hold_snapshot(tenant) as held:
        (table,) = (table for table in held.catalog.with_rows() if table.name == "t")
        decoder = Decoder(table.columns)
        first, second, *others = cut(table, 8192 * 80, queries=True)

        def count(reader: SnapshotTableReader, *pieces: Piece) -> int:
            return sum(batch.num_rows for piece in pieces for batch in reader.batches(piece, decoder))

        def all_pieces() -> int:
            with open_reader(tenant, held.snapshot, [table]) as reader:
                rows = count(reader, first)
                put(tenant, THIEF)
                rows += count(reader, second, *others)
                assert rows == 20000
            return rows

        with pytest.raises(RefusedError, match="search_path is 'tenant, pg_catalog' and was ''"):
            all_pieces()
        with connect(tenant) as now, pytest.raises(RefusedError, match="which belongs to reading_tenant"):
            refuse_owners_code(owners_code(now), {table.oid})


def test_values_of_generated_columns_that_only_a_query_gives_are_left_out_by_name(
    tenant: Address, tmp_path: Path
) -> None:
    put(tenant, CODE["generated column and index"])
    archive = str(tmp_path / "archive")
    assert run_here("init", archive).code == 0
    done = run_here("backup", archive, "--source", tenant.url, "--json", address=tenant)
    assert done.code == 0, done.err
    said = [each for each in json.loads(done.out)["not_included"] if "generated column" in each]
    assert len(said) == 1
    assert "tenant.t.more, which a restore computes again" in said[0]


@pytest.fixture(scope="module")
def listening() -> Iterator[PostgresServer]:
    """A server that writes down each statement."""
    with PostgresServer(settings={"log_statement": "all", "log_line_prefix": "%a|"}) as server:
        yield server


def statements(server: PostgresServer) -> list[str]:
    assert server._base is not None
    log = (server._base / "log").read_text()
    found = re.findall(r"^[^\n|]*\|LOG:  (?:statement|execute [^:]*): ((?:.|\n\t)*)", log, re.M)
    return [" ".join(each.split()) for each in found]


OBJECTS = """
create schema walked;
create type walked.mood as enum ('good');
create domain walked.short as text check (length(value) < 9);
create table walked.plain (id int primary key, word text, at timestamptz);
create table walked.typed (id int primary key, m walked.mood, s walked.short, tags text[], j jsonb);
create table walked.parts (id int primary key, word text) partition by range (id);
create table walked.part partition of walked.parts for values from (0) to (9);
create table walked.heir () inherits (walked.plain);
create table walked.expressed (id int primary key, word text);
create index on walked.expressed (lower(word));
create view walked.seen as select * from walked.plain;
create materialized view walked.kept as select * from walked.plain;
create sequence walked.numbers;
insert into walked.plain select i, 'w', now() from generate_series(1, 9) i;
insert into walked.typed values (1, 'good', 'x', '{a}', '{}');
insert into walked.part values (1, 'w');
"""

OUR_SCHEMAS = ("pg_catalog", "information_schema")


def walk(server: PostgresServer, name: str, tmp_path: Path, *arguments: str) -> list[str]:
    """Return the statements in which a full backup, then one of changes, name an object of the source."""
    address = Address(server.url(name), server.password)
    archive = str(tmp_path / "archive")
    assert run_here("init", archive).code == 0
    before = len(statements(server))
    for kind in ("full", "changes", "changes"):
        done = run_here("backup", archive, "--source", address.url, "--kind", kind, *arguments, address=address)
        assert done.code == 0, done.err
        with connect(address) as session:
            session.execute(b"insert into walked.plain select max(id) + 1, 'more' from walked.plain")
    return [each for each in statements(server)[before:] if re.search(r'\bwalked\b"?\.', each)]


def test_no_statement_of_a_backup_plans_a_table_of_the_source(listening: PostgresServer, tmp_path: Path) -> None:
    with psycopg.connect(listening.conninfo(), autocommit=True) as session:
        session.execute("create database walked")
    with psycopg.connect(listening.conninfo("walked"), autocommit=True) as session:
        session.execute(OBJECTS.encode())
    named = walk(listening, "walked", tmp_path)
    plain = re.compile(
        r"(LOCK TABLE [^;()]* IN ACCESS SHARE MODE"
        r"|(COPY \"walked\"\.\"\w+\" \([^()]*\) TO STDOUT( \(FORMAT binary\))?(; )?)+"
        r"|(create|alter) publication .*|insert into walked\.plain .*)",
        re.I,
    )
    copied = {name for each in named for name in re.findall(r'COPY "walked"\."(\w+)"', each)}
    assert copied == {"plain", "typed", "part", "heir", "expressed"}
    assert [each for each in named if not plain.fullmatch(each)] == []
