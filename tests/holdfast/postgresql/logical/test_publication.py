"""What enters a publication, so that no change by the tables' owner ever fails because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import BusyError, RefusedError
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import publication
from holdfast.postgresql.logical.publication import followed, plan_publication, read_publication, reconcile
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

Connection = psycopg.Connection[tuple[Any, ...]]
NAME = "holdfast_0123456789abcdef"


@pytest.fixture
def session(address: Address) -> Iterator[Connection]:
    with connect(address) as opened:
        opened.execute("set search_path = public")
        yield opened


def tables(session: Connection) -> tuple[Table, ...]:
    return read_catalog(session, read_tables(session), values=False).with_rows()


def reconciled(session: Connection) -> Mapping[str, str]:
    return reconcile(session, plan_publication(session, NAME, tables(session)))


def given(session: Connection) -> set[str]:
    """Return the labels of the tables that the publication follows."""
    found = followed(session, NAME)
    assert found is not None
    return {table.label for table in tables(session) if table.oid in found[1]}


def entries(session: Connection) -> list[str]:
    """Return what is published by name."""
    return [
        row[0]
        for row in session.execute("select prrelid::regclass::text from pg_publication_rel order by 1").fetchall()
    ]


EVERYTHING = """
create schema s;
create table s.keyed (id int primary key, x int);
create table s.keyless (x int);
create table s.full_row (x int); alter table s.full_row replica identity full;
create table s.nothing (id int primary key, x int); alter table s.nothing replica identity nothing;
create table s.indexed (id int not null unique, x int);
alter table s.indexed replica identity using index indexed_id_key;
create table s.index_gone (id int not null unique, x int);
alter table s.index_gone replica identity using index index_gone_id_key;
alter table s.index_gone drop constraint index_gone_id_key;
create table s.deferred (id int primary key deferrable, x int);
create unlogged table s.unlogged (id int primary key, x int);
create table s.computed_key (x int, y int generated always as (x + 1) stored primary key);
create table s.computed (id int primary key, x int, y int generated always as (x + 1) stored);
create table s.computed_full (x int, y int generated always as (x + 1) stored);
alter table s.computed_full replica identity full;
create table s.parted (id int, x int, primary key (id)) partition by list (id);
create table s.parted_1 partition of s.parted for values in (1);
create table s.mixed (id int, x int) partition by list (id);
create table s.mixed_1 partition of s.mixed (primary key (id)) for values in (1);
create table s.mixed_2 partition of s.mixed for values in (2);
create table s.parent (id int primary key, x int);
create table s.child () inherits (s.parent);
"""
LEAVES = (
    *("keyed", "keyless", "full_row", "nothing", "indexed", "index_gone", "deferred", "unlogged", "computed_key"),
    *("computed", "computed_full", "parted_1", "mixed_1", "mixed_2", "parent", "child"),
)


def change_everything(session: Connection) -> None:
    """Insert, update and delete, as the tables' owner does."""
    for leaf in LEAVES:
        has_id = "full" not in leaf and leaf not in ("keyless", "computed_key")
        number = 2 if leaf == "mixed_2" else 1
        session.execute(f"insert into s.{leaf} ({'id, ' * has_id}x) values ({f'{number}, ' * has_id}1)".encode())
        session.execute(f"update only s.{leaf} set x = x + 1".encode())
        session.execute(f"delete from only s.{leaf}".encode())


@pytest.fixture(params=["newest", "14"])
def either(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A session on the newest and on the oldest version."""
    if request.param == "newest":
        yield request.getfixturevalue("session")
    else:
        older: Callable[[int], PostgresServer] = request.getfixturevalue("older")
        with passing_database(older(14)) as address, connect(address) as opened:
            yield opened


def test_only_what_may_be_published_without_harm_enters_and_every_change_still_works(either: Connection) -> None:
    either.execute(EVERYTHING)
    reasons = reconciled(either)
    full_with_generated = {"s.computed_full"} if either.info.server_version < 180000 else set()
    assert given(either) == full_with_generated | {
        *("s.keyed", "s.full_row", "s.indexed", "s.computed", "s.parted_1", "s.mixed_1", "s.parent")
    }
    assert {label: reason.partition(":")[0] for label, reason in reasons.items() if label != "s.computed_full"} == {
        "s.keyless": "it has no primary key",
        "s.nothing": "its replica identity is nothing",
        "s.index_gone": "the index of its replica identity is gone",
        "s.deferred": "its primary key is deferrable",
        "s.unlogged": "it is unlogged, and its changes are in no log",
        "s.computed_key": "its replica identity has a generated column",
        "s.mixed_2": "it has no primary key",
        "s.child": "it has no primary key",
    }
    assert 'alter table "s"."keyless" replica identity full' in reasons["s.keyless"]
    # It has a primary key, which its default identity is.
    assert reasons["s.nothing"].endswith('alter table "s"."nothing" replica identity default')
    change_everything(either)
    either.execute("create table s.parted_2 partition of s.parted for values in (2)")
    assert "s.parted_2" in given(either)
    plan = plan_publication(either, NAME, tables(either))
    assert (plan.missing, plan.surplus) == ((), ())


def test_what_has_lost_its_key_leaves_and_what_got_one_enters(session: Connection) -> None:
    session.execute(EVERYTHING)
    reconciled(session)
    session.execute("alter table s.keyed drop constraint keyed_pkey; alter table s.keyless replica identity full")
    session.execute("create table s.parted_2 partition of s.parted for values in (2)")
    session.execute("alter table s.parted_2 replica identity nothing")
    reasons = reconciled(session)
    assert reasons["s.keyed"].startswith("it has no primary key")
    assert given(session) >= {"s.keyless", "s.parted_1"}
    assert not given(session) & {"s.keyed", "s.parted_2"}
    change_everything(session)
    # The root comes back as soon as all of its partitions can be told apart; the partition's entry stays as it is.
    session.execute("alter table s.parted_2 replica identity default")
    assert set(reconciled(session)) & {"s.parted_1", "s.parted_2"} == set()
    assert {"s.parted", "s.parted_1"} <= set(entries(session))


def test_a_partition_that_nobody_could_choose_yet_does_not_drive_its_root_out(session: Connection) -> None:
    session.execute(EVERYTHING)
    known = tables(session)
    reconcile(session, plan_publication(session, NAME, known))
    session.execute("create table s.parted_2 partition of s.parted for values in (2)")
    assert plan_publication(session, NAME, known).surplus == ()
    # A root of which only some partitions are wanted does not enter.
    session.execute(f"drop publication {NAME}".encode())
    plan = plan_publication(session, NAME, known)
    assert {"s.parted", "s.parted_1"} & {each.label for each in plan.missing} == {"s.parted_1"}


def test_tables_that_are_not_chosen_leave(session: Connection) -> None:
    session.execute(EVERYTHING)
    reconciled(session)
    some = [table for table in tables(session) if table.name == "keyed"]
    reconcile(session, plan_publication(session, NAME, some))
    assert entries(session) == ["s.keyed"]


def test_large_objects_and_tables_of_extensions_are_not_followed(session: Connection) -> None:
    session.execute("create table own (id int primary key); select lo_from_bytea(0, 'x')")
    session.execute("create extension pg_trgm; alter extension pg_trgm add table own")
    assert given_or_none(session) == set()
    session.execute("alter extension pg_trgm drop table own")
    reasons = reconciled(session)
    assert reasons == {"pg_catalog.pg_largeobject": "PostgreSQL keeps no changes of it in its log"}
    assert given(session) == {"public.own"}


def given_or_none(session: Connection) -> set[str]:
    reconciled(session)
    return given(session)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("for all tables", "is FOR ALL TABLES"),
        ("for tables in schema public", "is FOR TABLES IN SCHEMA"),
        ("for table t where (id > 1)", "has a row filter or a list of columns for t"),
        ("for table t (id)", "has a row filter or a list of columns for t"),
        ("for table t with (publish = 'insert, update, delete')", "does not publish insert, update, delete and trunc"),
        ("for table t with (publish_via_partition_root = true)", "publishes partitions under the name of their root"),
        ("for table t with (publish_generated_columns = stored)", "publishes generated columns"),
    ],
)
def test_a_publication_of_another_making_is_refused(session: Connection, made: str, reason: str) -> None:
    session.execute("create table t (id int primary key)")
    session.execute(f"create publication {NAME} {made}".encode())
    with pytest.raises(RefusedError, match=f"publication {NAME} {reason}.*drop publication"):
        plan_publication(session, NAME, tables(session))


def test_who_does_not_own_the_tables_is_told_the_very_sql(session: Connection, address: Address) -> None:
    session.execute("create table t (id int primary key); create role publication_reader login password 'p'")
    try:
        login = Address(address.url.replace("postgres@", "publication_reader@"), "p")
        with (
            connect(login) as reader,
            pytest.raises(RefusedError, match="as the tables' owner run CREATE PUB") as found,
        ):
            reconciled(reader)
        statement = str(found.value).partition(" run ")[2].partition(" (holdfast source")[0]
        session.execute(statement.encode())
        with connect(login) as reader:
            assert reconciled(reader) == {}
            session.execute("create table later (id int primary key)")
            assert "only its owner can add it" in reconciled(reader)["public.later"]
            session.execute("alter table t drop constraint t_pkey")
            with pytest.raises(RefusedError, match=r"public\.t would refuse changes.*ALTER PUBLICATION .* DROP TABLE"):
                reconciled(reader)
    finally:
        session.execute("drop owned by publication_reader; drop role publication_reader")


def test_a_table_that_is_being_altered_is_waited_for_and_named_as_busy(
    session: Connection, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute("create table t (id int primary key)")
    monkeypatch.setattr(publication, "LOCK_WAIT_S", 0.1)
    with connect(address) as other:
        other.execute("begin; lock table public.t in share update exclusive mode")
        plan = plan_publication(session, NAME, tables(session))
        with pytest.raises(BusyError, match="could not enter publication"):
            reconcile(session, plan)
        other.execute("rollback")
    assert reconciled(session) == {}


def test_a_key_that_is_dropped_while_its_table_enters_keeps_it_out(
    session: Connection, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute("create table t (id int primary key, x int)")
    monkeypatch.setattr(publication, "ROUNDS", 1)  # in one transaction, of which others see the end only
    plan = plan_publication(session, NAME, tables(session))
    session.execute("alter table t drop constraint t_pkey")
    assert "it has no primary key" in reconcile(session, plan)["public.t"]
    assert given(session) == set()
    session.execute("insert into t values (1, 1); update t set x = 2")


def test_every_change_of_a_publication_shows_in_its_version(session: Connection) -> None:
    session.execute("create table t (id int primary key)")
    reconciled(session)
    before = read_publication(session, NAME)
    session.execute(f"alter publication {NAME} set (publish = 'insert')".encode())
    session.execute(f"alter publication {NAME} set (publish = 'insert, update, delete, truncate')".encode())
    after = read_publication(session, NAME)
    assert before
    assert after
    assert (before.oid, before.problem, after.problem) == (after.oid, "", "")
    assert before.version != after.version


def test_more_tables_than_enter_at_once_enter_all(session: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "BATCH", 2)
    for number in range(7):
        session.execute(f"create table t{number} (id int primary key)".encode())
    assert reconciled(session) == {}
    assert len(given(session)) == 7
