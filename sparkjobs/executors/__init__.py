"""Executors of jobs: Spark, and inline in the driver's own process.

Imports nothing else of `sparkjobs`. A job's driver plans, and hands tasks to its executor; a task never learns
which one runs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.common.errors import ReportedError
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore
    from sparkjobs.executors.survey import Question, WorkerSurvey

    Reporter = Callable[[int, int], None]
    """Takes the rows and bytes that a task has done since its last report."""

    Work = Callable[[Any, Reporter], Iterable[Any]]
    """Does one task and yields small results."""

R = TypeVar("R")


@contextmanager
def closing_generator(results: Iterable[R]) -> Iterator[Iterable[R]]:
    """Close the results of a task when they are left, as a generator may have threads (`do_side_by_side` says why)."""
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()


WATCH_S = 1.0
"""Between two looks at how tasks go on."""


@dataclass
class Tally:
    """Rows and bytes done, results, and failures for good, as tasks report them to the driver while it waits."""

    rows: int = 0
    size: int = 0
    failures: list[ReportedError] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)


class Executor(ABC):
    """Runs the tasks of one job."""

    @property
    @abstractmethod
    def cores(self) -> int:
        """Return how many tasks run at a time."""

    @property
    def is_bounded(self) -> bool:
        """Return whether only small work may run."""
        return False

    def prepare(self) -> None:  # noqa: B027 - there may be nothing to do
        """Start what is slow to start, before the first task is known, where it runs on this machine."""

    def start(self, modules: Sequence[str]) -> None:  # noqa: B027
        """Start to import modules for the tasks, without waiting for it."""

    def check_reach(self, things: Sequence[ObjectStore | Address]) -> None:  # noqa: B027
        """Check that tasks can open stores and databases where they run.

        :raises HoldfastError: they cannot.
        """

    def settings(self) -> Mapping[str, str]:
        """Return Spark's settings in force; there are none without Spark."""
        return {}

    @abstractmethod
    def survey(self, question: Question | None) -> WorkerSurvey:
        """Put a question to each worker; None asks for its own facts.

        :raises HoldfastError: there is no worker, or none can be asked.
        """

    @abstractmethod
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

        :param watch: is shown the tally about once a second and once after the end, also where that is an error.
        :param tells_results: the tally holds results, too: those of tasks that ended are known while others go on.
        :param at_once: so many tasks at a time, at most; None leaves that to the executor.
        :raises HoldfastError: a task failed for good.
        """

    def stop(self) -> None:  # noqa: B027
        """End the tasks that still run."""
