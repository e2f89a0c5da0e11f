"""The record of a database with a little of everything, and what a backup of it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.catalog_queries import left_out, read_catalog, read_tables
from holdfast.postgresql.catalog.own_objects import LEDGER, PUBLISH_SCHEMA
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect

pytestmark = pytest.mark.service

OBJECTS = """
create schema shop;
create type shop.mood as enum ('sad', 'glad');
create type shop.pair as (a int, b int);
create table shop.customer (id int primary key, "The mood" shop.mood, size shop.pair);
create table shop.late (id int primary key deferrable, x int);
create table shop.named (id int, code int not null unique, twice int generated always as (code * 2) stored,
  primary key (code, id) include (twice));
alter table shop.named replica identity using index named_code_key;
create table shop.sale (day int, customer int references shop.customer) partition by range (day);
create table shop.sale_1 partition of shop.sale for values from (0) to (10);
create unlogged table shop.scratch (x int);
create sequence shop.numbers;
create materialized view shop.first as select id from shop.customer;
create view shop.between as select id from shop.first;
create materialized view shop.a_last as select id from shop.between;
create foreign data wrapper nothing;
create server elsewhere foreign data wrapper nothing;
create foreign table shop.far (id int) server elsewhere;
create temporary table passing (id int);
"""


@pytest.fixture
def session(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as opened:
        opened.execute(OBJECTS)
        yield opened


def record(session: psycopg.Connection[Any], **options: bool) -> Catalog:
    return read_catalog(session, read_tables(session), **options)


def named(catalog: Catalog, name: str) -> Table:
    return next(table for table in catalog.tables if table.name == name)


def test_tables_are_told_with_their_keys_kinds_and_partitions(session: psycopg.Connection[Any]) -> None:
    catalog = record(session)
    assert {table.name: (table.kind, table.persistence) for table in catalog.tables} == {
        "customer": ("r", "p"),
        "far": ("f", "p"),
        "late": ("r", "p"),
        "named": ("r", "p"),
        "sale": ("p", "p"),
        "sale_1": ("r", "p"),
        "scratch": ("r", "u"),
    }
    assert [table.label for table in catalog.tables] == sorted(table.label for table in catalog.tables)
    assert named(catalog, "customer").key == ("id",)
    assert (named(catalog, "late").key, named(catalog, "late").key_oid) == ((), 0)
    keyed = named(catalog, "named")
    assert (keyed.key, keyed.replica_identity, keyed.identity) == (("code", "id"), "i", (2,))
    assert keyed.expressions == ("3 (code * 2)",)
    root, partition = named(catalog, "sale"), named(catalog, "sale_1")
    assert (partition.parents, partition.bound) == ((root.oid,), "FOR VALUES FROM (0) TO (10)")
    assert catalog.references == ((root.oid, named(catalog, "customer").oid),)


def test_only_what_changes_columns_changes_the_form(session: psycopg.Connection[Any]) -> None:
    before = named(record(session), "late")
    session.execute("alter table shop.late add more int; truncate shop.late; alter table shop.late drop more")
    after = named(record(session), "late")
    assert (before.last_number, after.last_number) == (2, 3)
    assert before.columns == after.columns
    assert before.form != after.form
    assert before.filenode != after.filenode
    session.execute("truncate shop.late")
    assert named(record(session), "late").form == after.form


def test_materialized_views_come_behind_those_that_they_read(session: psycopg.Connection[Any]) -> None:
    session.execute("create materialized view shop.b_empty as select 1 with no data")
    assert [view.name for view in record(session).materialized_views] == ["first", "a_last"]


def test_labels_and_attributes_are_told_whatever_is_renamed_and_taken_back(session: psycopg.Connection[Any]) -> None:
    before = record(session)
    assert before.enums == {"shop.mood": ("sad", "glad"), "shop._mood": ("sad", "glad")}
    assert before.enum_oids["shop.mood"] == before.enum_oids["shop._mood"]
    session.execute(
        "alter type shop.mood rename value 'sad' to 'blue'; alter type shop.mood rename value 'blue' to 'sad'"
    )
    session.execute("alter type shop.pair add attribute c int; alter type shop.pair drop attribute c")
    after = record(session)
    assert after.enums == before.enums
    changed = {name.rpartition(" ")[0] for name, written in after.types.items() if before.types.get(name) != written}
    assert changed == {"label row", "type rows"}


def test_values_of_sequences_are_read_only_where_they_are_wanted(session: psycopg.Connection[Any]) -> None:
    session.execute("select setval('shop.numbers', 7)")
    assert [(each.name, each.last_value) for each in record(session).sequences] == [("numbers", 7)]
    assert record(session, values=False).sequences == ()


def test_what_is_ours_is_not_the_users_and_a_restores_notes_are_named(session: psycopg.Connection[Any]) -> None:
    session.execute(f"create schema {PUBLISH_SCHEMA}; create table {PUBLISH_SCHEMA}.noted (x int)")
    session.execute(f"create schema {LEDGER}; create table {LEDGER}.mine (x int)")
    assert {table.table_schema for table in read_tables(session)} == {"shop"}
    assert (
        f"schema {LEDGER}: restores need this name for themselves; rename the schema, and it is backed up"
        in left_out(session)
    )
    session.execute(f"create table {LEDGER}.restore (x int); create table {LEDGER}.done (x int)")
    [told] = [each for each in left_out(session) if LEDGER in each]
    assert told.endswith(f"once none is to go on there, drop it (DROP SCHEMA {LEDGER} CASCADE)")


def test_what_stays_out_is_told_with_its_reason(session: psycopg.Connection[Any]) -> None:
    session.execute("create extension pg_trgm schema shop; create table shop.of_it (x int)")
    session.execute("alter extension pg_trgm add table shop.of_it; alter extension pg_trgm add sequence shop.numbers")
    assert left_out(session) == (
        "foreign table shop.far: its rows are on another server",
        "rows of shop.of_it: it belongs to an extension",
        "value of shop.numbers: it belongs to an extension",
    )
    found = record(session)
    assert "of_it" not in {table.name for table in found.tables}
    assert found.sequences == ()


def test_roles_are_those_that_own_something_or_have_a_right_here(session: psycopg.Connection[Any]) -> None:
    session.execute("create role queries_reader; create role queries_idle")
    try:
        assert record(session).roles == ("postgres",)
        session.execute("grant select on shop.customer to queries_reader")
        found = record(session)
        assert found.roles == ("postgres", "queries_reader")
        assert found.role_details is not None
        assert [role.name for role in found.role_details.roles if role.name != "postgres"] == ["queries_reader"]
        assert (found.server_version, found.encoding) == (session.info.server_version, "UTF8")
    finally:
        session.execute("drop owned by queries_reader; drop role queries_reader, queries_idle")
