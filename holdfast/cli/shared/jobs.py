"""Jobs of commands: how they wait, how their processes are started, and how their progress is shown."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.runs import read_last
from holdfast.common.errors import HoldfastError, OutcomeUnknownError, ReportedError
from holdfast.operations import job_process
from holdfast.operations.executor_choice import forced_executor
from holdfast.operations.outcome import JobEnd, last_words
from holdfast.operations.run import PreparedJob, check, run_locked
from holdfast.operations.time_left import steps_before, time_left
from locking import Owner
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.cli.shared.output import Output
    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.operations.requests.base import Request
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore

_LONG_S = 10.0
"""Seconds after which a job is compared with an earlier one, to estimate the time left."""


def run_job(
    archive: ArchiveContext,
    request: Request,
    *,
    database: Address | None = None,
    source: str | None = None,
    wait: float,
    output: Output,
    is_local: bool = False,
) -> dict[str, Any]:
    """Run an operation under its locks and return its summary; parameters are those of `PreparedJob`.

    :param wait: seconds to wait for locks of others.
    :raises ReportedError: it failed; the sentence and the exit code are its own.
    """
    operation = request.operation
    archive = archive.at(archive.open().url)  # absolute, for jobs in other folders
    run = job_process.new_run_id(operation)
    on_cluster = not (is_local or job_process.spark_master().startswith("local"))
    job = PreparedJob(archive, request, run, source, database, forced_executor(), is_local, on_cluster)
    command = _Command(output, time.monotonic() + wait)
    store = check(job, command)
    if database is not None:
        from holdfast.postgresql.connection import session  # with its driver, which most commands do not need
        from holdfast.postgresql.logical import ddl_triggers

        writes = job.role == "target"
        session.connect(ddl_triggers.without_event_triggers(database) if writes else database).close()
    output.say(f"{operation} {store.url}: run {run}")
    purpose = f"{operation} {run}"
    with (
        nullcontext()
        if job.is_unlocked
        else job.acquire(store, Owner(), purpose=purpose, wait=command.wait_left()) as held,
        command.logged(operation),
    ):
        result = run_locked(job, store, held, command)
    return {**result, "wall_s": round(output.elapsed_s, 3)}


@dataclass
class _Command:
    """A command as its job needs it; `until` is the monotonic deadline for lock waits."""

    output: Output
    until: float
    _log: Path = field(default=Path(), init=False)
    _before: Mapping[str, float] | None = field(default=None, init=False)

    def say(self, words: str) -> None:
        self.output.say(words)

    note = say

    def wait_left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def check_spark(self) -> None:
        job_process.check_java()

    @contextmanager
    def logged(self, operation: str) -> Iterator[None]:
        """Keep the log of the job's processes in a file, which stays if nothing else says why it failed."""
        with tempfile.NamedTemporaryFile(prefix=f"holdfast-{operation}-", suffix=".log", delete=False) as file:
            self._log = Path(file.name)
        try:
            yield
        except ReportedError as error:
            if error.reported_code != 1 or not self._log.exists():
                self._log.unlink(missing_ok=True)  # the job has said it better
                raise
            raise ReportedError(f"{error} (the job's log: {self._log})", 1) from error
        self._log.unlink()

    @contextmanager
    def followed(self, job: PreparedJob, records: ObjectStore) -> Iterator[None]:
        self._records = records
        try:
            yield
        except (KeyboardInterrupt, HoldfastError):
            self._log.unlink()
            raise
        with suppress(StoreError):
            self.output.hear(read_last(records, job.run))

    def start(self, job: PreparedJob, environment: Mapping[str, str]) -> JobEnd:
        begin = self._log.stat().st_size
        code = job_process.submit(
            job.operation, job.arguments, environment, on_tick=lambda: self._show_progress(job), log=self._log
        )
        return JobEnd(code, last_words(self._log.read_bytes()[begin:].decode(errors="replace"), job.operation))

    def unread(self, error: StoreError) -> Exception:
        return OutcomeUnknownError(
            f"the job has ended, but the archive cannot be read to learn how ({error}): look with 'holdfast status' "
            f"before trying again (the job's log: {self._log})"
        )

    def _show_progress(self, job: PreparedJob) -> None:
        with suppress(StoreError):  # the job goes on whether we can watch it or not
            record = read_last(self._records, job.run)
            if self._before is None and record is not None and record.elapsed_s >= _LONG_S:
                self._before = {}  # where this fails, it is not tried each second
                self._before = steps_before(job.archive.open(), job.run)
            self.output.progress(record, time_left(record, self._before) if record and self._before else None)
