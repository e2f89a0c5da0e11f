"""A database with every kind of object: entries, plans and what they create, judged by PostgreSQL's own pg_dump."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdfast.common.errors import BusyError, HoldfastError, RefusedError
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.parallel_sessions import Sessions
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.dump.dump import dump_schema
from holdfast.postgresql.dump.dump_entries import DumpEntry, read_entries
from holdfast.postgresql.dump.programs import need_program
from holdfast.postgresql.restore.objects import object_creation
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.make_plan import make_plan
from holdfast.postgresql.restore.plan.name_maps import NameMaps
from holdfast.postgresql.restore.plan.plan import NotRestored, RestorePlan
from holdfast.postgresql.restore.plan.target_state import read_target
from holdfast.postgresql.snapshot.snapshot import hold_snapshot

pytestmark = pytest.mark.service

SQL = Path(__file__).parents[4] / "fixtures" / "postgresql"


CLAIM = ledger.TargetClaim("archive", "block", ("*",), (), commit=1, run="run")


def create_tables(target: Address, plan: RestorePlan) -> None:
    with Sessions(target, 2, settings=object_creation.SETTINGS) as sessions:
        object_creation.create_tables(sessions, sessions, plan)


def create_rest(target: Address, plan: RestorePlan, *, sessions: int) -> tuple[NotRestored, ...]:
    with Sessions(target, sessions, settings=object_creation.SETTINGS) as opened:
        return (*object_creation.create_rest(opened, plan), *object_creation.hide_rows(opened, plan))


def begin(target: Address) -> None:
    with connect(target) as session:
        ledger.create_ledger(session, CLAIM)


@dataclass(frozen=True)
class Source:
    """The database, and what a backup keeps of it."""

    server: PostgresServer
    catalog: Catalog
    entries: tuple[DumpEntry, ...]

    @property
    def address(self) -> Address:
        return Address(self.server.url("source"), self.server.password)

    def database(self, name: str, template: str = "template0") -> Address:
        """Make a database anew."""
        with connect(Address(self.server.url(), self.server.password)) as session:
            session.execute(f"drop database if exists {name}".encode())
            session.execute(f"create database {name} template {template}".encode())
        return Address(self.server.url(name), self.server.password)

    def plan(self, target: Address, *globs: str, maps: tuple[str, ...] = ()) -> RestorePlan:
        stored = {table.oid: (0, 0, 0) for table in self.catalog.tables if table.has_rows}
        with connect(target) as session:
            there = read_target(session)
        return make_plan(self.catalog, self.entries, there, globs=globs, maps=NameMaps.parse(maps), stored=stored)

    def create(self, target: Address, *globs: str, maps: tuple[str, ...] = ()) -> RestorePlan:
        plan = self.plan(target, *globs, maps=maps)
        begin(target)
        create_tables(target, plan)
        assert create_rest(target, plan, sessions=2) == ()
        return plan


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    """On a server of its own, for its roles."""
    with PostgresServer() as server:
        address = Address(server.url(), server.password)
        with connect(address) as session:
            session.execute("create database source")
        address = Address(server.url("source"), server.password)
        with connect(address) as session:
            session.execute("set search_path = public")
            for name in ("every_object.sql", "every_object_15.sql", "every_object_18.sql"):
                for part in (SQL / name).read_text("utf-8").split("\n-- (commit)\n"):
                    session.execute(part.encode())
        with hold_snapshot(address) as held:
            dump, _ = dump_schema(address, held.snapshot, server_version=held.catalog.server_version)
            catalog = held.catalog
        yield Source(server, catalog, read_entries(dump, server_version=catalog.server_version))


def schema_of(address: Address, *schemas: str) -> list[str]:
    options = ["--schema-only", "--restrict-key=same", *(f"--schema={each}" for each in schemas)]
    done = subprocess.run(
        [need_program("pg_dump", at_least=18), *options, "--dbname", address.url],
        env=address.environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.splitlines()


def undo(address: Address) -> tuple[str, ...]:
    with connect(address) as session:
        return ledger.undo(session)


SOME = frozenset(
    {
        *("kinds", 'Table with spaces, "quotes" and 日本語', "table", "child", "measured", "measured_2026_h1"),
        *("attached_later", "customers", "orders", "round_a", "of_a_type", "by_our_method"),
    }
)
"""A table of each kind: what others inherit, divide, refer to, or have beside their columns."""

SOME_OR_ALL = pytest.mark.parametrize(
    "names", [pytest.param(SOME, id="some"), pytest.param(frozenset(), id="all", marks=pytest.mark.exhaustive)]
)


def tables(source: Source, names: frozenset[str]) -> list[Table]:
    """Return the tables with these names, or all where there are none."""
    found = [table for table in source.catalog.tables if not set("[]*?") & set(table.label)]
    assert names <= {table.name for table in found}
    return [table for table in found if not names or table.name in names]


def test_entries_are_those_that_pg_restore_lists(source: Source) -> None:
    assert len({entry.id for entry in source.entries}) == len(source.entries) > 200
    found = {(entry.kind, entry.schema, entry.name) for entry in source.entries}
    assert ("TABLE", "Schema with spaces", 'Table with spaces, "quotes" and 日本語') in found
    assert ("FUNCTION", "public", "Odd name(integer, text, integer[])") in found
    assert ("CONSTRAINT", "owned", "customers one_at_a_time") in found
    (heap,) = [entry for entry in source.entries if entry.name == "by_our_method" and entry.kind == "TABLE"]
    assert "SET default_table_access_method = our_heap;" in heap.settings


def test_every_table_has_an_entry_with_its_oid(source: Source) -> None:
    found = {
        entry.oid: (entry.schema, entry.name) for entry in source.entries if entry.kind in ("TABLE", "FOREIGN TABLE")
    }
    assert found == {table.oid: (table.table_schema, table.name) for table in source.catalog.tables}


def test_everything_under_another_schema_is_what_renaming_the_schema_gives(source: Source) -> None:
    target = source.database("moved")
    plan = source.create(target, maps=("public=moved", "select=Sélect 2"))
    assert {each.what.partition(" ")[0] for each in plan.not_restored} == {"default", "event", "publication"}
    with connect(target) as session:
        ledger.drop_ledger(session)
    truth = source.database("truth", "source")
    with connect(truth) as session:
        for kind, query in (
            ("event trigger", "select evtname from pg_event_trigger"),
            ("publication", "select pubname from pg_publication"),
        ):
            for (name,) in session.execute(query.encode()).fetchall():
                session.execute(f"drop {kind} {ident(name)}".encode())
        session.execute("alter schema public rename to moved; alter schema moved owner to postgres")
        session.execute('alter schema "select" rename to "Sélect 2"')
        session.execute('alter default privileges for role "Torture ""owner""" grant execute on functions to public')
        session.execute("create schema public")
        extensions = "select extname from pg_extension where extnamespace = 'moved'::regnamespace"
        for (name,) in session.execute(extensions).fetchall():
            session.execute(f"alter extension {name} set schema public".encode())
    for schema in ("moved", "Sélect 2", "owned", "Schema with spaces", "Schéma_ünïcode_日本語"):
        assert statements(target, schema) == statements(truth, schema)


def statements(address: Address, schema: str) -> list[str]:
    """What pg_dump says of all in a schema; what it says of `public` itself is never restored."""
    lines = schema_of(address, f'"{schema}"')
    return [line for line in lines if line and not line.startswith("--") and " SCHEMA moved " not in line]


@SOME_OR_ALL
def test_each_table_alone_comes_into_an_empty_database_and_is_taken_back(source: Source, names: frozenset[str]) -> None:
    target = source.database("alone")
    before = schema_of(target)
    for table in tables(source, names):
        source.create(target, table.label)
        assert undo(target)
    assert schema_of(target) == before


def test_everything_comes_as_it_was_and_each_step_is_done_once(source: Source) -> None:
    target = source.database("everything")
    plan = source.create(target)
    assert plan.beside is False
    for _ in ("again", "and again"):
        create_tables(target, plan)
        assert create_rest(target, plan, sessions=4) == ()
    with connect(target) as session:
        assert session.execute("select count(*) from holdfast_restore.created").fetchone() == (0,)
        assert object_creation.finish(session, plan) == ()
    assert schema_of(target) == schema_of(source.address)


def test_what_an_error_ends_goes_on_behind_what_is_done(source: Source) -> None:
    target = source.database("halfway")
    plan = replace(source.plan(target), is_strict=True)
    begin(target)
    create_tables(target, plan)
    with connect(target) as session:
        session.execute("insert into public.unlogged_table values (1), (1)")
        with pytest.raises(RefusedError, match=r"unlogged_table_pkey could not be created: .*is duplicated"):
            create_rest(target, plan, sessions=1)
        built = "select count(*) from holdfast_restore.done where step like '% CONSTRAINT'"
        before = session.execute(built).fetchone()
        session.execute("truncate public.unlogged_table")
        create_rest(target, plan, sessions=2)
        after = session.execute(built).fetchone()
        assert before
        assert after
        assert 0 < before[0] < after[0]
        object_creation.finish(session, plan)
    assert schema_of(target) == schema_of(source.address)


def name_of(table: Table) -> str:
    return f"{ident(table.table_schema)}.{ident(table.name)}"


@SOME_OR_ALL
def test_each_table_comes_beside_itself_under_another_name_and_is_taken_back(
    source: Source, names: frozenset[str]
) -> None:
    live, empty = source.database("live", "source"), source.database("nothing")
    before = schema_of(live)
    for table in tables(source, names):
        renamed = [
            f"{name_of(each.source)}={ident(each.source.table_schema)}.{ident(copy_of(each.source.name))}"
            for each in source.plan(empty, table.label).tables
            if each.source.oid == table.oid or each.source.bound  # not the parents that a child brings
        ]
        source.create(live, table.label, maps=tuple(renamed))
        assert undo(live)
    assert schema_of(live) == before


def copy_of(name: str) -> str:
    return f'The "copy" of {name}'.encode()[:63].decode("utf-8", "ignore")


def test_what_is_in_the_way_ends_a_restore_beside_it_and_nothing_stays(source: Source) -> None:
    target = source.database("failing")
    plan = source.plan(target, "public.kinds")
    with connect(target) as session:
        session.execute("create type public.mood as enum ('other')")
    before = schema_of(target)
    begin(target)
    with pytest.raises(HoldfastError, match=r"^type public\.mood could not be created: .* already exists"):
        create_tables(target, plan)
    undo(target)
    assert schema_of(target) == before


def test_defaults_of_the_target_add_no_privileges(source: Source) -> None:
    target = source.database("privileges")
    with connect(target) as session:
        session.execute("alter default privileges grant all on tables to torture_reader, public")
        session.execute("alter default privileges grant all on sequences to torture_reader")
    source.create(target, "public.wide", "public.kinds")
    with connect(target) as session:
        rights = "select has_table_privilege('torture_reader', 'public.wide', 'select'), has_column_privilege("
        rights += "'torture_reader', 'public.kinds', 'price', 'select'), has_sequence_privilege('torture_reader', "
        rights += "'public.kinds_id_seq', 'usage')"
        assert session.execute(rights.encode()).fetchone() == (False, True, False)


def test_what_others_use_by_now_is_not_dropped(source: Source) -> None:
    target = source.database("used")
    source.create(target, "public.wide")
    with connect(target) as session:
        session.execute("create view public.mine as select * from public.wide")
    with pytest.raises(RefusedError, match=r"left table public\.wide behind, .* view mine|public\.mine depends on"):
        undo(target)
    with connect(target) as session:
        assert session.execute("select count(*) from public.mine").fetchone() == (0,)
        assert ledger.read_ledger(session) is not None


def test_what_others_read_is_not_waited_for_endlessly(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "LOCK_WAIT", "100ms")
    target = source.database("read")
    source.create(target, "public.wide")
    with connect(target) as reader, reader.transaction():
        reader.execute("select count(*) from public.wide")
        with pytest.raises(BusyError, match="is in use, so that it cannot be dropped"):
            undo(target)
    assert undo(target) == ("table public.wide",)


def test_what_others_create_meanwhile_is_never_taken_for_ours(source: Source) -> None:
    target = source.database("meanwhile")
    begin(target)
    with connect(target) as session, connect(target) as other, session.transaction(), ledger.noted(session):
        session.execute("create table public.ours (id int)")
        other.execute("create table public.theirs (id int)")
    assert undo(target) == ("table public.ours",)
    with connect(target) as session:
        assert session.execute("select count(*) from public.theirs").fetchone() == (0,)


def test_a_key_waits_for_a_busy_table_of_the_target_only_so_long(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_creation, "LOCK_WAIT_S", 0.1)
    target = source.database("busy")
    assert [each.target.name for each in source.create(target, "public.round_b").tables] == ["round_b"]
    with connect(target) as session:
        ledger.drop_ledger(session)
    plan = source.plan(target, "public.round_a")
    begin(target)
    create_tables(target, plan)
    with connect(target) as writer, writer.transaction():
        writer.execute("insert into public.round_b values (1)")
        (left,) = create_rest(target, plan, sessions=1)
    assert (left.what, "lock timeout" in left.reason) == ("foreign key public.round_a to_b", True)
