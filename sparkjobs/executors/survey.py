"""Surveys: one question put to each executor, also to those of another release, or without Holdfast."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Question = Callable[[Iterable[Any]], Iterable[Any]]
    """Function of a task: what it yields is the answer of its worker."""

ROUNDS = 5
"""Of one task for each executor: two of them may meet on one."""

PATIENCE_S = 60.0
"""Seconds to wait for the first executor."""

SETTLE_S = 5.0
"""Seconds without another executor, after which all are taken to be there."""

LOOK_S = 0.1
"""Between two looks at the number of executors."""


@dataclass(frozen=True)
class WorkerFacts:
    """Facts that one executor's Python reports of itself.

    :param folder: of its executor's own files; with the host, it names the executor.
    :param clock: seconds since 1970.
    :param release: of Holdfast; "" for none, as for `pyarrow`.
    :param free: bytes by the folder that is written to.
    :param closed: the folder that keeps others from Spark's files; "" for none.
    :param answers: to the question; None where it was not put.
    :param error: why there are no answers.
    """

    host: str
    folder: str
    clock: float
    python: str
    prefix: str
    release: str
    pyarrow: str
    free: Mapping[str, int]
    closed: str
    answers: Sequence[Any] | None = None
    error: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.host, self.folder


@dataclass
class WorkerSurvey:
    """Answers of executors to a question.

    :param expected: how many executors there are.
    :param workers: those that answered, by what names them.
    :param clocks: seconds that the clock of each is ahead of this machine's, with the uncertainty.
    """

    expected: int
    workers: dict[tuple[str, str], WorkerFacts] = field(default_factory=dict)
    clocks: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def add(self, facts: WorkerFacts, begun: float, ended: float) -> None:
        """Add an answer given between two times of this clock; the closest two of several tell of clocks best."""
        self.workers.setdefault(facts.key, facts)
        ahead, unsure = facts.clock - (begun + ended) / 2, (ended - begun) / 2
        if facts.key not in self.clocks or unsure < self.clocks[facts.key][1]:
            self.clocks[facts.key] = ahead, unsure


def wait_for_executors(count: Callable[[], int]) -> None:
    """Wait until no more executors come.

    :raises HoldfastError: none has come.
    """
    seen, since = 0, time.monotonic()
    while time.monotonic() - since < (SETTLE_S if seen else PATIENCE_S):
        if (now := count()) != seen:
            seen, since = now, time.monotonic()
        time.sleep(LOOK_S)
    if not seen:
        raise HoldfastError(
            f"no worker has taken this job within {PATIENCE_S:.0f} s: look at the master's page whether workers are "
            "there with cores and memory free, and whether they can connect to this machine (spark.driver.host, and "
            "the same spark.authenticate.secret here and there)"
        )


def survey(count: int, run: Callable[[int], Sequence[Mapping[str, Any]]]) -> WorkerSurvey:
    """Ask until each of `count` executors has answered.

    :param run: runs so many tasks, and returns the facts of each.
    """
    found = WorkerSurvey(count)
    for _ in range(ROUNDS):
        begun = time.time()
        answers = run(count)
        ended = time.time()
        for each in answers:
            found.add(WorkerFacts(**each), begun, ended)
        if len(found.workers) >= count:
            break
    return found
