"""What operators of maintenance have in common: refusals, waiting, and their jobs as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from holdfast.archive import locks
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import (
    CompactOperator,
    MigrateOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators.job import ArchiveJobOperator
from locking import Owner
from tests.support.airflow.operators import MAINTENANCE, FakeSpark, Play, locks_of, run
from tests.support.archives.vacuuming import commit, write_block

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "operator",
    [
        VacuumOperator(task_id="save", archive="shop", grace="soon"),
        VerifyOperator(task_id="save", archive="shop", within="1 year"),
        VerifyOperator(task_id="save", archive="shop", budget="all"),
    ],
    ids=["grace", "within", "budget"],
)
def test_words_that_cannot_be_read_are_refused_before_any_lock(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], operator: ArchiveJobOperator
) -> None:
    with pytest.raises(JobRefused, match="cannot read") as caught:
        run(operator, context)
    assert caught.value.exit_code == 2
    assert not spark.note.exists()


@pytest.mark.parametrize("kind", [CompactOperator, TruncateOperator, VacuumOperator])
def test_maintenance_waits_for_other_maintenance_without_a_worker_slot(
    store: ObjectStore,
    context: dict[str, Any],
    configuration: Path,
    kind: type[ArchiveJobOperator],
) -> None:
    configuration.write_text("archives: {shop: {url: archive, keep: {daily: 2}}}")
    with (
        locks.acquire(store, "compaction", owner=Owner(), purpose="compaction r1", wait=0),
        pytest.raises(TaskDeferred) as caught,
    ):
        run(kind(task_id="save", archive="shop"), context)
    assert caught.value.trigger.operation == kind.operation
    assert locks_of(store) == []


@pytest.mark.service
@pytest.mark.usefixtures("closed_pipes")
def test_operators_maintain_an_archive_by_real_jobs(
    store: ObjectStore, context: dict[str, Any], configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration.write_text("archives: {shop: {url: archive, keep: {last: 1}, vacuum: {grace: 0h}}}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=os.pathsep)
    older, newest = write_block(store), write_block(store)
    for block in (older, newest):
        commit(store, add=(block,))
    done = run(TruncateOperator(task_id="save", archive="shop"), context)
    assert (done["commit"], done["blocks_removed"], done["keep"]) == (3, 1, "last=1")
    gone = run(VacuumOperator(task_id="save", archive="shop"), context)
    assert (gone["blocks"], gone["files"]) == (1, 3)
    looked = run(VerifyOperator(task_id="save", archive="shop", deep=False), context)
    assert (looked["files"], looked["commits"]) == (3, 4)
    joined = run(CompactOperator(task_id="save", archive="shop", job_executor="spark"), context)
    assert (joined["commit"], joined["blocks_added"]) == (None, 0)
    # Its files are made up. By Spark, a command verifies in tests/sparkjobs/storage/test_encrypted.py.
    with pytest.raises(JobRefused, match="another checksum") as caught:
        run(VerifyOperator(task_id="save", archive="shop", job_executor="inline"), context)
    assert caught.value.exit_code == 4
    assert locks_of(store) == []


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


def test_a_migration_keeps_all_others_out(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    done = {"archive": "a", "from": 1, "format": 2, "commits": 3}
    play(done)
    assert run(MigrateOperator(task_id="save", archive="shop", to="2"), context) == done
    assert spark.told() == ["--to", "2"]
    assert spark.seen()["locks"] == ["format W save"]
    with pytest.raises(JobRefused, match="to is 'new': write a whole number"):
        run(MigrateOperator(task_id="save", archive="shop", to="new"), context)


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
