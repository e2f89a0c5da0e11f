"""What runs in Spark's tasks around the work itself, and how work is cut into tasks."""

from __future__ import annotations

import gc
import importlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.accumulators import AccumulatorParam

from holdfast.errors import HoldfastError, ReportedError, exit_code_of, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.accumulators import Accumulator

_T = TypeVar("_T")


def pack(items: Iterable[_T], weight: Callable[[_T], int], *, room: int, most: int = 100) -> list[list[_T]]:
    """Pack items into tasks of about `room`, the heaviest first, so that tasks are even.

    Ten thousand tiny tables become a few hundred tasks, of neighbours: what is stored together is read by one. What is
    as heavy as `room` is one alone.

    :param most: items in one task, at most.
    """

    def needed(item: _T) -> int:
        return max(weight(item), room // most)

    tasks: list[list[_T]] = []
    left = 0
    for item in sorted(items, key=needed, reverse=True):
        if not tasks or needed(item) > left:
            tasks.append([])
            left = room
        tasks[-1].append(item)
        left -= needed(item)
    return tasks


@dataclass
class Tally:
    """What tasks report to the driver while it waits: rows and bytes done, results, and what went wrong for good."""

    rows: int = 0
    size: int = 0
    failures: list[ReportedError] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)


class TallyParam(AccumulatorParam[Tally]):
    def zero(self, value: Tally) -> Tally:
        return Tally()

    def addInPlace(self, value1: Tally, value2: Tally) -> Tally:  # noqa: N802 - Spark's name
        value1.results.extend(value2.results)  # in place: of ten thousand, each would be copied as often
        return Tally(
            value1.rows + value2.rows, value1.size + value2.size, value1.failures + value2.failures, value1.results
        )


def telling(
    work: Callable[[Any, Callable[[int, int], None]], Iterable[Any]], tally: Accumulator[Tally], *, results: bool
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what a Spark task does: the work, telling the driver of it.

    :param results: tell of every result, too: those of tasks that ended are known while others go on.
    """

    def run_task(items: Iterable[Any]) -> Iterator[Any]:
        keep_imports()

        def report(rows: int, size: int) -> None:
            tally.add(Tally(rows, size))

        for item in items:
            try:
                for result in work(item, report):
                    if results:
                        tally.add(Tally(results=[result]))
                    yield result
            except HoldfastError as error:
                tally.add(Tally(failures=[ReportedError(sentence(error), exit_code_of(error))]))
                return

    return run_task


def import_modules(modules: Iterable[str], items: Iterable[Any]) -> None:
    """Import what tasks will need; the items are nothing but a reason to run."""
    for module in modules:
        importlib.import_module(module)
    for _ in items:
        pass


@cache
def keep_imports() -> None:
    """Spare what a worker has imported from the garbage collection that Spark makes after each task."""
    gc.freeze()
