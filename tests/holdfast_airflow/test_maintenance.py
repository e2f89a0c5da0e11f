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
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators.job import ArchiveJobOperator
from locking import Owner
from tests.support.airflow.operators import FakeSpark, locks_of, run
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
