"""Vacuum as a task: what its job is told, what it returns, and how it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import (
    VacuumOperator,
)
from tests.support.airflow.operators import MAINTENANCE, FakeSpark, Play, locks_of, run

pytestmark = pytest.mark.slow


VACUUMED = {
    "dry_run": False,
    "blocks": ["a", "b"],
    "abandoned": ["c"],
    "files": 12,
    "bytes": 120,
    "commits": [9],
    "waiting": [{"block": "d", "due": "2026-03-02T12:00:00Z"}],
    "awaited": [{"block": "e", "replicas": ["off", "far"]}, {"block": "f", "replicas": ["far"]}],
    "young": [],
    "refused": [],
    "busy": [],
    "left": 0,
    "trouble": "",
    "unknown": [],
}


def test_vacuum_says_how_much_is_gone(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], configuration: Path, play: Play
) -> None:
    configuration.write_text("archives: {shop: {url: archive, vacuum: {grace: 48h}}}")
    play(VACUUMED)
    assert run(VacuumOperator(task_id="save", archive="shop"), context) == {
        "files": 12,
        "bytes": 120,
        "dry_run": False,
        "busy": [],
        "waits_for": ["far", "off"],
        "blocks": 2,
        "abandoned": 1,
        "waiting": 1,
        "retained": 0,
    }
    assert spark.told() == ["--grace", "48h"]
    assert spark.seen()["locks"] == [*MAINTENANCE, "replica W save"]
    run(VacuumOperator(task_id="save", archive="shop", grace="1h", orphans=False, only_plan=True), context)
    assert spark.told() == ["--grace", "1h", "--no-orphans", "--dry-run"]


KEPT = {"file": "data/x", "reason": "data/x is kept until tomorrow", "until": None}


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"trouble": "the store is gone"}, 1, "the store is gone"),
        ({"refused": [{**KEPT, "retained": False}]}, 1, "data/x is kept until tomorrow"),
        ({"left": 4, "busy": ["history is read by restore r1"]}, 3, "4 files are left, .*restore r1"),
    ],
    ids=["store", "forbidden", "readers"],
)
def test_vacuum_that_left_something_is_tried_again(
    store: ObjectStore,
    spark: FakeSpark,
    context: dict[str, Any],
    play: Play,
    more: dict[str, Any],
    code: int,
    said: str,
) -> None:
    play(VACUUMED | more)
    with pytest.raises(JobFailed, match=said) as caught:
        run(VacuumOperator(task_id="save", archive="shop"), context)
    assert (caught.value.exit_code, isinstance(caught.value, JobRefused)) == (code, False)
    assert locks_of(store) == []


def test_files_that_an_object_lock_keeps_fail_no_vacuum(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    play(VACUUMED | {"refused": [{**KEPT, "retained": True}]})
    assert run(VacuumOperator(task_id="save", archive="shop"), context)["retained"] == 1
