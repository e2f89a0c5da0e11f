"""What is learnt from a run's records."""

from __future__ import annotations

from typing import Literal

import pytest

from bench.support.holdfast_command import Measured, working_seconds
from holdfast.archive.format.runs import RunRecord


def record(step: str, elapsed: float, seconds: float | None = None) -> RunRecord:
    state: Literal["running", "succeeded"] = "running" if seconds is None else "succeeded"
    result = None if seconds is None else {"seconds": seconds}
    return RunRecord(run="r", number=0, operation="restore", state=state, step=step, elapsed_s=elapsed, result=result)


RECORDS = (
    record("starting", 0.0),
    record("creating tables", 3.0),
    record("loading rows", 4.0),
    record("loading rows", 6.0),
    record("building indexes and constraints", 13.0),
    record("done", 21.0, seconds=20.0),
)


def test_the_work_begins_when_spark_has_started_and_ends_with_the_result() -> None:
    assert working_seconds(RECORDS) == 17.0


def test_a_step_lasts_from_its_first_record_to_that_of_another() -> None:
    measured = Measured(whole=30.0, rows=1, stored=1, records=RECORDS)
    assert measured.between("creating tables", "building indexes and constraints") == 10.0
    assert measured.between("loading rows", "building indexes and constraints") == 9.0


@pytest.mark.parametrize("records", [(), RECORDS[:-1]])
def test_a_run_that_did_not_end_well_has_no_time(records: tuple[RunRecord, ...]) -> None:
    with pytest.raises(ValueError, match="no result"):
        working_seconds(records)
