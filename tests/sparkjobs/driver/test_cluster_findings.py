"""Findings on a cluster, from what its workers told."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import pytest

import holdfast
from holdfast.common.doctor_finding import DoctorFinding
from sparkjobs.driver.cluster_findings import ClusterFindings, clock
from sparkjobs.executors.survey import WorkerFacts, WorkerSurvey

GUARDED = {
    "spark.master": "spark://master:7077",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
READ = DoctorFinding("archive", "shop can be read")


def worker(host: str = "a", folder: str = "/var/spark/1", **other: Any) -> WorkerFacts:
    facts: dict[str, Any] = {
        "clock": 0.0,
        "python": platform.python_version(),
        "prefix": "/opt/holdfast",
        "release": holdfast.__version__,
        "pyarrow": metadata.version("pyarrow"),
        "free": {"/var/spark/1": 9 << 30},
        "closed": "/var/spark",
        "answers": (READ,),
    }
    return WorkerFacts(host, folder, **{**facts, **other})


def survey(*workers: WorkerFacts, expected: int | None = None) -> WorkerSurvey:
    made = WorkerSurvey(len(workers) if expected is None else expected)
    for each in workers:
        made.add(each, -0.25, 0.25)
    return made


def found(*surveys: WorkerSurvey, settings: dict[str, str] | None = None) -> dict[str, DoctorFinding]:
    made = ClusterFindings(GUARDED if settings is None else settings)
    for each in surveys:
        made.add("archive", each)
    return {each.what: each for each in made.findings()}


def test_a_cluster_on_which_all_is_well_has_no_remedy() -> None:
    findings = found(survey(worker("a"), worker("b")))
    assert [each for each in findings.values() if not each.ok] == []
    assert findings["cluster"].found == "spark://master:7077, 2 of 2 executors answered (on a, b)"
    assert [what for what in findings if what.startswith("worker b")] == [
        "worker b: release",
        "worker b: disk",
        "worker b: folder",
        "worker b: archive",
        "worker b: clock",
    ]


def test_executors_of_one_host_have_numbers() -> None:
    findings = found(survey(worker("a", "/2"), worker("a", "/1"), worker("b")))
    assert {what.partition(":")[0] for what in findings} - {"cluster", "authentication", "encryption"} == {
        "worker a #1",
        "worker a #2",
        "worker b",
    }


@pytest.mark.parametrize("off", sorted(GUARDED.keys() - {"spark.master"}))
def test_a_setting_that_guards_secrets_and_is_off_is_told(off: str) -> None:
    findings = found(survey(worker()), settings={**GUARDED, off: "false"})
    (failed,) = [each for each in findings.values() if not each.ok]
    assert (f"{off} false" in failed.found, failed.remedy.startswith(f"set {off} to true")) == (True, True)


@pytest.mark.parametrize(
    ("there", "remedy"),
    [
        ({"release": "0.0.9"}, f"Holdfast 0.0.9 there and {holdfast.__version__} here: install the same"),
        ({"release": ""}, f"Holdfast is missing there and {holdfast.__version__} here"),
        ({"python": "3.99.1"}, f"Python 3.99.1 there and {platform.python_version()} here"),
        ({"pyarrow": "1.0"}, f"pyarrow 1.0 there and {metadata.version('pyarrow')} here"),
        ({"python": f"{platform.python_version().rpartition('.')[0]}.99"}, ""),
    ],
    ids=["Holdfast", "no Holdfast", "Python", "pyarrow", "a patch of Python"],
)
def test_what_a_worker_has_of_another_version_is_told_with_both(there: dict[str, str], remedy: str) -> None:
    told = found(survey(worker(**there)))["worker a: release"].remedy
    assert told.startswith(remedy) if remedy else told == ""
    assert ("its Python is in /opt/holdfast" in told) is bool(remedy)


def test_a_disk_without_room_and_a_folder_that_is_open_are_told() -> None:
    findings = found(survey(worker(free={"/var/spark/1": 5 << 20, "/data": 9 << 30}, closed="")))
    assert findings["worker a: disk"].found == "5.2 MB free in /var/spark/1, 9.7 GB free in /data"
    assert findings["worker a: disk"].remedy.startswith("less than 1.1 GB is left in /var/spark/1: free some")
    assert "mode 0700" in findings["worker a: folder"].remedy


def test_a_question_that_failed_or_came_too_late_is_told_of_its_worker() -> None:
    first = survey(worker("a", answers=None, error="EOFError: it ended"), worker("b"))
    second = survey(worker("a", answers=None), expected=2)
    made = ClusterFindings(GUARDED)
    made.add("archive", first)
    made.add("source shop", second)
    made.add("", second)
    findings = {each.what: each for each in made.findings()}
    assert findings["worker a: archive"].remedy == "EOFError: it ended"
    assert "worker a: source shop" not in findings
    assert findings["worker b: source shop"].found == "was not asked"
    assert not made.is_whole


@pytest.mark.parametrize(
    ("second", "whole"), [(("a", "b"), True), (("a",), False), (("a", "b", "c"), False)], ids=["all", "gone", "late"]
)
def test_findings_are_whole_where_each_executor_had_each_question(second: tuple[str, ...], whole: bool) -> None:
    made = ClusterFindings(GUARDED)
    made.add("archive", survey(worker("a"), worker("b")))
    made.add("", survey(*(worker(host) for host in second)))
    assert made.is_whole is whole


def test_executors_that_do_not_answer_are_counted() -> None:
    assert found(survey(worker(), expected=3))["cluster"].found.endswith("1 of 3 executors answered (on a)")
    assert found(survey(worker(), expected=3))["cluster"].remedy.startswith("try again")


@pytest.mark.parametrize(
    ("ahead", "unsure", "ok"), [(3.4, 0.5, True), (-3.4, 0.5, True), (3.6, 0.5, False), (-9, 2, False)]
)
def test_a_clock_may_be_off_by_little(ahead: float, unsure: float, ok: bool) -> None:
    finding = clock("clock", ahead, unsure, other="ours")
    assert finding.ok is ok
    words = "ahead of" if ahead > 0 else "behind"
    assert finding.found == f"{abs(ahead):.1f} s {words} ours, give or take {unsure:.1f} s"
