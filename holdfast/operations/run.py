"""One run of a job: checked, started under its locks, followed and judged, for commands and tasks alike."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from holdfast.common.errors import UsageError
from holdfast.operations import job_process
from holdfast.operations.executor_choice import choose_executor, run_chosen
from holdfast.operations.outcome import JobEnd, ended_job_result
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.requests.restore import RestoreRequest
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from holdfast.archive import Archive
    from holdfast.archive.locks import HeldLocks
    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.operations.executor_choice import Executor, ExecutorChoice
    from holdfast.operations.requests.base import Request
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore
    from locking import Owner

_READ_ON = ("restore", "verification")
"""Operations that read what is before a commit which is damaged."""


@dataclass(frozen=True)
class PreparedJob:
    """One job, ready to be started.

    :param request: its operation names the application and the row in the table of locks.
    :param run: name of its run.
    :param source: the source whose locks it takes.
    :param database: the database that it reads or writes, if any.
    :param is_local: Spark must run on this machine, since no other one can reach the database.
    """

    archive: ArchiveContext
    request: Request
    run: str
    source: str | None = None
    database: Address | None = None
    executor: Executor = "auto"
    is_local: bool = False
    on_cluster: bool = False

    @property
    def operation(self) -> str:
        return self.request.operation

    @property
    def role(self) -> Literal["source", "target"]:
        return "target" if isinstance(self.request, RestoreRequest) else "source"

    @property
    def is_unlocked(self) -> bool:
        """Return whether it takes no lock and writes nothing to the archive."""
        return bool(getattr(self.request, "no_lock", False))

    @property
    def sources(self) -> list[str]:
        return [self.source] if self.source else []

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of the application, without secrets."""
        return ["--archive", self.archive.url, "--run", self.run, *self.request.to_arguments()]

    def acquire(self, store: ObjectStore, owner: Owner, *, purpose: str, wait: float) -> HeldLocks:
        """Take the locks of the operation; `wait` is in seconds, 0 tries once. LockBusy names the holder."""
        from holdfast.archive import locks  # takes a while to import, and Airflow's tasks import this early

        return locks.acquire(store, self.operation, sources=self.sources, owner=owner, purpose=purpose, wait=wait)

    def environment(self, held: HeldLocks | None) -> dict[str, str]:
        """Return the environment variables of its process, secrets included."""
        url, password = (self.database.url, self.database.password) if self.database else (None, None)
        return {
            **job_process.job_environment(url, password, held, self.role, keys=self.archive.keys),
            **self.archive.coordination.environment(),
            **(job_process.local_environment(job_process.DEFAULT_MASTER) if self.is_local else {}),
        }

    def choose_executor(self) -> ExecutorChoice:
        """Choose where it runs; of a backup, where it would without a stream to follow."""
        reads_files = bool(getattr(self.request, "deep", True))
        return choose_executor(self.operation, forced=self.executor, reads_files=reads_files)

    def needs_spark(self, archive: Archive) -> bool:
        """Return whether Spark has to start for certain."""
        if self.choose_executor().executor != "spark":
            return False
        if self.executor == "auto" and isinstance(self.request, BackupRequest) and self.database is not None:
            from holdfast.operations.backup_run import needs_spark  # with the database's driver

            return needs_spark(archive, self.database, self.request, on_cluster=self.on_cluster)
        return True


class Caller(Protocol):
    """A command or a task, as its job needs it: how it waits, starts a process, and reports."""

    def say(self, words: str) -> None:
        """Report an important message."""

    def note(self, words: str) -> None:
        """Report the normal course."""

    def wait_left(self) -> float:
        """Return the seconds left to wait for locks of others."""

    def check_spark(self) -> object:
        """Refuse a job where Spark cannot start; raises HoldfastError."""

    def followed(self, job: PreparedJob, records: ObjectStore) -> AbstractContextManager[None]:
        """Report the job's progress while the block runs."""

    def start(self, job: PreparedJob, environment: Mapping[str, str]) -> JobEnd:
        """Run the job's process until none of it runs; raises SparkNeededError if it hands itself over."""

    def unread(self, error: StoreError) -> Exception:
        """Return the error for a job that has ended while the archive cannot be read to learn how."""


def check(job: PreparedJob, caller: Caller) -> ObjectStore:
    """Refuse a job that could only fail, and return the archive's object store; called before its locks are taken.

    :raises HoldfastError: there is no archive, the database does not fit, or Spark cannot start.
    """
    from holdfast.archive import Archive  # takes a while to import, and Airflow's tasks import this early

    archive = Archive.open(job.archive.open(), before_damage=job.operation in _READ_ON)
    if job.database is not None:
        from holdfast.operations.database_checks import check_dumper, check_target_is_free  # with its driver

        if isinstance(job.request, BackupRequest):
            check_dumper(job.database)
        elif isinstance(job.request, RestoreRequest):
            check_target_is_free(job.database, job.request)
    if job.needs_spark(archive):
        caller.check_spark()
    return archive.store


@contextmanager
def records_of(store: ObjectStore, *, unlocked: bool = False) -> Iterator[tuple[ObjectStore, Mapping[str, str]]]:
    """Yield the object store of a job's records, and the environment variables that name it to the job.

    It is a temporary folder for a job that writes nothing to the archive, or cannot sign what it writes.
    """
    if not (unlocked or store.signing.only_checks):
        yield store, {}
        return
    from holdfast.storage import open_url  # takes a while to import, and Airflow's tasks import this early

    with tempfile.TemporaryDirectory(prefix="holdfast-records-", ignore_cleanup_errors=True) as folder:
        yield open_url(folder), {job_process.RECORDS_VARIABLE: folder}


def run_locked(job: PreparedJob, store: ObjectStore, held: HeldLocks | None, caller: Caller) -> dict[str, Any]:
    """Run a job under its locks, if it takes any, and return its result.

    :raises ReportedError: it failed; the sentence and the exit code are its own.
    """
    if held is None and not job.is_unlocked:
        raise UsageError("a job runs under locks only")
    end = JobEnd()
    with records_of(store, unlocked=job.is_unlocked) as (records, variables):
        environment = {**job.environment(held), **variables}

        def attempt(more: Mapping[str, str]) -> str:
            nonlocal end
            wait = {job_process.WAIT_VARIABLE: f"{caller.wait_left():.0f}"}
            end = caller.start(job, {**environment, **wait, **more})
            return end.words

        def note(words: str) -> None:
            caller.note(f"this {job.operation} runs {words}")

        with caller.followed(job, records):
            if isinstance(job.request, BackupRequest):
                from holdfast.operations import backup_run  # with the database's driver

                if job.database is None:
                    raise UsageError("a backup needs a database to read")
                backup_run.run_to_the_end(
                    store,
                    job.run,
                    job.database,
                    request=job.request,
                    attempt=attempt,
                    say=caller.say,
                    note=note,
                    coordination=job.archive.coordination,
                    wait=caller.wait_left(),
                    executor=job.executor,
                    on_cluster=job.on_cluster,
                )
            else:
                run_chosen(job.choose_executor(), attempt, note)
        try:
            result = ended_job_result(store, records, job.operation, job.run, end)
        except StoreError as error:
            raise caller.unread(error) from error
    if end.code != 0:
        caller.say(f"the job's process {end.how} after the job had finished its work")
    return result
