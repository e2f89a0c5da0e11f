"""The restore operator: what its job is told, and what it returns."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.storage import ObjectStore
from holdfast_airflow.operators import RestoreOperator
from tests.support.operators import FakeSpark, run


def test_restore_is_submitted_with_its_arguments_and_target(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    operator = RestoreOperator(
        task_id="save",
        archive="shop",
        target_conn_id="shop_postgres",
        at="commit:1",
    )
    assert run(operator, context) == {
        "commit": 1,
        "restored_to": "2026-03-01T12:00:00Z",
        "position": "0/100",
        "tables": 2,
        "rows": 7,
        "seconds": 1.5,
        "not_restored": [],
        "skipped_existing": [],
        "unlogged": [],
        "stale": [],
        "schema_note": "",
    }
    seen = spark.seen()
    expected = ["--source", "shop_db", "--at", "commit:1"]
    assert seen["argv"][-len(expected) :] == expected
    assert seen["locks"] == ["format R save", "history R save"]
    assert seen["env"]["HOLDFAST_TARGET_URL"] == "postgresql://me@db.example:5433/shop?sslmode=require"
    assert "HOLDFAST_SOURCE_URL" not in seen["env"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"roles": "create", "tablespaces": "keep"}, ["--roles", "create", "--tablespaces", "keep"]),
        (
            {"tables": ["sales.*", "hr.people"], "map": ["sales=old_sales"], "only_plan": True},
            ["--tables", "sales.*", "--tables", "hr.people", "--map", "sales=old_sales", "--dry-run"],
        ),
        ({"only_plan": "True"}, ["--dry-run"]),
        ({"only_plan": "False"}, []),
    ],
    ids=["roles and tablespaces", "tables, names and a plan", "a plan, rendered", "no plan, rendered"],
)
def test_restore_passes_on_what_it_was_given(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], options: dict[str, Any], told: list[str]
) -> None:
    spark.play("plan")
    operator = RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres", **options)
    summary = run(operator, context)
    assert (summary["dry_run"], summary["plan"], summary["not_restored"]) == (True, {"tables": []}, [])
    expected = ["--at", "latest", *told]
    assert spark.seen()["argv"][-len(expected) :] == expected
