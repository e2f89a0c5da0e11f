"""Tasks in the driver's own process, without Java: for small work, and for tests of jobs."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import HoldfastError, sentence
from locking.store import StoreError
from sparkjobs.executors import WATCH_S, Executor, Tally, closing_generator
from sparkjobs.executors.survey import survey
from sparkjobs.executors.worker_facts import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkjobs.executors import Work
    from sparkjobs.executors.survey import Question, WorkerSurvey

TRIES = 4
"""Of a task that fails for a reason of its own, as in a local Spark."""


class _Cancelled(BaseException):
    """Cancellation of a task between two of its steps; no task catches it."""


@dataclass
class _Running:
    """Tasks that run together, with the tally of their results."""

    work: Work
    tells_results: bool
    tally: Tally = field(default_factory=Tally)
    is_cancelled: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, task: Any) -> Future[list[Any]]:
        ended: Future[list[Any]] = Future()

        def go() -> None:
            try:
                ended.set_result(self._tried(task))
            except BaseException as error:  # noqa: BLE001 - it is raised where the job waits
                ended.set_exception(error)

        # A daemon: a job that is ended does not wait for a database that does not answer.
        threading.Thread(target=go, name="task", daemon=True).start()
        return ended

    def _tried(self, task: Any) -> list[Any]:
        for left in reversed(range(TRIES)):
            seen = Tally()
            try:
                seen.results = self._done(task, seen)
                break
            except Exception as error:
                if not left and isinstance(error, StoreError):
                    # It is no outcome of the job's own that would be unknown: nothing counts before its commit.
                    raise HoldfastError(f"a task failed each time it was tried: {sentence(error)}") from error
                if isinstance(error, HoldfastError) or not left:
                    raise
        with self._guard:
            self.tally.rows += seen.rows
            self.tally.size += seen.size
            if self.tells_results:
                self.tally.results += seen.results
        return seen.results

    def _done(self, task: Any, seen: Tally) -> list[Any]:
        def report(rows: int, size: int) -> None:
            if self.is_cancelled:
                raise _Cancelled
            seen.rows += rows
            seen.size += size

        found = []
        with closing_generator(self.work(task, report)) as results:
            for result in results:
                report(0, 0)
                found.append(result)
        return found


class InlineExecutor(Executor):
    """Executor that runs each task in a thread of this process; the thread that waits can be interrupted.

    Tasks that are cancelled end at their next step, or with this process.

    :param cores: tasks at a time.
    :param bounded: only small work may run in it.
    """

    def __init__(self, *, cores: int = 1, bounded: bool = False) -> None:
        self._cores = cores
        self._bounded = bounded

    @property
    def cores(self) -> int:
        return self._cores

    @property
    def is_bounded(self) -> bool:
        return self._bounded

    def survey(self, question: Question | None) -> WorkerSurvey:
        more = {} if question is None else {"answers": list(question([None]))}
        return survey(1, lambda count: [{**facts(), **more}])

    def run(
        self,
        tasks: Sequence[Any],
        work: Work,
        *,
        watch: Callable[[Tally], None],
        tells_results: bool,
        at_once: int | None,
    ) -> list[Any]:
        """Run tasks and return their results, in the order of the tasks.

        :raises HoldfastError: a task failed for good, or its store failed it each time. Any other error of a task is
            raised once it was tried four times.
        """
        running = _Running(work, tells_results)
        most = min(at_once or self._cores, self._cores)
        begun: list[Future[list[Any]]] = []
        left: set[Future[list[Any]]] = set()
        watch(running.tally)
        try:
            while left or len(begun) < len(tasks):
                for task in tasks[len(begun) : len(begun) + most - len(left)]:
                    begun.append(running.begin(task))
                    left.add(begun[-1])
                ended, left = wait(left, WATCH_S, return_when=FIRST_COMPLETED)
                watch(running.tally)
                for each in ended:
                    each.result()
        finally:
            running.is_cancelled = True
        return [result for each in begun for result in each.result()]
