"""Part of Spark's tasks around the work itself; each worker imports all that this module imports."""

from __future__ import annotations

import gc
import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from holdfast.common.errors import HoldfastError, ReportedError, exit_code_of, kind_of, sentence
from holdfast.postgresql.connection.session_errors import remedy
from sparkjobs.executors import Tally, closing_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.accumulators import Accumulator

    from sparkjobs.executors import Work


class TaskFailure(Exception):  # noqa: N818 - Spark passes on its name and its line, and a task is tried again
    """Failure of one try of a task, in one line.

    Spark gives the driver a traceback as text. There, lines of a server's message look like errors: DETAIL, CONTEXT.
    """


class TallyParam(AccumulatorParam[Tally]):
    def zero(self, value: Tally) -> Tally:
        return Tally()

    def addInPlace(self, value1: Tally, value2: Tally) -> Tally:  # noqa: N802 - Spark's name
        value1.results.extend(value2.results)  # in place: of ten thousand, each would be copied as often
        return Tally(
            value1.rows + value2.rows, value1.size + value2.size, value1.failures + value2.failures, value1.results
        )


def telling(work: Work, tally: Accumulator[Tally], *, results: bool) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function of a Spark task: the work, reported to the driver.

    :param results: report every result, too: those of tasks that ended are known while others go on.
    """

    def run_task(items: Iterable[Any]) -> Iterator[Any]:
        keep_imports()

        def report(rows: int, size: int) -> None:
            tally.add(Tally(rows, size))

        for item in items:
            try:
                with closing_generator(work(item, report)) as found:
                    for result in found:
                        if results:
                            tally.add(Tally(results=[result]))
                        yield result
            except HoldfastError as error:
                tally.add(Tally(failures=[ReportedError(sentence(error), exit_code_of(error), kind_of(error))]))
                return
            except Exception as error:
                raise TaskFailure(": ".join(filter(None, (sentence(error), remedy(error))))) from error

    return run_task


def import_modules(modules: Iterable[str], items: Iterable[Any]) -> None:
    """Import the modules of tasks; the items are only a reason to run."""
    for module in modules:
        importlib.import_module(module)
    for _ in items:
        pass


@cache
def keep_imports() -> None:
    """Exempt a worker's imports from the garbage collection that Spark makes after each task."""
    gc.freeze()
