"""What every job's driver does: spread work evenly, say what went wrong, and end when it must."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import locks
from holdfast.archive.format.runs import RunRecord, read_last
from holdfast.common.errors import HoldfastError, RefusedError, UsageError, exit_code_of, sentence
from holdfast.operations.job_process import LOCKS_VARIABLE, PARENT_VARIABLE, local_environment, process_start
from holdfast.operations.ready_process import PYTHON_SETTINGS
from holdfast.storage import ObjectStore
from holdfast.storage.contract.object_store import StoreFull
from locking import LeaseHandle, release_handle
from locking.store import StoreError, StoreOutcomeUnknown
from sparkjobs.driver import application
from sparkjobs.driver.application import Job, database_address, run_application
from sparkjobs.executors import daemon, spark
from sparkjobs.executors.inline import InlineExecutor
from sparkjobs.executors.spark import SparkExecutor

Work = Callable[[Job], dict[str, Any]]
Run = Callable[[Work], tuple[int, RunRecord | None]]


@pytest.fixture
def run(store: ObjectStore, job_environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs work as a job would, with a watch that looks often."""
    monkeypatch.setattr(application, "WATCH_S", 0.05)
    monkeypatch.setattr(application, "CHECK_LOCKS_EVERY", 2)
    monkeypatch.setenv(PARENT_VARIABLE, f"{(me := os.getpid())}:{process_start(me)}")

    def work_on(work: Work) -> tuple[int, RunRecord | None]:
        code = run_application("backup", archive=store.url, run="run-1", work=work)
        return code, read_last(store, "run-1")

    return work_on


def message_of(record: RunRecord | None) -> str:
    assert record is not None
    assert record.error is not None
    return record.error.message


def test_what_the_work_returns_is_the_runs_result(run: Run) -> None:
    code, record = run(lambda job: {"rows": 5})
    assert record is not None
    assert (code, record.state, record.result) == (0, "succeeded", {"rows": 5})


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RefusedError("the target is\n  not empty"), 5, "the target is not empty"),
        (KeyError("oid"), 1, "KeyError: 'oid'"),
        (ZeroDivisionError(), 1, "ZeroDivisionError"),
    ],
)
def test_whatever_fails_becomes_one_line_and_an_exit_code(
    run: Run, capsys: pytest.CaptureFixture[str], error: Exception, code: int, message: str
) -> None:
    def fail(job: Job) -> dict[str, Any]:
        raise error

    found, record = run(fail)
    assert (found, message_of(record)) == (code, message)
    assert capsys.readouterr().err == f"holdfast backup: {message}\n"


def test_an_executor_that_does_not_stop_hides_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(InlineExecutor):
        def stop(self) -> None:
            raise OSError("Spark does not stop")

    def refuse(job: Job) -> dict[str, Any]:
        raise RefusedError("the target is not empty")

    monkeypatch.setattr(application, "make_executor", lambda operation: Stuck(cores=1))
    found, record = run(refuse)
    assert (found, message_of(record)) == (5, "the target is not empty")


def test_a_step_is_told_however_soon_it_ends(run: Run) -> None:
    looked: list[None] = []

    def work(job: Job) -> dict[str, Any]:
        with spark._looking(lambda: looked.append(None)):
            pass
        return {}

    assert run(work)[0] == 0
    assert looked


@pytest.mark.parametrize(
    ("is_local", "has_tasks", "prepared"), [(True, True, [PYTHON_SETTINGS]), (True, False, []), (False, True, [])]
)
def test_workers_are_prepared_where_they_will_be_on_this_machine_and_there_are_tasks(
    run: Run,
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    is_local: bool,
    has_tasks: bool,
    prepared: list[dict[str, str]],
) -> None:
    monkeypatch.setattr(application, "make_executor", SparkExecutor)
    environments: list[dict[str, str]] = []
    monkeypatch.setattr(daemon, "prepare", environments.append)
    for name, value in local_environment("local[2]" if is_local else "spark://host:7077").items():
        monkeypatch.setenv(name, value)
    assert run_application("backup", archive=store.url, run="r", work=lambda job: {}, has_tasks=has_tasks) == 0
    assert environments == prepared


def test_a_job_started_by_hand_is_refused(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(LOCKS_VARIABLE, raising=False)
    assert run_application("backup", archive=store.url, run="run-1", work=lambda job: {}) == 2
    assert "start this job by command or operator: it needs their locks" in capsys.readouterr().err
    assert store.list("runs/").objects == ()


@pytest.mark.parametrize("handles", ["", "{}", "[]", "[1]", '[{"txn": "x"}]'])
def test_locks_that_are_none_are_refused(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, handles: str) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, handles)
    assert run_application("backup", archive=store.url, run="run-1", work=lambda job: {}) == 2


def test_a_job_without_a_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SOURCE_URL", raising=False)
    with pytest.raises(UsageError, match="HOLDFAST_SOURCE_URL is not set"):
        database_address("source")


def hang(job: Job) -> dict[str, Any]:
    time.sleep(60)
    return {}


def test_a_job_ends_at_once_when_its_parent_is_gone_whatever_it_waits_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setenv(PARENT_VARIABLE, f"{parent.pid}:{process_start(parent.pid)}")

    def lose_the_parent(job: Job) -> dict[str, Any]:
        parent.kill()  # nobody has waited for it yet: it is a zombie, and gone all the same
        return hang(job)

    started = time.monotonic()
    try:
        code, record = run(lose_the_parent)
    finally:
        parent.communicate()
    assert (code, message_of(record)) == (
        1,
        "the process that started this job is gone, and with it the locks: ending",
    )
    assert time.monotonic() - started < 10


def test_nothing_interrupts_the_step_that_commits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setenv(PARENT_VARIABLE, f"{parent.pid}:{process_start(parent.pid)}")
    noticed = threading.Event()

    def notice(pid: int) -> str | None:
        start = process_start(pid)
        if start is None:
            noticed.set()
        return start

    monkeypatch.setattr(application, "process_start", notice)

    def commit(job: Job) -> dict[str, Any]:
        with job.last_step():
            parent.kill()
            assert noticed.wait(30)
        parent.communicate()
        return {"commit": 1}

    code, record = run(commit)
    assert record is not None
    assert (code, record.state, record.result) == (0, "succeeded", {"commit": 1})


def test_a_job_ends_at_once_when_a_lock_is_lost(run: Run, store: ObjectStore, job_locks: locks.HeldLocks) -> None:
    def lose_a_lock(job: Job) -> dict[str, Any]:
        handle = json.loads(job_locks.handles())[-1]
        release_handle(store, LeaseHandle.from_json(json.dumps(handle)))
        return hang(job)

    started = time.monotonic()
    code, record = run(lose_a_lock)
    assert code == 1
    assert "ingest-shop" in message_of(record)
    assert time.monotonic() - started < 10


def test_a_check_finds_a_lost_lock_before_the_watch_does(
    run: Run, store: ObjectStore, job_locks: locks.HeldLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "WATCH_S", 60)

    def lose_a_lock(job: Job) -> dict[str, Any]:
        for handle in json.loads(job_locks.handles()):
            release_handle(store, LeaseHandle.from_json(json.dumps(handle)))
        job.check()
        raise AssertionError("went on without locks")

    code, record = run(lose_a_lock)
    assert code == 1
    assert "AssertionError" not in message_of(record)


Task = Callable[[int, Callable[[int, int], None]], Iterator[Any]]


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are run without Spark; one test below says all of it of Spark, too, by one start."""
    monkeypatch.setattr(application, "make_executor", lambda operation: InlineExecutor(cores=2))


def tries(folder: Path, *, task: int | str = "*") -> int:
    return len(list(folder.glob(f"{task}-*")))


def failing_for_good(folder: Path) -> Task:
    """Return what task 1 fails at; each try leaves a file in a folder."""

    def work(task: int, report: Callable[[int, int], None]) -> Iterator[int]:
        (folder / f"{task}-{time.monotonic_ns()}").touch()
        if task == 1:
            raise RefusedError("shop.orders cannot be kept")
        yield task

    folder.mkdir()
    return work


@pytest.mark.usefixtures("inline")
def test_a_task_that_fails_for_good_ends_the_job_with_its_own_words_and_code(run: Run, tmp_path: Path) -> None:
    work = failing_for_good(folder := tmp_path / "tries")
    code, record = run(lambda job: {"found": job.map("step", [1, 2], work, estimated_rows=0)})
    assert (code, message_of(record)) == (5, "shop.orders cannot be kept")
    assert tries(folder, task=1) == 1


def failing_for_a_while(folder: Path) -> Task:
    """Return what each task fails at first; each try leaves a file in a folder."""

    def work(task: int, report: Callable[[int, int], None]) -> Iterator[int]:
        first = not list(folder.glob(f"{task}-*"))
        (folder / f"{task}-{time.monotonic_ns()}").touch()
        report(10, 100)
        yield task
        if first:
            raise ConnectionError("cut")

    folder.mkdir()
    return work


@pytest.mark.usefixtures("inline")
def test_a_task_that_fails_for_a_while_is_tried_again_and_counted_once(run: Run, tmp_path: Path) -> None:
    work = failing_for_a_while(folder := tmp_path / "tries")
    code, record = run(lambda job: {"found": job.map("step", [1, 2], work, estimated_rows=0)})
    assert record is not None
    assert (code, record.result) == (0, {"found": [1, 2]})
    assert tries(folder) == 4


EACH_TIME = (
    StoreFull("No room left to write 'data/x'"),
    StoreOutcomeUnknown("no answer to 'data/x'"),
    OSError(5, "Input/output error"),
)


def failing_each_time(error: Exception) -> Task:
    """Return what each task fails at."""

    def work(task: int, report: Callable[[int, int], None]) -> Iterator[int]:
        raise error
        yield task

    return work


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("error", EACH_TIME)
def test_a_task_that_fails_each_time_says_why(run: Run, error: Exception) -> None:
    work = failing_each_time(error)
    code, record = run(lambda job: {"found": job.map("step", [1], work, estimated_rows=0)})
    said = sentence(error)
    if isinstance(error, StoreError):
        said = f"a task failed each time it was tried: {said}"
    assert (code, message_of(record)) == (1, said)


def lose_locks_meanwhile(job: Job, held: locks.HeldLocks, begun: Path) -> list[Any]:
    """Run a task that takes long, and release the job's locks when it has begun."""

    def work(task: int, report: Callable[[int, int], None]) -> Iterator[int]:
        begun.touch()
        time.sleep(60)
        yield task

    progress = job.log.progress

    def lose_once_begun(step: str, **more: int) -> None:
        if begun.exists():
            held.release()
        progress(step, **more)

    job.log.progress = lose_once_begun  # type: ignore[method-assign]
    return job.map("step", [1], work, estimated_rows=0)


@pytest.mark.usefixtures("inline")
def test_a_job_that_loses_its_locks_leaves_its_tasks(run: Run, job_locks: locks.HeldLocks, tmp_path: Path) -> None:
    started = time.monotonic()
    code, record = run(lambda job: {"found": lose_locks_meanwhile(job, job_locks, tmp_path / "begun")})
    assert code == 1
    assert record is not None
    assert record.error is not None
    assert record.error.type == "LockLost"
    assert time.monotonic() - started < 30


@pytest.mark.usefixtures("on_spark")
def test_no_tasks_need_no_spark(run: Run) -> None:
    def work(task: int, report: Callable[[int, int], None]) -> Iterator[int]:
        raise HoldfastError("never called")
        yield task

    code, record = run(lambda job: {"found": job.map("step", [], work, estimated_rows=0)})
    assert record is not None
    assert (code, record.result) == (0, {"found": []})


def alone_and_together(job: Job, tmp_path: Path) -> dict[str, list[list[int]]]:
    """Run tasks one at a time, then two, each of which says how many were at work beside it."""
    folder, met = tmp_path / "running", tmp_path / "met"
    folder.mkdir()

    def meet(task: int, report: Callable[[int, int], None]) -> Iterator[tuple[int, int]]:
        mine = folder / str(task)
        mine.touch()
        until = time.monotonic() + (20 if task >= 10 else 0.2)
        while (beside := len(list(folder.iterdir()))) < 2 and not met.exists() and time.monotonic() < until:
            time.sleep(0.01)
        if beside == 2:
            met.touch()
        yield task, beside
        mine.unlink()

    alone = job.map("reading", range(4), meet, estimated_rows=4, at_once=1)
    together = job.map("reading", range(10, 14), meet, estimated_rows=4, at_once=2)
    return {name: [list(each) for each in found] for name, found in (("alone", alone), ("together", together))}


def assert_alone_and_together(found: dict[str, list[list[int]]]) -> None:
    assert found["alone"] == [[task, 1] for task in range(4)]
    assert [task for task, _ in found["together"]] == list(range(10, 14))
    assert max(beside for _, beside in found["together"]) == 2


@pytest.mark.usefixtures("inline")
def test_no_more_tasks_run_at_once_than_wanted_and_their_results_keep_their_order(run: Run, tmp_path: Path) -> None:
    code, record = run(lambda job: alone_and_together(job, tmp_path))
    assert record is not None
    assert record.result is not None, record.error
    assert code == 0
    assert_alone_and_together(record.result)


@pytest.mark.service
def test_tasks_of_spark_are_tried_counted_ended_and_told_of_as_those_of_inline_jobs(
    run: Run, job_locks: locks.HeldLocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "make_executor", SparkExecutor)
    error = EACH_TIME[0]

    def work(job: Job) -> dict[str, Any]:
        for_a_while = failing_for_a_while(tmp_path / "for a while")
        assert job.map("step", [1, 2], for_a_while, estimated_rows=0) == [1, 2]
        assert tries(tmp_path / "for a while") == 4
        assert_alone_and_together(alone_and_together(job, tmp_path))
        with pytest.raises(HoldfastError, match=r"^shop\.orders cannot be kept$") as raised:
            job.map("step", [1, 2], failing_for_good(tmp_path / "for good"), estimated_rows=0)
        assert exit_code_of(raised.value) == 5
        assert tries(tmp_path / "for good", task=1) == 1
        with pytest.raises(HoldfastError, match=f"^a Spark task failed each time it was tried: {error}$"):
            job.map("step", [1], failing_each_time(error), estimated_rows=0)
        return {"found": lose_locks_meanwhile(job, job_locks, tmp_path / "begun")}

    code, record = run(work)
    assert record is not None
    assert record.error is not None
    assert (code, record.error.type) == (1, "LockLost"), record.error


@pytest.mark.usefixtures("inline")
def test_a_task_that_fails_for_good_ends_the_others_that_wait_their_turn(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "begun"
    folder.mkdir()

    def work_on(task: int, report: Callable[[int, int], None]) -> Iterator[int]:
        (folder / str(task)).touch()
        if task == 1:
            raise RefusedError("row 7 is too large")
        yield task

    code, record = run(lambda job: {"rows": job.map("reading", range(50), work_on, estimated_rows=1, at_once=1)})
    assert (code, message_of(record)) == (5, "row 7 is too large")
    assert len(list(folder.iterdir())) < 50
