"""Jobs of commands: their locks, submission, progress and outcome."""

from __future__ import annotations

import tempfile
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive import Archive, locks
from holdfast.archive.format.runs import read_last
from holdfast.common.errors import HoldfastError, OutcomeUnknownError, ReportedError
from holdfast.common.signing import ArchiveKeys
from holdfast.operations import job_process
from holdfast.operations.executor_choice import choose_executor, forced_executor, run_chosen
from holdfast.operations.job_records import records_of
from holdfast.operations.outcome import JobEnd, ended_job_result, last_words
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.time_left import steps_before, time_left
from locking import Owner
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.cli.shared.output import Output
    from holdfast.operations.executor_choice import Executor
    from holdfast.operations.requests.base import Request
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore

_LONG_S = 10.0
"""Seconds after which a job is compared with an earlier one, to tell the time left."""

_READ_ON = ("restore", "verification")
"""Operations that read what is before a commit which is damaged."""


def run_job(
    store: ObjectStore,
    request: Request,
    *,
    address: Address | None = None,
    role: Literal["source", "target"] = "source",
    sources: Sequence[str] = (),
    wait: float,
    output: Output,
    here: bool = False,
    unlocked: bool = False,
) -> dict[str, Any]:
    """Run an operation under its locks and return its summary.

    :param request: its operation names the Spark application and the row in the table of locks.
    :param address: of the database that it reads or writes; None where it works on the archive alone.
    :param role: which of both it does.
    :param wait: seconds to wait for locks that others hold.
    :param here: Spark runs on this machine, whatever HOLDFAST_SPARK_MASTER says: no other one can reach the database.
    :param unlocked: take none, and write nothing to the archive: of an operation that only reads it.
    :raises ReportedError: it failed; the sentence and the exit code are its own.
    """
    operation = request.operation
    # Nothing is written, not even a lock, where there is no archive.
    archive = Archive.open(store, before_damage=operation in _READ_ON)
    if address is not None:
        from holdfast.postgresql.connection import session  # with its driver, which most commands do not need
        from holdfast.postgresql.logical import ddl_triggers

        session.connect(ddl_triggers.without_event_triggers(address) if role == "target" else address).close()
        if isinstance(request, BackupRequest):
            from holdfast.operations.dumper_check import check_dumper  # as above

            check_dumper(address)
    starter = _Starter(operation, forced_executor(), output, time.monotonic() + wait)
    starter.check(archive, request)
    run = job_process.new_run_id(operation)
    output.say(f"{operation} {store.url}: run {run}")
    database, password = (address.url, address.password) if address else (None, None)
    keys = ArchiveKeys(store.key, store.signing)
    place = job_process.local_environment(job_process.DEFAULT_MASTER) if here else {}
    take = partial(locks.acquire, owner=Owner(), purpose=f"{operation} {run}", wait=wait)
    with (
        records_of(store, unlocked=unlocked) as (records, variables),
        nullcontext() if unlocked else take(store, operation, sources=sources) as held,
    ):
        environment = {**job_process.job_environment(database, password, held, role, keys=keys), **variables, **place}
        return _submit(starter, store, records, run, request, address, environment)


@dataclass(frozen=True)
class _Starter:
    """A starter of one operation's jobs.

    :param executor: where they are to run.
    :param until: this process's clock when nothing is waited for any more that others hold.
    """

    operation: str
    executor: Executor
    output: Output
    until: float

    @property
    def wait(self) -> float:
        """Return the seconds that are left to wait."""
        return max(0.0, self.until - time.monotonic())

    def check(self, archive: Archive, request: Request) -> None:
        """Check that Spark can start, where the job is certain to need it."""
        if choose_executor(self.operation, forced=self.executor).executor != "spark":
            return
        if isinstance(request, BackupRequest) and self.executor == "auto":
            from holdfast.operations.backup_run import takes_snapshot  # as above

            if not takes_snapshot(archive, request):
                return
        job_process.check_java()

    def note(self, words: str) -> None:
        """Report the executor of a job."""
        self.output.say(f"this {self.operation} runs {words}")


def _submit(
    starter: _Starter,
    store: ObjectStore,
    records: ObjectStore,
    run: str,
    request: Request,
    address: Address | None,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Run a job and return its summary.

    :param records: where it says how it goes.
    """
    operation, output = starter.operation, starter.output
    with tempfile.NamedTemporaryFile(prefix=f"holdfast-{operation}-", suffix=".log", delete=False) as file:
        log = Path(file.name)

    before: Mapping[str, float] | None = None

    def tell() -> None:
        nonlocal before
        with suppress(StoreError):  # the job goes on whether we can watch it or not
            record = read_last(records, run)
            if before is None and record is not None and record.elapsed_s >= _LONG_S:
                before = {}  # where this fails, it is not tried each second
                before = steps_before(store, run)
            output.progress(record, time_left(record, before) if record and before else None)

    submitted = ["--archive", store.url, "--run", run, *request.to_arguments()]
    code, words = 0, ""

    def attempt(more: Mapping[str, str]) -> str:
        nonlocal code, words
        begin = log.stat().st_size
        variables = {**environment, job_process.WAIT_VARIABLE: f"{starter.wait:.0f}", **more}
        code = job_process.submit(
            operation,
            submitted,
            variables,
            on_tick=tell,
            log=log,
        )
        words = last_words(log.read_bytes()[begin:].decode(errors="replace"), operation)
        return words

    try:
        if isinstance(request, BackupRequest) and address is not None:
            from holdfast.operations import backup_run  # as above

            backup_run.run_to_the_end(
                store,
                run,
                address,
                wanted=request,
                attempt=attempt,
                say=output.say,
                note=starter.note,
                wait=starter.wait,
                executor=starter.executor,
            )
        else:
            run_chosen(choose_executor(operation, forced=starter.executor), attempt, starter.note)
    except (KeyboardInterrupt, HoldfastError):
        log.unlink()
        raise
    with suppress(StoreError):
        output.hear(read_last(records, run))
    try:
        result = ended_job_result(store, records, operation, run, JobEnd(code, words))
    except StoreError as error:
        raise OutcomeUnknownError(
            f"the job has ended, but the archive cannot be read to learn how ({error}): look with 'holdfast status' "
            f"before trying again (the job's log: {log})"
        ) from error
    except ReportedError as error:
        if error.reported_code != 1:
            log.unlink()  # whatever it says, the job has said it better
            raise
        raise ReportedError(f"{error} (the job's log: {log})", 1) from error
    log.unlink()
    return {**result, "wall_s": round(output.elapsed_s, 3)}
