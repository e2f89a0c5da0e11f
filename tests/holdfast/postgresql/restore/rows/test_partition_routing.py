"""Which partitions' rows go through their root: where a database hashes in a way of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows.partition_routing import partition_roots

pytestmark = pytest.mark.service

OBJECTS = """
create schema s;
create type s.mood as enum ('sad', 'glad'); create domain s.of_mood as s.mood; create type s.pair as (a int, m s.mood);
create domain s.number as int; create type s.span as range (subtype = int);
create collation s.loose (locale = 'C'); -- the tests' server has no ICU, whose collations may be so
update pg_collation set collisdeterministic = false where collname = 'loose';
create function s.hash_int(int, int8) returns int8 language sql immutable as 'select 1::int8';
create operator class s.own_ops for type int using hash as operator 1 =, function 2 s.hash_int(int, int8);
create foreign data wrapper nothing; create server far foreign data wrapper nothing;
"""

SAFE = {
    "int": "(id int) partition by hash (id)",
    "text": "(id text) partition by hash (id)",
    "domain": "(id s.number) partition by hash (id)",
    "array": "(id int[]) partition by hash (id)",
    "formula": "(id int) partition by hash ((id + 1))",
    "range": "(id s.mood) partition by list (id)",
}
UNSAFE = {
    "enum": "(id s.mood) partition by hash (id)",
    "enum below a domain": "(id s.of_mood) partition by hash (id)",
    "array of enums": "(id s.mood[]) partition by hash (id)",
    "composite": "(id s.pair) partition by hash (id)",
    "name": "(id regclass) partition by hash (id)",
    "collation": "(id text collate s.loose) partition by hash (id)",
    "class of one's own": "(id int) partition by hash (id s.own_ops)",
    "range of one's own": "(id s.span) partition by hash (id)",
    "second column": "(id int, m s.mood) partition by hash (id, m)",
}


def created(address: Address, *statements: str) -> dict[str, Table]:
    with connect(address) as session:
        session.execute(OBJECTS)
        for statement in statements:
            session.execute(statement.encode())
        return {table.name: table for table in read_tables(session)}


def routed(address: Address, tables: dict[str, Table], *, same_encoding: bool = True) -> dict[str, str]:
    """Return the roots that rows go through, by the names of their partitions."""
    leaves = [table for table in tables.values() if table.kind == "r"]
    names = {table.oid: table.name for table in leaves}
    with connect(address) as session:
        found = partition_roots(session, leaves, same_encoding=same_encoding)
    assert all(root.kind == "p" for root in found.values())
    return {names[oid]: root.name for oid, root in found.items()}


def test_only_partitions_that_may_belong_elsewhere_go_through_their_root(new_database: Callable[..., Address]) -> None:
    address = new_database("encoding UTF8 template template0")
    roots = {**SAFE, **UNSAFE}
    statements = [f'create table s."{name}" {definition}' for name, definition in roots.items()]
    statements += [
        f'create table s."{name} 1" partition of s."{name}" '
        + ("for values in ('sad')" if name == "range" else "for values with (modulus 2, remainder 0)")
        for name in roots
    ]
    tables = created(address, *statements, "create table s.alone (m s.mood)")
    assert routed(address, tables) == {f"{name} 1": name for name in UNSAFE}
    # In another encoding, text hashes otherwise: nobody asks which types have some in them.
    by_hash = {name: definition for name, definition in roots.items() if name != "range"}
    assert routed(address, tables, same_encoding=False) == {f"{name} 1": name for name in by_hash}


def test_rows_go_through_the_highest_root_that_hashes_in_its_own_way(address: Address) -> None:
    tables = created(
        address,
        "create table s.top (day int, m s.mood, id int) partition by range (day)",
        "create table s.middle partition of s.top for values from (0) to (9) partition by hash (m)",
        "create table s.low (id int, extra int, m s.mood, day int) partition by hash (m)",
        "alter table s.low drop extra",
        "alter table s.middle attach partition s.low for values with (modulus 1, remainder 0)",
        "create table s.leaf (m s.mood, day int, id int)",
        "alter table s.low attach partition s.leaf for values with (modulus 1, remainder 0)",
    )
    assert routed(address, tables) == {"leaf": "middle"}
    with connect(address) as session:
        [root] = partition_roots(session, [tables["leaf"]], same_encoding=True).values()
    # Its columns are those of the partition, in the order of the root.
    assert [each.name for each in root.columns] == ["day", "m", "id"]
    assert {each.name: each.number for each in root.columns} == {"m": 1, "day": 2, "id": 3}


def test_what_is_partly_on_another_server_is_left_as_it_is(address: Address) -> None:
    tables = created(
        address,
        "create table s.root (m s.mood) partition by hash (m)",
        "create table s.near partition of s.root for values with (modulus 2, remainder 0)",
        "create foreign table s.away partition of s.root for values with (modulus 2, remainder 1) server far",
    )
    assert routed(address, tables) == {}
