"""Jobs of tasks that run inline: each in a child process of its task, without Java or a Spark connection."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout

from holdfast.operations.executor_choice import HAND_OVER
from holdfast.operations.job_process import process_start
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import (
    CompactOperator,
    MigrateOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators import job as job_module
from holdfast_airflow.operators.job import ArchiveJobOperator
from tests.support.airflow.operators import FakeSpark, locks_of, run

pytestmark = pytest.mark.slow

Program = Callable[[str], None]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for Spark fails: there is no Java, and no connection."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts a Python program in the place of the application."""

    def put(text: str) -> None:
        def command(application: str, arguments: Sequence[str]) -> list[str]:
            return [sys.executable, "-c", text, application, *arguments]

        monkeypatch.setattr(job_module, "inline_command", command)

    return put


@contextmanager
def once(seen: Callable[[], bool], do: Callable[[], None]) -> Iterator[None]:
    """Do something beside the block once something is seen, unless the block ends before."""
    ended = threading.Event()

    def watch() -> None:
        while not seen():
            if ended.wait(0.02):
                return
        do()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    "operator",
    [
        # As a truncation, these have no tasks; in tests/in_airflow, they run inline in a real Airflow.
        pytest.param(VacuumOperator(task_id="save", archive="shop"), marks=pytest.mark.exhaustive),
        TruncateOperator(task_id="save", archive="shop", keep=["last=1"]),
        pytest.param(MigrateOperator(task_id="save", archive="shop", to=2), marks=pytest.mark.exhaustive),
        CompactOperator(task_id="save", archive="shop"),
        VerifyOperator(task_id="save", archive="shop", deep=False),
    ],
    ids=lambda operator: operator.operation,
)
def test_small_work_needs_neither_java_nor_a_spark_connection(
    store: ObjectStore, context: dict[str, Any], operator: ArchiveJobOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    run(operator, context)
    assert f"this {operator.operation} runs inline, without Spark" in capsys.readouterr().out
    assert locks_of(store) == []


@pytest.mark.usefixtures("nowhere", "store")
def test_what_needs_spark_asks_for_it_before_any_lock(context: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((JobFailed, JobRefused), match="spark_default"):
        run(VerifyOperator(task_id="save", archive="shop"), context)
    assert not (tmp_path / "archive" / "locks").exists()


def test_work_that_is_more_than_small_is_done_by_spark_after_all(
    store: ObjectStore, spark: FakeSpark, program: Program, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(f"import sys; sys.exit({HAND_OVER})")
    monkeypatch.setenv("FAKE_RESULT", '{"commit": 3}')
    spark.play("tell")
    summary = run(CompactOperator(task_id="save", archive="shop", job_executor="auto"), context)
    assert summary["commit"] == 3
    assert spark.seen()["env"]["HOLDFAST_JOB_EXECUTOR"] == "spark"


def test_what_the_job_says_is_logged_and_its_last_lines_are_in_the_failure(
    store: ObjectStore, program: Program, context: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    program("import sys; print('half way'); sys.exit('no room is left')")
    with pytest.raises(JobFailed, match=r"ended with exit code 1 before it gave a reason.*half way \| no room"):
        run(VacuumOperator(task_id="save", archive="shop"), context)
    assert capsys.readouterr().out.count("half way") == 1
    assert locks_of(store) == []


def test_a_task_that_is_killed_ends_its_job_and_releases_its_locks(
    store: ObjectStore, program: Program, context: dict[str, Any], tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    program(f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(600)")
    operator = VacuumOperator(task_id="save", archive="shop")

    with (
        once(begun.exists, operator.on_kill),
        pytest.raises(JobFailed, match="the task was killed, and its job with it"),
    ):
        run(operator, context)
    assert locks_of(store) == []


def test_a_task_that_runs_into_its_time_out_ends_its_job_at_once(
    store: ObjectStore, program: Program, context: dict[str, Any], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    program(f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)")
    operator = VacuumOperator(task_id="save", archive="shop")

    def time_out(number: int, frame: FrameType | None) -> None:
        raise AirflowTaskTimeout("it took too long")

    def send() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, time_out)
    try:
        with once(lambda: pid.exists() and bool(pid.read_text()), send), pytest.raises(AirflowTaskTimeout):
            run(operator, context)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert process_start(int(pid.read_text())) is None
    assert locks_of(store) == []
