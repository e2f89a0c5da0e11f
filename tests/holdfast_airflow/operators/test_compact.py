"""Compaction as a task: what its job is told, and what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.storage import ObjectStore
from holdfast_airflow.operators import (
    CompactOperator,
)
from tests.support.airflow.operators import MAINTENANCE, FakeSpark, Play, locks_of, run

pytestmark = pytest.mark.slow


COMPACTED = {
    "commit": 7,
    "joined": [{"source": "shop_db"}, {"source": "shop_db"}],
    "consolidated": [{"source": "shop_db"}],
    "not_consolidated": {"other": "it has stale tables"},
    "blocks_removed": 16,
    "rows": 100,
    "bytes": 1000,
    "seconds": 2.5,
}


def test_blocks_are_joined_as_archives_yaml_says(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], configuration: Path, play: Play
) -> None:
    configuration.write_text("archives: {shop: {url: archive, compaction: {min_blocks: 3, small: 1 MB, min_age: 2h}}}")
    play(COMPACTED)
    assert run(CompactOperator(task_id="save", archive="shop", source="shop_db"), context) == {
        "commit": 7,
        "blocks_removed": 16,
        "blocks_added": 3,
        "consolidated": ["shop_db"],
        "not_consolidated": {"other": "it has stale tables"},
        "rows": 100,
        "bytes": 1000,
        "seconds": 2.5,
    }
    policy = ["--min-blocks", "3", "--small", "1 MB", "--target", "512 MiB", "--min-age", "2h"]
    assert spark.told() == ["--source", "shop_db", *policy]
    assert spark.seen()["locks"] == MAINTENANCE
    assert not {"HOLDFAST_SOURCE_URL", "HOLDFAST_TARGET_URL"} & set(spark.seen()["env"])
    assert any(part.endswith("sparkjobs/compaction.py") for part in spark.seen()["argv"])
    assert locks_of(store) == []


@pytest.mark.parametrize(("wanted", "given"), [("True", True), (True, True), ("False", False), (False, False)])
def test_snapshots_are_made_where_that_is_wanted(
    store: ObjectStore,
    spark: FakeSpark,
    context: dict[str, Any],
    play: Play,
    wanted: bool | str,
    given: bool,
) -> None:
    play(COMPACTED)
    run(CompactOperator(task_id="save", archive="shop", consolidate=wanted), context)
    assert ("--consolidate" in spark.told(), "--source" in spark.told()) == (given, False)
