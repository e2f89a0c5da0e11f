"""The application that checks a cluster, with this process as its only worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.archive.format.runs import read_last
from holdfast.operations.cluster_check import SOURCES_VARIABLE
from holdfast.operations.job_process import RECORDS_VARIABLE
from holdfast.storage import ObjectStore, open_store
from sparkjobs import cluster_check
from sparkjobs.driver.application import Job
from sparkjobs.executors.survey import WorkerFacts, WorkerSurvey
from sparkjobs.executors.worker_facts import facts

GONE = "postgresql://me@127.0.0.1:1/x"


def checked(url: str, records: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the remedies by what they are for, without the worker's name."""
    monkeypatch.setenv(RECORDS_VARIABLE, str(records))
    assert cluster_check.main(["--archive", url, "--run", "check"]) == 0
    record = read_last(open_store(str(records)), "check")
    assert record is not None
    assert record.result is not None
    return {each["what"].rpartition(": ")[2]: each["remedy"] for each in record.result["findings"]}


def test_the_store_and_each_source_are_asked_for_and_the_archive_stays_as_it_was(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [each.key for each in store.list("").objects]
    monkeypatch.setenv(SOURCES_VARIABLE, json.dumps([["shop", GONE, "s3cret"], ["other", GONE, None]]))
    remedies = checked(store.url, tmp_path / "records", monkeypatch)
    assert {"archive", "writing", "source shop", "source other", "clock", "clock of the store"} <= remedies.keys()
    assert (remedies["archive"], remedies["writing"], remedies["clock"]) == ("", "", "")
    assert "Is the server running" in remedies["source shop"]
    assert remedies["authentication"].startswith("set spark.authenticate to true")  # there is no Spark here
    assert [each.key for each in store.list("").objects] == before
    kept = b"".join(each.read_bytes() for each in (tmp_path / "records").rglob("*") if each.is_file())
    assert b"s3cret" not in kept


def test_a_place_without_an_archive_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remedies = checked(str(tmp_path / "none"), tmp_path / "records", monkeypatch)
    assert "there is no archive.json" in remedies["archive"]
    assert "writing" not in remedies
    assert not (tmp_path / "none").exists()


def test_all_is_asked_again_where_a_worker_comes_in_the_middle(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def survey(job: Job, question: object) -> WorkerSurvey:
        asked.append(1 if not asked else 2)
        found = WorkerSurvey(asked[-1])
        for host in "ab"[: asked[-1]]:
            found.add(WorkerFacts(**{**facts(), "host": host, "answers": []}), 0.0, 0.0)
        return found

    monkeypatch.setattr(Job, "survey", survey)
    assert checked(store.url, tmp_path / "records", monkeypatch)["cluster"] == ""
    assert asked == [1, 2, 2, 2]
