"""What a restore's plan says of itself, and plans that leave something out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.postgresql.catalog.catalog import NamedRelation
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.plan import (
    NotRestored,
    PlannedTable,
    RestorePlan,
    without_superusers,
)
from tests.support.databases.planned_shop import entry, table


def planned(oid: int, name: str, **more: Any) -> PlannedTable:
    return PlannedTable(source=table(oid, name, **more), target=table(oid, f"new_{name}", **more), rows=10, size=100)


def plan(*tables: PlannedTable, entries: tuple[DumpEntry, ...] = (), **more: Any) -> RestorePlan:
    return RestorePlan(tables=tables, entries=entries, sequences=(), materialized_views=(), roles=(), **more)


def test_statistics_of_a_root_include_its_partitions() -> None:
    made = replace(
        plan(planned(1, "root", kind="p"), planned(2, "part", parents=(1,)), planned(3, "alone")),
        materialized_views=(NamedRelation(relation_schema="public", name="totals"),),
    )
    assert made.to_analyze(2) == [("public", "new_root"), ("public", "new_alone"), ("public", "totals")]
    assert made.not_analyzed(2) == ()


def test_tables_above_a_foreign_one_are_not_analyzed_and_their_other_partitions_are() -> None:
    made = plan(
        planned(1, "top", kind="p"),
        planned(2, "middle", kind="p", parents=(1,)),
        planned(3, "far", kind="f", parents=(2,)),
        planned(4, "near", parents=(2,)),
    )
    assert made.to_analyze(2) == [("public", "new_near")]
    reason = "a foreign table is below it, whose server is not asked"
    assert made.not_analyzed(2) == tuple(
        NotRestored(f'statistics of "public"."new_{name}"', reason, f'analyze "public"."new_{name}";')
        for name in ("top", "middle")
    )


def test_of_a_root_with_more_partitions_than_can_be_locked_each_has_statistics_of_its_own() -> None:
    made = plan(
        planned(1, "top", kind="p"),
        planned(2, "middle", kind="p", parents=(1,)),
        planned(3, "a", parents=(2,)),
        planned(4, "b", parents=(2,)),
        planned(5, "c", parents=(1,)),
    )
    assert made.to_analyze(4) == [("public", "new_top")]
    assert made.to_analyze(3) == [("public", "new_middle"), ("public", "new_c")]
    assert made.to_analyze(1) == [("public", "new_a"), ("public", "new_b"), ("public", "new_c")]
    assert made.not_analyzed(4) == ()
    (left,) = made.not_analyzed(3)
    assert (left.what, left.statement) == ('statistics of "public"."new_top"', 'analyze "public"."new_top";')
    assert "more partitions than a restore locks at once (max_locks_per_transaction)" in left.reason


def test_a_circle_of_parents_ends() -> None:
    made = plan(planned(1, "a", parents=(2,)), planned(2, "b", parents=(1,)), planned(3, "f", kind="f", parents=(1,)))
    assert made.to_analyze(2) == []


TABLE = entry(1, "TABLE", "orders", sql="CREATE TABLE public.orders ();", oid=12)
VIEW = entry(2, "VIEW", "v", [1], "CREATE VIEW public.v AS SELECT 1;")


def test_the_digest_is_of_what_is_created_and_of_who_owns_it_meanwhile() -> None:
    made = plan(entries=(TABLE, VIEW))
    assert made.digest == replace(made, roles=("ann",), tables=(planned(1, "a"),), runs={1: "x"}).digest
    others = (
        plan(entries=(VIEW, TABLE)),
        plan(entries=(TABLE,)),
        plan(entries=(replace(TABLE, settings="SET default_tablespace = fast;"), VIEW)),
        replace(made, is_built_apart=True),
    )
    assert len({made.digest, *(each.digest for each in others)}) == 5


def test_the_keys_of_a_described_plan_are_stable() -> None:
    left = NotRestored("view public.v", "it is not wanted", "CREATE VIEW …;")
    described = plan(
        planned(12, "orders"),
        entries=(TABLE, VIEW),
        not_restored=(left,),
        renamed=(("index a", "b"),),
        skipped_existing=("type public.state",),
        touches=("public.customers: it waits",),
        unchanged=("function public.touch()",),
    ).describe()
    assert described == {
        "tables": [{"from": "public.orders", "to": "public.new_orders", "rows": 10, "bytes": 100, "changes": 0}],
        "objects": [{"kind": "view", "name": "public.v"}],
        "renamed": [{"from": "index a", "to": "b"}],
        "skipped_existing": ["type public.state"],
        "not_restored": [{"object": "view public.v", "reason": "it is not wanted", "statement": "CREATE VIEW …;"}],
        "touches": ["public.customers: it waits"],
        "unchanged": ["function public.touch()"],
    }
    assert NotRestored.from_dict(left.describe()) == left


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("CREATE PUBLICATION p;\nALTER PUBLICATION p OWNER TO ann;", "CREATE PUBLICATION p;\n"),
        ("x;\nALTER EVENT TRIGGER e OWNER TO ann;\ny;", "x;\n\ny;"),
        ("ALTER FOREIGN DATA WRAPPER f OWNER TO ann;", ""),
        ('ALTER SUBSCRIPTION s OWNER TO "a b";', ""),
        ("ALTER TABLE public.orders OWNER TO ann;", "ALTER TABLE public.orders OWNER TO ann;"),
        ("ALTER PUBLICATION p SET (publish = '');", "ALTER PUBLICATION p SET (publish = '');"),
    ],
)
def test_owners_of_what_only_superusers_may_own_are_left_out(sql: str, kept: str) -> None:
    [found] = without_superusers(plan(entries=(replace(VIEW, sql=sql),))).entries
    assert found.sql == kept
