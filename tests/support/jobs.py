"""Jobs in this process: without Spark, and what tests say of those that ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal, cast
from unittest.mock import patch

from pyspark import SparkContext

from holdfast import jobs
from holdfast.archive import locks
from holdfast.archive.runs import RunRecord
from holdfast.sources.postgresql.address import Address
from holdfast.storage import ObjectStore
from sparkjobs import driver

Ran = tuple[int, RunRecord]
"""The exit code of a job, and the last record of its run."""

RunJob = Callable[..., Ran]


def failed(ran: Ran) -> tuple[int, str]:
    """Return the exit code and the sentence of a job that failed."""
    code, record = ran
    assert record.state == "failed"
    assert record.error is not None
    assert record.error.exit_code == code
    assert "\n" not in record.error.message
    return code, record.error.message


class JobWithoutSpark(driver.Job):
    """Runs its tasks itself, one after the other."""

    @property
    def spark(self) -> SparkContext:
        return cast(SparkContext, SimpleNamespace(defaultParallelism=2))

    def start(self, *modules: str) -> None:
        pass

    def map(
        self,
        step: str,
        tasks: Sequence[Any],
        work: Callable[[Any, Callable[[int, int], None]], Iterable[Any]],
        *,
        estimated_rows: int,
        at_once: int | None = None,
        on_results: Callable[[Sequence[Any]], None] | None = None,
    ) -> list[Any]:
        self.check()
        results = []
        for task in tasks:
            for result in work(task, lambda rows, size: None):
                self.log.progress(step, estimated_rows=estimated_rows)
                results.append(result)
                if on_results:
                    on_results([result])
        return results


_NOTHING: Mapping[str, str] = MappingProxyType({})


@contextmanager
def job_without_spark(
    store: ObjectStore,
    held: locks.HeldLocks,
    run: str,
    role: Literal["source", "target"],
    address: Address,
    *,
    operation: str = "test",
    more: Mapping[str, str] = _NOTHING,
) -> Iterator[JobWithoutSpark]:
    """Open a job that works on a database, under locks that somebody holds.

    :param more: environment variables.
    """
    told = {jobs.URL_VARIABLES[role]: address.url, "PGPASSWORD": address.password or "", **more}
    with patch.dict(os.environ, told):
        job = JobWithoutSpark(store, run, operation, locks.attach(store, held.handles()))
        with job.log:
            yield job
