"""Tasks in the driver's own process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.archive import locks
from holdfast.common.errors import RefusedError, SparkNeededError
from holdfast.operations import executor_choice
from holdfast.storage import ObjectStore
from locking import Owner
from sparkjobs.driver.application import Job
from sparkjobs.executors import Tally
from sparkjobs.executors.inline import TRIES, InlineExecutor

Report = Callable[[int, int], None]


def run(executor: InlineExecutor, tasks: range, work: Callable[[int, Report], Iterator[int]]) -> list[int]:
    return executor.run(tasks, work, watch=lambda seen: None, tells_results=False, at_once=None)


def test_one_task_runs_at_a_time_and_what_each_did_is_shown_after_it() -> None:
    begun: list[int] = []
    seen: list[tuple[int, int, list[int], int]] = []

    def work(task: int, report: Report) -> Iterator[int]:
        begun.append(task)
        report(1, 10)
        yield task * 2

    def watch(tally: Tally) -> None:
        seen.append((tally.rows, tally.size, list(tally.results), len(begun)))

    found = InlineExecutor().run(range(3), work, watch=watch, tells_results=True, at_once=None)
    assert found == [0, 2, 4]
    assert seen == [(0, 0, [], 0), (1, 10, [0], 1), (2, 20, [0, 2], 2), (3, 30, [0, 2, 4], 3)]


def test_as_many_tasks_run_at_a_time_as_there_are_cores() -> None:
    together = threading.Barrier(3, timeout=30)

    def work(task: int, report: Report) -> Iterator[int]:
        together.wait()
        yield task

    assert run(InlineExecutor(cores=3), range(3), work) == [0, 1, 2]


def test_what_a_task_yields_is_closed_when_its_job_is_given_up() -> None:
    """At once: not when the garbage collector comes by, which must not wait for a thread."""
    closed = threading.Event()
    going = threading.Event()

    def endless(report: Report) -> Iterator[int]:
        try:
            while True:
                report(1, 1)
                going.set()
                yield 0
        finally:
            closed.set()

    kept: list[Iterator[int]] = []

    def work(task: int, report: Report) -> Iterator[int]:
        if task:
            going.wait(30)
            raise RefusedError("row 7 is too large")
        kept.append(endless(report))
        return kept[0]

    with pytest.raises(RefusedError):
        run(InlineExecutor(cores=2), range(2), work)
    assert closed.wait(30)


def test_a_task_that_fails_for_good_is_tried_once_and_begins_no_other() -> None:
    begun: list[int] = []

    def work(task: int, report: Report) -> Iterator[int]:
        begun.append(task)
        raise RefusedError("row 7 is too large")
        yield task

    with pytest.raises(RefusedError, match="row 7 is too large"):
        run(InlineExecutor(), range(3), work)
    assert begun == [0]


def test_what_a_failed_try_has_reported_does_not_count() -> None:
    tries: list[int] = []

    def work(task: int, report: Report) -> Iterator[int]:
        tries.append(task)
        report(5, 50)
        if len(tries) < TRIES:
            raise ConnectionError("cut")
        yield task

    tallies: list[Tally] = []
    found = InlineExecutor().run([7], work, watch=tallies.append, tells_results=True, at_once=None)
    assert (found, len(tries), tallies[-1].rows, tallies[-1].results) == ([7], TRIES, 5, [7])


def test_a_task_that_fails_each_time_says_why() -> None:
    def work(task: int, report: Report) -> Iterator[int]:
        raise OSError(5, "Input/output error")
        yield task

    with pytest.raises(OSError, match="Input/output error"):
        run(InlineExecutor(), range(1), work)


def test_whoever_waits_for_a_task_can_be_interrupted_and_the_task_ends_at_its_next_step() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work(task: int, report: Report) -> Iterator[int]:
        begun.set()
        try:
            go_on.wait(30)
            report(1, 1)
            raise AssertionError("it went on")
            yield task
        finally:
            ended.set()

    def watch(tally: Tally) -> None:
        if begun.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        InlineExecutor().run([1], work, watch=watch, tells_results=False, at_once=None)
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(30)


@pytest.fixture
def bounded(store: ObjectStore) -> Iterator[Job]:
    """A job that may do small work only."""
    with locks.acquire(store, "compaction", owner=Owner(), purpose="test", wait=0) as held:
        attached = locks.attach(store, held.handles())
        yield Job(store, "run-1", "compaction", attached, InlineExecutor(bounded=True))


def read(task: int, report: Report) -> Iterator[int]:
    yield task


def test_small_work_is_done_up_to_the_bound_all_together(bounded: Job) -> None:
    bounded.claim(executor_choice.INLINE_STORED_BYTES - 1)
    bounded.claim(1)
    assert bounded.map("step", [1], read, estimated_rows=0) == [1]
    with pytest.raises(SparkNeededError, match="more than 48 MiB of stored files are to be read"):
        bounded.claim(1)


def test_work_that_was_not_claimed_is_no_small_work(bounded: Job) -> None:
    with pytest.raises(SparkNeededError):
        bounded.map("step", [1], read, estimated_rows=0)


def test_a_survey_asks_this_process_alone() -> None:
    executor = InlineExecutor()
    found = executor.survey(lambda items: [len(list(items))])
    assert ([each.answers for each in found.workers.values()], found.expected) == ([[1]], 1)
    assert [each.answers for each in executor.survey(None).workers.values()] == [None]
    assert executor.settings() == {}
