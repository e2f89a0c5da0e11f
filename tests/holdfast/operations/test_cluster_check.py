"""The check of a cluster, as the process that starts its job sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.archive.format.runs import RunLog
from holdfast.common.doctor_finding import DoctorFinding
from holdfast.common.errors import UsageError
from holdfast.operations import job_process
from holdfast.operations.cluster_check import SOURCES_VARIABLE, check_cluster, cluster_master
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.postgresql.connection.address import Address
from holdfast.storage import open_store
from tests.support.stores.failing_server import closed_port

GOOD = DoctorFinding("worker a: disk", "9 GB free")


def submitted(
    end: Callable[[RunLog], None], *, code: int = 0, words: str = ""
) -> Callable[[str, Sequence[str], Mapping[str, str]], int]:
    """Return what stands for the start of a job, which ends as told."""

    def submit(
        application: str, arguments: Sequence[str], environment: Mapping[str, str], *, log: Path, **more: Any
    ) -> int:
        assert (application, more["master"]) == ("cluster_check", "yarn")
        assert more["conf"]["spark.python.worker.reuse"] == "false"
        assert "s3cret" not in " ".join(arguments) + str(more)
        assert json.loads(environment[SOURCES_VARIABLE]) == [["shop", "postgresql://me@db/x", "s3cret"]]
        log.write_text(words)
        records = open_store(environment[job_process.RECORDS_VARIABLE])
        end(RunLog(records, arguments[arguments.index("--run") + 1], "cluster_check"))
        return code

    return submit  # type: ignore[return-value]


def check(tmp_path: Path, submit: object) -> list[DoctorFinding]:
    sources = {"shop": Address.parse("postgresql://me:s3cret@db/x")}
    with patch.object(job_process, "submit", submit):
        return list(check_cluster("yarn", open_store(str(tmp_path / "archive")), sources))


def test_what_the_job_found_is_told(tmp_path: Path) -> None:
    def end(log: RunLog) -> None:
        with log:
            log.result = {"findings": [GOOD.describe()]}

    assert check(tmp_path, submitted(end)) == [GOOD]


def test_a_job_that_failed_is_a_finding(tmp_path: Path) -> None:
    def end(log: RunLog) -> None:
        with pytest.raises(UsageError), log:
            raise UsageError("Spark's workers have no Holdfast")

    (found,) = check(tmp_path, submitted(end, code=2))
    assert found == DoctorFinding("cluster", "yarn cannot be used", "Spark's workers have no Holdfast")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("WARN x\nholdfast cluster_check: it is not told why\n", "it is not told why"),
        ("a\nb\nc\nd\n", "the job ended with exit code 1 (b | c | d)"),
    ],
)
def test_a_job_that_could_record_nothing_is_told_by_its_last_words(tmp_path: Path, words: str, told: str) -> None:
    (found,) = check(tmp_path, submitted(lambda log: None, code=1, words=words))
    assert found.remedy == told


def test_an_executor_that_is_forced_to_be_none_of_the_cluster_s_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORCED_VARIABLE, "inline")
    found = check(tmp_path, submitted(lambda log: None, code=1, words="holdfast cluster_check: no"))
    assert [each.what for each in found] == ["executor", "cluster"]


@pytest.mark.parametrize("master", ["", "local", "local[4]"])
def test_a_master_that_is_no_cluster_is_refused(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(job_process.MASTER_VARIABLE, master)
    with pytest.raises(UsageError, match="set it to the cluster's master, such as spark://host:7077"):
        cluster_master()
    monkeypatch.setenv(job_process.MASTER_VARIABLE, "yarn")
    assert cluster_master() == "yarn"


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{closed}", "spark://127.0.0.1:{closed},nowhere", "spark://x:y"])
def test_a_master_that_does_not_answer_is_told_at_once(tmp_path: Path, master: str) -> None:
    place = master.format(closed=closed_port())
    (found,) = check_cluster(place, open_store(str(tmp_path)), {})
    assert (found.what, found.found) == ("cluster", f"{place} cannot be used")
    assert found.remedy.startswith("no master answers (")
