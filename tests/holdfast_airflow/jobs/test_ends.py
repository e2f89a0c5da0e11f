"""How a job's process has ended, by what it or Spark has said."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.format.runs import RunLog
from holdfast.common.errors import HoldfastError
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.storage import ObjectStore, open_store
from holdfast_airflow.jobs.ends import end_of, open_archive, read_last_record, told_end
from holdfast_airflow.jobs.prepared_job import PreparedJob


def job(url: str) -> PreparedJob:
    return PreparedJob(url=url, run="r", source=None, database=None, request=VacuumRequest())


def test_an_inline_process_that_went_well_says_nothing() -> None:
    assert told_end(0, ["half way"]) == ""
    end = end_of("", "vacuum")
    assert (end.code, end.words, list(end.output)) == (0, "", [])


def test_the_last_lines_of_a_failed_one_are_its_end() -> None:
    problem = told_end(3, ["half way", "", "holdfast vacuum: somebody works"])
    assert problem.startswith("The job's process ended with exit code 3. Last output:\n")
    end = end_of(problem, "vacuum")
    assert end.code is None
    assert end.words == "somebody works"
    assert list(end.output) == ["half way", "holdfast vacuum: somebody works"]


def test_what_spark_submit_said_last_is_the_end_of_its_job() -> None:
    end = end_of("Cannot execute: spark-submit …. Last spark-submit output:\nJAVA_HOME is not set\n\n", "backup")
    assert (end.words, list(end.output)) == ("", ["JAVA_HOME is not set"])
    assert list(end_of("Cannot execute: spark-submit", "backup").output) == []


def test_the_newest_record_of_a_run_is_read(store: ObjectStore) -> None:
    assert read_last_record(store, "r") is None
    log = RunLog(store, "r", "vacuum")
    log.progress("looking")
    log.progress("deleting")
    found = read_last_record(store, "r")
    assert found is not None
    assert found.step == "deleting"


def test_nothing_is_written_where_there_is_no_archive(store: ObjectStore, tmp_path: Path) -> None:
    assert open_archive(job(store.url)).url == store.url
    nowhere = tmp_path / "nowhere"
    with pytest.raises(HoldfastError):
        open_archive(job(str(nowhere)))
    assert not nowhere.exists()
    assert Archive.open(open_store(store.url)).state.sequence == 0
