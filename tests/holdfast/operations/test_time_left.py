"""The time left of a job: by its own pace, and by the steps of an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive.format.runs import RunLog, RunRecord
from holdfast.common.errors import RefusedError
from holdfast.operations.time_left import steps_before, time_left
from holdfast.storage import ObjectStore, open_store

BEFORE = {"loading rows": 100.0, "building indexes": 300.0, "comparing": 100.0}


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


def record(step: str, step_s: float, **more: object) -> RunRecord:
    values = {"run": "r", "number": 1, "operation": "restore", "state": "running", "step": step, "step_s": step_s}
    return RunRecord.model_validate({**values, **more})


@pytest.mark.parametrize(
    ("at", "left"),
    [
        (record("loading rows", 50.0, rows=500, estimated_rows=1000), 50 + 400),
        (record("loading rows", 100.0, rows=500, estimated_rows=1000), 100 + 2 * 400),
        (record("building indexes", 100.0, steps={"loading rows": 50.0}), 50 + 50),
        (record("comparing", 500.0, steps={"loading rows": 100.0}), 300),
        (record("a new step", 1.0), None),
        (record("comparing", 1.0, state="failed"), None),
    ],
)
def test_later_steps_count_at_the_pace_of_this_job(at: RunRecord, left: float | None) -> None:
    assert time_left(at, BEFORE) == left


def run(store: ObjectStore, name: str, *steps: str, fails: bool = False) -> None:
    try:
        with RunLog(store, name, "restore") as log:
            for step in steps:
                log.progress(step)
            if fails:
                raise RefusedError("no")
            log.result = {}
    except RefusedError:
        pass


def test_the_newest_earlier_run_that_succeeded_is_looked_at(store: ObjectStore) -> None:
    run(store, "restore.20250101T000000Z.aaaaaa", "too old")
    run(store, "restore.20260301T000000Z.aaaaaa", "older")
    run(store, "restore.20260302T000000Z.bbbbbb", "loading rows", "comparing")
    run(store, "restore.20260303T000000Z.cccccc", "failed", fails=True)
    run(store, "restore_other.20260304T000000Z.dddddd", "of another kind")
    assert list(steps_before(store, "restore.20260305T000000Z.eeeeee")) == ["starting", "loading rows", "comparing"]
    assert steps_before(store, "backup.20260305T000000Z.eeeeee") == {}
    assert steps_before(store, "mine") == {}
