"""Partitions without a bound: attached by their rows where these fit, and named where they do not."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.table import UNKNOWN_BOUND, Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.parallel_sessions import Sessions
from holdfast.postgresql.restore.objects import object_creation
from holdfast.postgresql.restore.objects.unbound_partitions import attach_unbound
from holdfast.postgresql.restore.plan.plan import NotRestored, PlannedTable, RestorePlan
from tests.support.archives.evolving import table

pytestmark = pytest.mark.service

Begun = psycopg.Connection[Any]

KEYS = {
    "by_list": ("k int", "list (k)", "(1), (null), (7)", "for values in ('1', '7', NULL)"),
    "by_int": ("k int", "range (k)", "(3), (9)", "for values from ('3') to ('10')"),
    "by_date": ("k date", "range (k)", "('2026-02-28')", "for values from ('2026-02-28') to ('2026-03-01')"),
    "by_time": (
        "k timestamp",
        "range (k)",
        "('2026-01-01 12:00')",
        "for values from ('2026-01-01 12:00:00') to ('2026-01-01 12:00:00.000001')",
    ),
    "by_number": ("k numeric(6,2)", "range (k)", "(1.50), (2)", "for values from ('1.50') to ('2.01')"),
    "by_text": ("k text", "range (k)", "('a'), ('it''s')", "for values from ('a') to ('it''s\x01')"),
    "by_uuid": (
        "k uuid",
        "range (k)",
        "('00000000-0000-0000-0000-000000000001')",
        "for values from ('00000000-0000-0000-0000-000000000001') to (maxvalue)",
    ),
    "by_two": ("k int, m int", "range (k, m)", "(1, 9), (2, 3)", "for values from ('1', '9') to ('2', '4')"),
    "by_null": ("k int", "range (k)", "(1), (null)", "default"),
    "by_null_of_two": ("k int, m int", "range (k, m)", "(1, 1), (2, null), (3, 1)", "default"),
    "by_last": ("k int", "range (k)", "(3), (2147483647)", "for values from ('3') to (maxvalue)"),
    "by_last_of_two": (
        "k int, m int",
        "range (k, m)",
        "(1, 2147483647)",
        "for values from ('1', '2147483647') to ('1', maxvalue)",
    ),
    "by_last_small": ("k smallint", "range (k)", "(32767)", "for values from ('32767') to (maxvalue)"),
    "by_ever": ("k date", "range (k)", "('infinity')", "for values from ('infinity') to (maxvalue)"),
    "by_ever_time": ("k timestamptz", "range (k)", "('infinity')", "for values from ('infinity') to (maxvalue)"),
    "by_nan": ("k numeric", "range (k)", "(1), ('NaN')", "for values from ('1') to (maxvalue)"),
    "by_formula": ("k int", "range ((k / 10))", "(31), (47)", "for values from ('3') to ('5')"),
}


def planned(oid: int, name: str, **more: Any) -> PlannedTable:
    made: Table = table(oid, table_schema="public", name=name, **more)
    return PlannedTable(made, made, 0, 0)


def attach(address: Address, *tables: PlannedTable) -> dict[str, NotRestored]:
    plan = RestorePlan(tables=tables, entries=(), sequences=(), materialized_views=(), roles=())
    with Sessions(address, 2, settings=object_creation.SETTINGS) as sessions:
        found = attach_unbound(sessions, plan)
        assert attach_unbound(sessions, plan) == found  # a restore that goes on does it once
    return {each.what.rpartition(" ")[2].replace('"', "").removeprefix("public."): each for each in found}


def made(number: int, name: str) -> tuple[PlannedTable, PlannedTable]:
    root = planned(10 * number, name, kind="p")
    return root, planned(10 * number + 1, f"{name}_part", parents=(10 * number,), bound=UNKNOWN_BOUND)


def test_each_kind_of_key_tells_the_least_bound(begun: Begun, address: Address) -> None:
    tables: list[PlannedTable] = []
    for number, (name, (columns, key, values, _)) in enumerate(KEYS.items(), 1):
        begun.execute(f"create table public.{name} ({columns}) partition by {key}".encode())
        begun.execute(f"create index on public.{name} (k)".encode())
        begun.execute(f"create table public.{name}_part ({columns})".encode())
        begun.execute(f"insert into public.{name}_part values {values}".encode())
        tables += made(number, name)

    found = attach(address, *tables)

    for name, (_, _, _, bound) in KEYS.items():
        assert found[f"{name}_part"].reason.endswith(f"it is attached {bound}")
        query = f"select (select count(*) from public.{name}) - (select count(*) from public.{name}_part)"
        assert begun.execute(query.encode()).fetchone() == (0,)
    indexes = "select count(*) from pg_index where indrelid::regclass::text like '%_part' and indisvalid"
    assert begun.execute(indexes.encode()).fetchone() == (len(KEYS),)


def test_the_lowest_table_that_takes_the_rows_has_the_partition(begun: Begun, address: Address) -> None:
    begun.execute("create table public.root (k int, m int) partition by list (k)")
    begun.execute("create table public.below partition of public.root for values in (1) partition by range (m)")
    begun.execute("create table public.one (k int, m int)")
    begun.execute("create table public.two (k int, m int)")
    begun.execute("insert into public.one values (1, 5), (1, 6)")
    begun.execute("insert into public.two values (2, 5)")
    root, below = planned(1, "root", kind="p"), planned(2, "below", kind="p", parents=(1,), bound="in (1)")
    parts = [planned(oid, name, parents=(1,), bound=UNKNOWN_BOUND) for oid, name in ((3, "one"), (4, "two"))]

    attach(address, root, below, *parts)

    query = "select inhrelid::regclass::text, inhparent::regclass::text from pg_inherits order by 1"
    above = begun.execute(query.encode()).fetchall()
    assert above == [("public.below", "public.root"), ("public.one", "public.below"), ("public.two", "public.root")]


def test_what_does_not_fit_stays_a_table_and_is_named(begun: Begun, address: Address) -> None:
    begun.execute("create table public.root (k int) partition by list (k)")
    begun.execute("create table public.taken partition of public.root for values in (1)")
    begun.execute("create table public.root_part (k int)")
    begun.execute("insert into public.root_part values (1)")
    begun.execute("create table public.hashed (k int) partition by hash (k)")
    begun.execute("create table public.hashed_part (k int)")
    begun.execute("insert into public.hashed_part values (1)")
    begun.execute("create table public.empty (k int) partition by range (k)")
    begun.execute("create table public.empty_part (k int)")
    begun.execute("create table public.alone (k int)")
    begun.execute("create table public.filled_alone as select 1 as k")

    alone = [planned(oid, name, bound=UNKNOWN_BOUND) for oid, name in ((98, "filled_alone"), (99, "alone"))]
    found = attach(address, *made(1, "root"), *made(2, "hashed"), *made(3, "empty"), *alone)

    assert "would overlap" in found["root_part"].reason
    assert found["hashed_part"].reason.endswith("its rows do not tell which part of a hash it was")
    assert "it has no rows here: it had none, or" in found["empty_part"].reason
    assert "nor is known what it was part of; it has no rows here" in found["alone"].reason
    assert found["filled_alone"].reason.endswith("nor is known what it was part of")
    assert found["root_part"].statement == 'alter table "public"."root" attach partition "public"."root_part" …;'
    assert begun.execute("select count(*) from public.root_part").fetchone() == (1,)
