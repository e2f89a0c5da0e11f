"""The log of a task: words for people in it, and Spark's own lines beside."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive.format.runs import RunRecord
from holdfast_airflow.jobs.log_lines import progress_logged, spark_lines
from locking.store import StoreUnavailable

SPARKS = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
    "26/11/26 23:34:35 INFO SparkContext: Running Spark version 4.2.0",
    "26/11/26 23:34:35 WARN TaskSetManager: Lost task 0.0 in stage 0.0",
    "at org.apache.spark.api.python.PythonRunner.run(PythonRunner.scala:1)",
    "... 3 more",
    "/x/pyspark/testing/utils.py:127: FutureWarning: PySpark does not yet fully support pandas >= 3.0.0.",
    "require_minimum_pandas_version()",
)
OURS = (
    "holdfast: shop.cart is restored as it was",
    "26/11/26 23:34:35 ERROR Executor: out of memory",
    "at sea there is no land",
    "holdfast backup: shop.orders cannot be kept",
)


class Log:
    """The log of a task."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, words: str, *values: object) -> None:
        self.lines.append(words % values if values else words)

    def warning(self, words: str) -> None:
        self.lines.append(f"! {words}")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Log()


def test_sparks_lines_are_in_a_file_that_stays_where_the_job_fails(log: Log, tmp_path: Path) -> None:
    def fail() -> None:
        with spark_lines(log, "r") as lines:
            for line in (*SPARKS, *OURS):
                lines.info("%s", line)
            lines.warning("from the hook")
            raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        fail()
    (file,) = tmp_path.glob("holdfast-r-*.log")
    assert str(file) in log.lines[0]
    assert log.lines[1:] == [*OURS, "! from the hook"]
    assert file.read_text().splitlines() == list(SPARKS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_of_a_job_that_succeeds_no_file_is_left(log: Log, tmp_path: Path) -> None:
    with spark_lines(log, "r") as lines:
        lines.info(SPARKS[2])
    assert list(tmp_path.glob("*.log")) == []


def records() -> Iterator[RunRecord | None]:
    def record(step: str, rows: int = 0, state: Any = "running") -> RunRecord:
        return RunRecord(run="r", number=0, operation="backup", state=state, step=step, rows=rows)

    yield None
    yield record("reading tables")
    yield record("reading tables", 10)
    yield record("committing")
    yield record("committing", state="succeeded")


@pytest.mark.parametrize(("again_s", "said"), [(1000.0, ["reading tables", "committing"]), (0.0, 3)])
def test_each_step_is_logged_as_it_begins_and_one_that_goes_on_now_and_then(again_s: float, said: Any) -> None:
    ended, told = threading.Event(), records()
    heard: list[str] = []

    def read() -> RunRecord | None:
        try:
            return next(told)
        except StopIteration:
            ended.set()
            return None

    with progress_logged(read, heard.append, poll_s=0, same_step_s=again_s):
        assert ended.wait(10)
    assert ([words.partition(" · ")[0] for words in heard] if again_s else len(heard)) == said


def test_a_store_that_is_away_ends_no_job() -> None:
    asked = threading.Event()

    def away() -> RunRecord | None:
        asked.set()
        raise StoreUnavailable("no route")

    with progress_logged(away, lambda words: None, poll_s=0):
        assert asked.wait(10)
