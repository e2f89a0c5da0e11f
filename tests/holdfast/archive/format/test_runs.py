from __future__ import annotations

from typing import cast

import pytest

from holdfast.archive.format.runs import RunLog, RunRecord, check_run_name, listed_runs, read_last
from holdfast.common.errors import OutcomeUnknownError, RefusedError, UsageError
from holdfast.storage import ObjectStore
from tests.support.no_waiting import no_waiting
from tests.support.stores.lossy_store import FaultyCreates


def test_a_run_tells_its_steps_and_its_result(store: ObjectStore) -> None:
    with RunLog(store, "run-1", "backup") as log:
        assert (first := read_last(store, "run-1")) is not None
        assert (first.state, first.step) == ("running", "starting")
        log.progress("reading tables", rows=10, size=100, estimated_rows=50)
        second = read_last(store, "run-1")
        assert second is not None
        assert (second.rows, second.size, second.estimated_rows) == (10, 100, 50)
        log.result = {"commit": 1, "rows": 50, "bytes": 500}
    last = read_last(store, "run-1")
    assert last is not None
    assert (last.state, last.rows, last.result) == ("succeeded", 50, {"commit": 1, "rows": 50, "bytes": 500})


def test_a_failed_run_keeps_its_sentence_and_exit_code(store: ObjectStore) -> None:
    with pytest.raises(RefusedError), RunLog(store, "run-1", "restore"):
        raise RefusedError("the target is not empty")
    last = read_last(store, "run-1")
    assert last is not None
    assert last.error is not None
    assert (last.state, last.error.message, last.error.exit_code) == ("failed", "the target is not empty", 5)


def test_a_result_that_cannot_be_written_leaves_the_outcome_unknown(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waiting(monkeypatch)
    faulty = cast(ObjectStore, FaultyCreates(store, ["ok", *["never"] * 5]))
    said = "the work is done, but its result could not be written"
    with pytest.raises(OutcomeUnknownError, match=said), RunLog(faulty, "run-1", "backup") as log:
        log.result = {"commit": 1}


def test_the_same_step_is_not_written_again_at_once(store: ObjectStore) -> None:
    with RunLog(store, "run-1", "backup") as log:
        for rows in range(100):
            log.progress("reading tables", rows=rows)
        assert len(store.list("runs/run-1/").objects) == 2


def test_a_run_under_the_same_name_goes_on_numbering(store: ObjectStore) -> None:
    for _ in range(2):
        with RunLog(store, "run-1", "backup"):
            pass
    assert [found.key[-11:] for found in store.list("runs/run-1/").objects] == [
        f"{number:06d}.json" for number in range(4)
    ]


def test_lost_replies_neither_stop_a_job_nor_hide_how_it_ended(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waiting(monkeypatch)
    faulty = cast(ObjectStore, FaultyCreates(store, ["lost", "never", "lost", "ok"]))
    with RunLog(faulty, "run-1", "backup") as log:
        log.progress("reading tables")
        log.result = {"commit": 1}
    last = read_last(store, "run-1")
    assert last is not None
    assert (last.state, last.number, last.result) == ("succeeded", 3, {"commit": 1})


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 201, "sp ace"])
def test_a_name_that_would_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_run_name(name)


def record(**more: object) -> RunRecord:
    return RunRecord.model_validate(
        {"run": "r", "number": 1, "operation": "backup", "state": "running", "step": "reading tables", **more}
    )


def test_progress_tells_step_rows_and_speed() -> None:
    line = record(rows=1500, estimated_rows=3000, size=4_000_000, elapsed_s=2.0).describe()
    assert line == "reading tables · 1,500 rows of about 3,000 (50 %), 1,500 rows/s · 4.0 MB stored, 2.0 MB/s · 2 s"


def test_progress_counts_objects_as_it_counts_rows() -> None:
    line = record(operation="restore", step="creating tables", objects=412, of_objects=2000, elapsed_s=9.0).describe()
    assert line == "creating tables · made 412 of 2,000 objects · 9 s"


def test_a_step_shows_no_speed_of_rows_that_were_done_before_it(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with RunLog(store, "run-1", "restore") as log:
        log.progress("loading rows", rows=0)
        now[0] += 10
        log.progress("loading rows", rows=8_830_000)
        assert log.last is not None
        assert "8,830,000 rows, 883,000 rows/s" in log.last.describe()
        log.progress("building indexes", rows=8_830_000)
        assert log.last.describe() == "building indexes · 8,830,000 rows · 10 s"
        now[0] += 5
        log.result = {"rows": 8_830_000}
    assert log.last.describe() == "done · 8,830,000 rows · 15 s"
    assert log.last.steps == {"starting": 0.0, "loading rows": 10.0, "building indexes": 5.0}


def test_an_estimate_that_was_too_low_is_left_out() -> None:
    slow = record(rows=10, estimated_rows=5, elapsed_s=1, step_s=60)
    assert slow.describe() == "reading tables · 10 rows, 0 rows/s · 1 s"
    vacuum = record(size=4_000_000, elapsed_s=2.0).model_copy(update={"operation": "vacuum", "step": "done"})
    assert vacuum.describe() == "done · 4.0 MB deleted · 2 s"


@pytest.mark.parametrize(
    ("rows", "step_s", "left"),
    [
        (500, 30.0, "about 30 s left of this step"),
        (100, 30.0, "about 4 min left of this step"),
        (20, 200.0, "about 3 h left of this step"),
        (999, 30.0, "about 10 s left of this step"),
    ],
)
def test_what_is_left_is_judged_by_the_pace_of_the_step(rows: int, step_s: float, left: str) -> None:
    assert record(rows=rows, estimated_rows=1000, elapsed_s=1000, step_s=step_s).describe().endswith(left)


@pytest.mark.parametrize(
    ("rows", "estimated", "step_s"), [(500, 1000, 9.0), (19, 1000, 60.0), (0, 1000, 60.0), (500, 0, 60.0)]
)
def test_what_would_be_a_guess_is_not_told(rows: int, estimated: int, step_s: float) -> None:
    assert record(rows=rows, estimated_rows=estimated, step_s=step_s).left_s is None


def test_the_time_of_a_step_begins_with_it(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("holdfast.archive.format.runs.time.monotonic", lambda: now[0])
    log = RunLog(store, "run-1", "backup")
    for step, seconds in (("starting", 5.0), ("reading tables", 20.0), ("reading tables", 3.0)):
        now[0] += seconds
        log.progress(step, rows=1)
    last = read_last(store, "run-1")
    assert last is not None
    assert (last.elapsed_s, last.step_s) == (28.0, 3.0)
    assert log.last == last


def test_the_last_record_of_each_run_is_listed_the_newest_last(store: ObjectStore) -> None:
    for run in ("drill-b.1", "drill-a.1", "other.1"):
        with RunLog(store, run, "drill") as log:
            log.result = {}
    assert [run.name for run in listed_runs(store, "drill-")] == ["drill-b.1", "drill-a.1"]
    newest = [run.newest() for run in listed_runs(store)]
    assert [found.record.run for found in newest if found] == ["drill-b.1", "drill-a.1", "other.1"]
    assert {found.record.state for found in newest if found} == {"succeeded"}
