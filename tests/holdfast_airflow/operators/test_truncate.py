"""Truncation as a task: which rules its job is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import (
    TruncateOperator,
)
from tests.support.airflow.operators import MAINTENANCE, FakeSpark, Play, run

pytestmark = pytest.mark.slow


TRUNCATED = {"commit": 8, "keep": "daily=2", "blocks_removed": 3, "bytes": 30, "dry_run": False, "sources": []}


def test_rules_come_from_the_configuration_unless_given(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], configuration: Path, play: Play
) -> None:
    configuration.write_text("archives: {shop: {url: archive, keep: {daily: 2, within: 7d}}}")
    play(TRUNCATED)
    assert run(TruncateOperator(task_id="save", archive="shop", keep=[]), context) == TRUNCATED
    assert spark.told() == ["--keep", "daily=2", "--keep", "within=7d"]
    assert spark.seen()["locks"] == MAINTENANCE
    own = TruncateOperator(
        task_id="save", archive="shop", source="shop_db", keep=["last=3"], min_chains=2, only_plan="True"
    )
    run(own, context)
    assert spark.told() == ["--keep", "last=3", "--source", "shop_db", "--min-chains", "2", "--dry-run"]


@pytest.mark.parametrize(("keep", "code"), [([], 5), (["daily=0"], 5), (["often=3"], 2)])
def test_rules_that_cannot_be_meant_are_refused_before_any_lock(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], keep: list[str], code: int
) -> None:
    with pytest.raises(JobRefused) as caught:
        run(TruncateOperator(task_id="save", archive="shop", keep=keep), context)
    assert caught.value.exit_code == code
    assert not spark.note.exists()
