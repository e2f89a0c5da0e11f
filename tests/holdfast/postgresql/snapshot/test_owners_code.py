"""What runs where queries are planned is tried in `tests/attacks/test_reading.py`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.owners_code import (
    owners_code,
    readable_columns,
    refuse_owners_code,
    unreadable_columns,
)

pytestmark = pytest.mark.service


def oid_of(session: psycopg.Connection[Any], table: str) -> int:
    row = session.execute("select %s::regclass::oid::int8", (table,)).fetchone()
    assert row is not None
    return int(row[0])


def test_what_a_table_has_is_named_with_its_owner_and_what_plans_nothing_is_not(address: Address) -> None:
    with connect(address) as session:
        session.execute(
            b"create table public.a (id int primary key, word text check (word > '')); create index on public.a (word);"
            b"create table public.b (id int, word text); create index lower on public.b (lower(word));"
            b"create statistics public.s on id, (lower(word)) from public.b;"
            b"create statistics public.u on id, word from public.a"
        )
        assert owners_code(session) == {
            oid_of(session, "public.b"): (
                "the expressions of index public.lower of public.b, which belongs to postgres",
                "the expressions of statistics s of public.b, which belongs to postgres",
            )
        }


def test_what_came_while_a_table_was_queried_is_refused_by_name(address: Address) -> None:
    with connect(address) as session:
        session.execute(b"create table public.a (id int, word text)")
        oid = oid_of(session, "public.a")
        refuse_owners_code(owners_code(session), {oid})
        session.execute(b"create index later on public.a (id) where word > ''")
        with pytest.raises(RefusedError, match=r"index public\.later of public\.a, which belongs to postgres"):
            refuse_owners_code(owners_code(session), {oid})
        refuse_owners_code(owners_code(session), {oid + 1})


def test_stored_columns_that_only_a_query_could_read_are_recorded_as_virtual_and_named(address: Address) -> None:
    with connect(address) as session:
        session.execute(
            b"create table public.a (id int, twice int generated always as (id * 2) stored);"
            b"create table public.b (id int, twice int generated always as (id * 2) stored);"
            b"create index lower on public.b ((id + 1))"
        )
        found = owners_code(session)
        catalog = read_catalog(session, read_tables(session))
    generated = {table.name: table.columns[1].generated for table in readable_columns(catalog, found).tables}
    assert generated == {"a": "s", "b": "v"}
    assert unreadable_columns(catalog, found) == (
        "the values of generated column public.b.twice, which a restore computes again: a query of them would run the "
        "expressions of index public.lower of public.b, which belongs to postgres",
    )
