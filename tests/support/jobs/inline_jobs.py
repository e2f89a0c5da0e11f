"""Jobs in this process: without Spark, and what tests say of those that ran."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal
from unittest.mock import patch

from holdfast.archive import locks
from holdfast.archive.format.runs import RunRecord
from holdfast.operations import job_process
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore
from sparkjobs.driver import application
from sparkjobs.executors import inline
from sparkjobs.executors.inline import InlineExecutor

Ran = tuple[int, RunRecord]
"""The exit code of a job, and the last record of its run."""

RunJob = Callable[..., Ran]


def session_arguments(master: str) -> str:
    """Return PYSPARK_SUBMIT_ARGS of a Spark in a Python of one's own, which starts as that of a job does.

    It takes half the CPU time of Spark's own way.
    """
    settings = [word for name, value in job_process.spark_conf().items() for word in ("--conf", f"{name}={value}")]
    return shlex.join(["--master", master, *settings, "pyspark-shell"])


def failed(ran: Ran) -> tuple[int, str]:
    """Return the exit code and the sentence of a job that failed."""
    code, record = ran
    assert record.state == "failed"
    assert record.error is not None
    assert record.error.exit_code == code
    assert "\n" not in record.error.message
    return code, record.error.message


class SteadyExecutor(InlineExecutor):
    """Plans for two tasks at a time and runs one after the other, once, each time in the same order.

    What fails once fails the job: no other try hides it.
    """

    def __init__(self, *, bounded: bool = False) -> None:
        super().__init__(cores=2, bounded=bounded)

    def run(self, *args: Any, at_once: int | None, **more: Any) -> list[Any]:
        """Run tasks as the inline executor does, one at a time; nobody looks on meanwhile."""
        with patch.object(inline, "WATCH_S", None), patch.object(inline, "TRIES", 1):
            return super().run(*args, at_once=1, **more)


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
) -> Iterator[application.Job]:
    """Open a job that works on a database, under locks that somebody holds.

    :param more: environment variables.
    """
    told = {job_process.URL_VARIABLES[role]: address.url, "PGPASSWORD": address.password or "", **more}
    with patch.dict(os.environ, told):
        job = application.Job(store, run, operation, locks.attach(store, held.handles()), SteadyExecutor())
        with job.log:
            yield job
