"""The driver of every application.

It works under its parent's locks, reports its progress, and ends in a defined way. The process that started the
application holds the locks and renews them. A driver whose parent is gone or whose locks are lost cancels its tasks and
ends; whether it wrote anything is decided by its one commit, never by how it ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from holdfast.archive.format.runs import RunLog
from holdfast.archive.locks import AttachedLocks, attach
from holdfast.common.cleanup import cleanup
from holdfast.common.errors import HoldfastError, RefusedError, SparkNeededError, UsageError, exit_code_of, sentence
from holdfast.operations.executor_choice import HAND_OVER, INLINE_STORED_BYTES, JOB_VARIABLE
from holdfast.operations.job_process import (
    LOCAL_VARIABLE,
    LOCKS_VARIABLE,
    PARENT_VARIABLE,
    RECORDS_VARIABLE,
    URL_VARIABLES,
    WAIT_VARIABLE,
    process_start,
)
from holdfast.operations.requests.base import Request
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session_errors import explained
from holdfast.replication.log.settings import CoordinationAddress
from holdfast.replication.work.replica_backup import opened_for_backup
from holdfast.replication.work.replica_maintenance import opened_for_maintenance
from holdfast.storage import open_store, open_url
from locking import LockError, LockStateUnknown
from locking.one_line import guard_last_resort, one_line
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from holdfast.archive import Archive, Change
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.replication.log.settings import QuorumRequest
    from holdfast.storage import ObjectStore
    from sparkjobs.executors import Executor, Tally, Work
    from sparkjobs.executors.survey import Question, WorkerSurvey

WATCH_S = 1.0
"""Seconds between two looks at the parent."""

CHECK_LOCKS_EVERY = 20
"""The locks are checked at each so many of these looks."""

_SHOW_S = 15.0
_ABORT_SIGNAL = signal.SIGUSR1

_MOST_INLINE = 4
"""Tasks at a time without Spark, at most: small work needs no more, and each has a session on the database."""


_Request = TypeVar("_Request", bound=Request)


class Job:
    """One run of an application: its store, locks, log and executor."""

    def __init__(
        self,
        store: ObjectStore,
        run: str,
        operation: str,
        locks: AttachedLocks,
        executor: Executor,
        *,
        records: ObjectStore | None = None,
    ) -> None:
        """:param records: where the run's records go; None: into the archive."""
        self.store = store
        self.run = run
        self.locks = locks
        self.log = RunLog(records or store, run, operation)
        self._executor = executor
        self._claimed: int | None = None
        self._added_to: Archive | None = None
        self._shown = time.monotonic()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._abort: BaseException | None = None
        self._parent = os.environ.get(PARENT_VARIABLE)
        self.coordination = CoordinationAddress.resolve()

    @property
    def cores(self) -> int:
        return self._executor.cores

    @property
    def wait(self) -> float:
        """Return the seconds to wait for locks that others hold on this replica."""
        return float(os.environ.get(WAIT_VARIABLE) or 0.0)

    @property
    def is_bounded(self) -> bool:
        """Return whether only small work may be done, and the rest is Spark's."""
        return self._executor.is_bounded

    def start(self, *modules: str) -> None:
        """Start the executor and the imports of its tasks; does not wait for them."""
        self._executor.start(modules)

    def check(self) -> None:
        """Raise if this work must not go on: the parent is gone or a lock is lost."""
        if self._abort is not None:
            raise self._abort
        self._check_parent()
        self.locks.check()

    def open_archive(self, quorum_request: QuorumRequest | None = None) -> Archive:
        """Open the archive to add to it; a replica is brought to the head of its update log.

        :param quorum_request: the quorum that added backups need; None: none.
        """
        self._added_to = opened_for_backup(
            self.store, check=self.check, quorum_request=quorum_request, wait=self.wait, coordination=self.coordination
        )
        return self._added_to

    @contextmanager
    def lead_archive(self) -> Iterator[Archive]:
        """Open the archive to compact or truncate it; a replica leads meanwhile."""
        with opened_for_maintenance(
            self.store, check=self.check, wait=self.wait, coordination=self.coordination
        ) as self._added_to:
            yield self._added_to

    def commit(self, archive: Archive, plan: Callable[[State], Change], block: str) -> Placed:
        """Make a commit that adds a block, and return the block's place.

        :raises RefusedError: the plan is refused, and no earlier request has made it: its answer may have been lost,
            and the last request of a driver that was killed may come late.
        """
        try:
            archive.add(plan, check=self.check, fence=self.locks.fence)
        except RefusedError:
            if block not in archive.state.blocks:
                raise
        return archive.state.blocks[block]

    def not_asked(self) -> dict[str, Any]:
        """Return what the result says of other replicas that could not be asked; nothing without replicas."""
        if self._added_to is None or self._added_to.state.log is None:
            return {}
        from holdfast.replication.work.replica import not_asked  # with what talks to a coordination store

        return {"not_asked": not_asked(self._added_to)}

    def say(self, *words: str) -> None:
        """Log lines in the run's record and on stderr."""
        self.log.say(*words)
        for each in words:
            _tell(f"holdfast: {each}")

    def map(
        self,
        step: str,
        tasks: Sequence[Any],
        work: Work,
        *,
        estimated_rows: int,
        at_once: int | None = None,
        on_results: Callable[[Sequence[Any]], None] | None = None,
    ) -> list[Any]:
        """Run `work(task, report)` for every task, and return all results.

        :param at_once: so many tasks at a time, at most; None leaves that to the executor.
        :param on_results: is given the results of tasks soon after they end, each once, also where the job fails.
        :param work: yields small results; calls `report(rows, bytes)` as it goes on. A HoldfastError
            it raises ends the whole job at once; anything else is tried again.
        :raises SparkNeededError: this job is bounded, and what the tasks read was not claimed.
        """
        if not tasks:
            return []
        self.check()
        if self.is_bounded and self._claimed is None:
            raise SparkNeededError(f"{step} is no small work")
        databases = [database_address(role) for role, variable in URL_VARIABLES.items() if variable in os.environ]
        self._executor.check_reach([self.store, *databases])
        passed = 0

        def watch(seen: Tally) -> None:
            nonlocal passed
            if on_results and (found := seen.results[passed:]):
                passed += len(found)
                on_results(found)
            self.progress(step, rows=seen.rows, size=seen.size, estimated_rows=estimated_rows)

        tells_results = on_results is not None
        try:
            return self._executor.run(tasks, work, watch=watch, tells_results=tells_results, at_once=at_once)
        except Exception:
            if self._abort is not None:
                raise self._abort from None
            raise

    def settings(self) -> Mapping[str, str]:
        return self._executor.settings()

    def survey(self, question: Question | None) -> WorkerSurvey:
        """Put a question to each worker; None asks for its own facts."""
        self.check()
        return self._executor.survey(question)

    def claim(self, size: int) -> None:
        """Claim stored bytes for tasks to read, before anything of theirs is committed.

        :raises SparkNeededError: they may not, beside those of before.
        """
        self._claimed = (self._claimed or 0) + size
        if self.is_bounded and self._claimed > INLINE_STORED_BYTES:
            raise SparkNeededError(f"more than {INLINE_STORED_BYTES >> 20} MiB of stored files are to be read")

    def progress(self, step: str, **counts: int) -> None:
        """Record the job's progress, as `JobLog.progress` does, and print it to stderr now and then."""
        self.log.progress(step, **counts)
        now = time.monotonic()
        if self.log.last is not None and now - self._shown >= _SHOW_S:
            self._shown = now
            _tell(f"holdfast: {self.log.last.describe()}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the parent and the locks while the block runs, and end it where they are lost; stop tasks after it."""
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        before = signal.signal(_ABORT_SIGNAL, self._raise_abort)
        thread.start()
        with cleanup(lambda: signal.signal(_ABORT_SIGNAL, before), thread.join, self._executor.stop):
            try:
                try:
                    yield
                finally:
                    with self._guard:
                        self._stopping.set()
            except BaseException:
                if self._abort is not None:
                    raise self._abort from None
                raise

    @contextmanager
    def last_step(self) -> Iterator[None]:
        """Protect the block, and all that follows it, from interruption: whether a commit was made must be known.

        The commit asks for parent and locks itself, just before it is written.
        """
        with self._guard:
            yield
            self._stopping.set()

    def _watch(self) -> None:
        turns = 0
        while not self._stopping.wait(WATCH_S):
            turns += 1
            try:
                self._check_parent()
                if turns % CHECK_LOCKS_EVERY == 0:
                    self.locks.check()
            except (LockStateUnknown, StoreError):
                continue  # the store did not answer: the commit will ask again, and nothing relies on the lock before
            except (HoldfastError, LockError) as error:
                self._end_work(error)
                return

    def _end_work(self, error: HoldfastError | LockError) -> None:
        """Interrupt the work, even while it waits for Spark, the database or pg_restore."""
        with self._guard:
            if self._stopping.is_set():
                return
            self._abort = error
            signal.pthread_kill(threading.main_thread().ident or 0, _ABORT_SIGNAL)

    def _raise_abort(self, number: int, frame: FrameType | None) -> None:
        if self._abort is not None:
            raise self._abort

    def _check_parent(self) -> None:
        if self._parent is None:
            return
        pid, _, start = self._parent.partition(":")
        if process_start(int(pid)) != start:
            raise HoldfastError("the process that started this job is gone, and with it the locks: ending")


def run_application(
    operation: str,
    *,
    archive: str,
    run: str,
    work: Callable[[Job], dict[str, Any]],
    unlocked: bool = False,
    has_tasks: bool = True,
) -> int:
    """Run an application's work and return its exit code; nothing but words goes to stderr.

    :param unlocked: it only reads the archive, without locks.
    :param has_tasks: the driver does not do all by itself.
    """
    guard_last_resort()
    try:
        store = open_store(archive)
        handles, records = os.environ.get(LOCKS_VARIABLE), os.environ.get(RECORDS_VARIABLE)
        if handles is None and not (unlocked and records):
            raise UsageError("start this job by command or operator: it needs their locks")
        locks = AttachedLocks(store, ()) if handles is None else attach(store, handles)
        executor = make_executor(operation)
        if has_tasks and LOCAL_VARIABLE in os.environ:
            executor.prepare()
        job = Job(store, run, operation, locks, executor, records=open_url(records) if records else None)
        with job.log as log, job.watched(), _outages_explained():
            job.check()
            result = work(job)
            log.result = {**result, **job.not_asked()}
    except SparkNeededError as error:
        _tell(f"holdfast: going over to Spark: {sentence(error)}")
        return HAND_OVER
    except Exception as error:  # noqa: BLE001 - it becomes one sentence and an exit code
        code = exit_code_of(error)
        _tell(f"holdfast {operation}: {sentence(error)}")
        return code
    return 0


def _tell(words: str) -> None:
    print(one_line(words), file=sys.stderr)  # noqa: T201


def run_request(
    request_type: type[_Request],
    work: Callable[[Job, _Request], dict[str, Any]],
    arguments: Sequence[str] | None,
    *,
    has_tasks: bool = True,
    unlocked: bool = False,
) -> int:
    """Run an application by the arguments that it was started with, and return its exit code.

    :param work: is given the request that they make.
    :param arguments: None for those of the process.
    :param has_tasks: the driver does not do all by itself.
    :param unlocked: it never works under locks.
    """
    operation = request_type.operation
    parser = argparse.ArgumentParser(prog=f"{operation}.py", description=f"A {operation} (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--run", required=True)
    request_type.add_to(parser)
    given = vars(parser.parse_args(arguments))
    archive, run = given.pop("archive"), given.pop("run")
    try:
        request = request_type.given(**given)
    except UsageError as error:
        _tell(f"holdfast {operation}: {sentence(error)}")
        return exit_code_of(error)
    return run_application(
        operation,
        archive=archive,
        run=run,
        work=lambda job: work(job, request),
        unlocked=unlocked or bool(given.get("no_lock")),
        has_tasks=has_tasks,
    )


def end(code: int) -> NoReturn:
    """End the process of an application at once.

    Threads may still wait for a database or for Spark's end, and libraries that are torn down beneath them complain in
    the task's log; nothing is left to tidy up.
    """
    with suppress(BrokenPipeError):  # the reader of the words is gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def make_executor(operation: str) -> Executor:
    """Return the executor that this job's parent has decided on; Spark where it said nothing.

    :raises UsageError: there is no such executor.
    """
    chosen = os.environ.get(JOB_VARIABLE, "spark")
    if chosen == "spark":
        from sparkjobs.executors.spark import SparkExecutor  # it loads PySpark

        return SparkExecutor(operation)
    from sparkjobs.executors.inline import InlineExecutor

    if chosen not in ("inline", "bounded"):
        raise UsageError(f"{JOB_VARIABLE} is {chosen!r}: start jobs by command or operator")
    return InlineExecutor(cores=min(len(os.sched_getaffinity(0)), _MOST_INLINE), bounded=chosen == "bounded")


@contextmanager
def _outages_explained() -> Iterator[None]:
    """Explain errors of a server that was lost, or cannot be written."""
    try:
        yield
    except Exception as error:
        url = next((os.environ[name] for name in URL_VARIABLES.values() if name in os.environ), "the database")
        if (cause := explained(error, url)) is not None:
            raise cause from error
        raise


def database_address(role: str) -> Address:
    """Return the address of the source or target, as the parent has set it.

    :param role: "source" or "target".
    """
    url = os.environ.get(URL_VARIABLES[role])
    if url is None:
        raise UsageError(f"{URL_VARIABLES[role]} is not set: start this job by command or operator")
    return Address.parse(url, os.environ.get("PGPASSWORD"))


__all__ = ["Job", "database_address", "run_application"]
