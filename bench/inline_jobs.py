"""Backups in this process and without Spark, of archives that are only measured later."""

from __future__ import annotations

import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from holdfast import backups, jobs
from holdfast.archive import locks
from holdfast.archive.runs import read_last
from locking import Owner
from sparkjobs import backup
from sparkjobs.driver import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark import SparkContext

    from holdfast.sources.postgresql.address import Address
    from holdfast.storage import ObjectStore


def back_up(store: ObjectStore, source: str, address: Address, *, kind: str, run: str) -> dict[str, Any]:
    """Back up a database, and return what the run says.

    :raises HoldfastError: it failed.
    """
    given = ["--source", source, "--kind", kind]
    with locks.acquire(store, "backup", sources=[source], owner=Owner(), purpose="bench", wait=0) as held:

        def attempt(more: Mapping[str, str]) -> str:
            told = {jobs.URL_VARIABLES["source"]: address.url, "PGPASSWORD": address.password or "", **more}
            with _environment(told):
                job = _InlineJob(store, run, "backup", locks.attach(store, held.handles()))
                with job.log:
                    job.log.result = backup.back_up(job, source)
            return ""

        backups.run_to_the_end(store, run, address, arguments=given, attempt=attempt)
    last = read_last(store, run)
    return last.result or {} if last else {}


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class _InlineJob(Job):
    """Runs its tasks one after the other."""

    @property
    def spark(self) -> SparkContext:
        return cast("SparkContext", SimpleNamespace(defaultParallelism=1))

    def start(self, *modules: str) -> None:
        """Nothing has to be started."""

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
        results = []
        for task in tasks:
            for result in work(task, lambda rows, size: None):
                results.append(result)
                if on_results:
                    on_results([result])
        return results
