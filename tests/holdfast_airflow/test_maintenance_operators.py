"""The operators of maintenance: what their jobs are told, which locks they take, and what they return."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from holdfast.archive import locks
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import (
    CompactOperator,
    MigrateOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators.job import ArchiveJobOperator
from locking import Owner, RWLock
from tests.support.operators import FakeSpark, locks_of, run
from tests.support.vacuuming import commit, write_block

pytestmark = pytest.mark.slow

VERIFIED = {"commits": 3, "blocks": 2, "files": 9, "bytes": 90, "deep": True, "read_since": "2026-03-01T12:00:00Z"}

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

TRUNCATED = {"commit": 8, "keep": "daily=2", "blocks_removed": 3, "bytes": 30, "dry_run": False, "sources": []}

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

MAINTENANCE = ["format R save", "maintenance W save"]


Play = Callable[[dict[str, Any]], None]


@pytest.fixture
def play(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Lets the next jobs do nothing but return a result."""

    def tell(result: dict[str, Any]) -> None:
        spark.play("tell")
        monkeypatch.setenv("FAKE_RESULT", json.dumps(result))

    return tell


def told(spark: FakeSpark) -> list[str]:
    """What the application was given, without archive and run."""
    argv = spark.seen()["argv"]
    return list(argv[argv.index("--run") + 2 :])


@pytest.mark.parametrize(
    "operator",
    [
        CompactOperator(task_id="save", archive="shop"),
        MigrateOperator(task_id="save", archive="shop", to=2),
        TruncateOperator(task_id="save", archive="shop"),
        VacuumOperator(task_id="save", archive="shop"),
        VerifyOperator(task_id="save", archive="shop"),
    ],
    ids=lambda operator: operator.operation,
)
def test_what_airflow_fills_in_is_what_the_operator_was_given(operator: ArchiveJobOperator) -> None:
    assert [field for field in operator.template_fields if callable(getattr(operator, field))] == []
    own = inspect.signature(type(operator).__init__).parameters
    assert [name for name in own if hasattr(operator, name) and callable(getattr(operator, name))] == []


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
    assert told(spark) == ["--source", "shop_db", *policy]
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
    assert told(spark) == ["--to", "2"]
    assert spark.seen()["locks"] == ["format W save"]
    with pytest.raises(JobRefused, match="to is 'new': write a whole number"):
        run(MigrateOperator(task_id="save", archive="shop", to="new"), context)


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
    assert ("--consolidate" in told(spark), "--source" in told(spark)) == (given, False)


def test_rules_come_from_the_configuration_unless_given(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], configuration: Path, play: Play
) -> None:
    configuration.write_text("archives: {shop: {url: archive, keep: {daily: 2, within: 7d}}}")
    play(TRUNCATED)
    assert run(TruncateOperator(task_id="save", archive="shop", keep=[]), context) == TRUNCATED
    assert told(spark) == ["--keep", "daily=2", "--keep", "within=7d"]
    assert spark.seen()["locks"] == MAINTENANCE
    own = TruncateOperator(
        task_id="save", archive="shop", source="shop_db", keep=["last=3"], min_chains=2, only_plan="True"
    )
    run(own, context)
    assert told(spark) == ["--keep", "last=3", "--source", "shop_db", "--min-chains", "2", "--dry-run"]


@pytest.mark.parametrize(("keep", "code"), [([], 5), (["daily=0"], 5), (["often=3"], 2)])
def test_rules_that_cannot_be_meant_are_refused_before_any_lock(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], keep: list[str], code: int
) -> None:
    with pytest.raises(JobRefused) as caught:
        run(TruncateOperator(task_id="save", archive="shop", keep=keep), context)
    assert caught.value.exit_code == code
    assert not spark.note.exists()


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
    assert told(spark) == ["--grace", "48h"]
    assert spark.seen()["locks"] == [*MAINTENANCE, "replica W save"]
    run(VacuumOperator(task_id="save", archive="shop", grace="1h", orphans=False, only_plan=True), context)
    assert told(spark) == ["--grace", "1h", "--no-orphans", "--dry-run"]


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


def test_verification_reads_as_much_as_archives_yaml_says(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], configuration: Path, play: Play
) -> None:
    configuration.write_text("archives: {shop: {url: archive, verification: {deep_within: 10d, budget: 2h}}}")
    play({**VERIFIED, "damage": [], "costs": []})
    assert run(VerifyOperator(task_id="save", archive="shop"), context) == VERIFIED
    assert told(spark) == ["--deep", "--budget", "2h", "--within", "10d", "--new"]
    assert spark.seen()["locks"] == ["format R save"]
    run(VerifyOperator(task_id="save", archive="shop", within="1d", budget="1 GB"), context)
    assert told(spark) == ["--deep", "--budget", "1 GB", "--within", "1d", "--new"]
    run(VerifyOperator(task_id="save", archive="shop", deep="False"), context)
    assert told(spark) == ["--new"]


def test_damage_fails_the_task_for_good_and_is_named(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    damage = [f"data/{number} is missing" for number in range(5)]
    play({**VERIFIED, "damage": damage})
    with pytest.raises(JobRefused, match=r"data/0 is missing; .*; and 2 more, in the log") as caught:
        run(VerifyOperator(task_id="save", archive="shop"), context)
    assert caught.value.exit_code == 4


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


def test_verification_waits_for_nobody_who_deletes_before_its_job_begins(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    play({**VERIFIED, "damage": []})
    with RWLock(store, "history").write(purpose="vacuum", wait=0):  # its job waits for that, chunk by chunk
        assert run(VerifyOperator(task_id="save", archive="shop"), context) == VERIFIED


@pytest.mark.service
@pytest.mark.usefixtures("closed_pipes")
def test_operators_maintain_an_archive_by_real_jobs(
    store: ObjectStore, context: dict[str, Any], configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration.write_text("archives: {shop: {url: archive, keep: {last: 1}, vacuum: {grace: 0h}}}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
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
