"""What every application's driver does: work under its parent's locks, tell how it goes, end well.

The process that started the application holds the locks and renews them. A driver whose parent is gone
or whose locks are lost cancels its tasks and ends; whether it wrote anything is decided by its one
commit, never by how it ended.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext

from holdfast.archive.locks import AttachedLocks, attach
from holdfast.archive.runs import RunLog
from holdfast.errors import HoldfastError, ReportedError, SparkEndedError, UsageError, exit_code_of, sentence
from holdfast.jobs import (
    LOCAL_VARIABLE,
    LOCKS_VARIABLE,
    OF_WORKERS,
    PARENT_VARIABLE,
    RECORDS_VARIABLE,
    URL_VARIABLES,
    WORKERS,
    process_start,
)
from holdfast.replication.backing_up import Wish, open_to_write
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.outages import explained
from holdfast.storage import open_store
from locking import LockError, LockStateUnknown
from locking.store import StoreError
from sparkjobs import daemon
from sparkjobs.tasks import Tally, TallyParam, import_modules, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

    from holdfast.archive import Archive
    from holdfast.storage import ObjectStore

_WATCH_S = 1.0
_SHOW_S = 15.0
_ABORT_SIGNAL = signal.SIGUSR1
_CHECK_LOCKS_EVERY = 20
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w+): (?!Traceback)(.+)", re.MULTILINE)
"""The last line of a Python traceback, which Java's own traces show indented or after other words."""


class Job:
    """One run of an application: its store, locks, log and Spark."""

    _last_stop: ClassVar[threading.Thread | None] = None
    """Stops the Spark of this process's last job: there can be one at a time."""

    def __init__(
        self, store: ObjectStore, run: str, operation: str, locks: AttachedLocks, *, records: ObjectStore | None = None
    ) -> None:
        """:param records: where the run's records go; None: into the archive."""
        self.store = store
        self.run = run
        self.locks = locks
        self.log = RunLog(records or store, run, operation)
        self._operation = operation
        self._shown = time.monotonic()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._abort: BaseException | None = None
        self._spark: SparkContext | None = None
        self._parent = os.environ.get(PARENT_VARIABLE)
        self._daemon: daemon.Prepared | None = None

    @property
    def spark(self) -> SparkContext:
        """Return the Spark context; the first use starts it."""
        if self._spark is None:
            if Job._last_stop is not None:
                Job._last_stop.join()
            try:
                conf = SparkConf().setAppName(f"holdfast {self._operation}")
                if self._daemon is not None:
                    conf.set(f"{OF_WORKERS}{daemon.PREPARED}", self._daemon.address)
                self._spark = SparkContext(conf=conf)
                self._spark.setLogLevel("ERROR")
            except (OSError, Py4JError, RuntimeError) as error:
                raise HoldfastError(f"Spark did not start: {sentence(error)}. Try again; its log says more") from error
        return self._spark

    def prepare(self) -> None:
        """Begin to import what workers need on this machine, before Spark starts; without that it takes longer."""
        with suppress(OSError):
            self._daemon = daemon.prepare(WORKERS)

    def start(self, *modules: str) -> None:
        """Start Spark, and let as many workers as it has cores begin to import what tasks need; does not wait for them.

        Java's first job and the workers' imports take a second, in which the driver has other things to do.
        """
        context = self.spark
        cores = context.defaultParallelism

        def warm_up() -> None:
            with suppress(Exception):  # whatever it is, the work itself will say it
                context.parallelize(range(cores), cores).foreachPartition(partial(import_modules, modules))

        threading.Thread(target=warm_up, name="warm-up", daemon=True).start()

    def check(self) -> None:
        """Raise if this work must not go on: the parent is gone or a lock is lost."""
        if self._abort is not None:
            raise self._abort
        self._check_parent()
        self.locks.check()

    def open_archive(self, wish: Wish | None = None) -> Archive:
        """Open the archive to add to it; a replica goes on by the update log, which it is brought to the head of.

        :param wish: the quorum that backups need which are added; None: none.
        """
        return open_to_write(self.store, check=self.check, wish=wish)

    def say(self, *words: str) -> None:
        """Tell people something: in the run's record, and in the log of whoever runs Spark."""
        self.log.say(*words)
        for each in words:
            print(f"holdfast: {each}", file=sys.stderr)  # noqa: T201

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
        """Run `work(task, report)` for every task, one Spark task each, and return all results.

        :param at_once: so many tasks at a time, at most; None leaves that to Spark.
        :param on_results: is told the results of tasks soon after they end, each once, also where the job fails.
        :param work: yields small results; calls `report(rows, bytes)` as it goes on. A HoldfastError
            it raises ends the whole job at once; anything else is tried again by Spark.
        """
        if not tasks:
            return []
        self.check()
        tally = self.spark.accumulator(Tally(), TallyParam())
        told = 0

        def tell_results() -> None:
            nonlocal told
            if on_results and (found := tally.value.results[told:]):
                told += len(found)
                on_results(found)

        def look() -> None:
            seen = tally.value
            tell_results()
            self.log.progress(step, rows=seen.rows, size=seen.size, estimated_rows=estimated_rows)
            self._show()
            if seen.failures:
                self.spark.cancelAllJobs()

        try:
            with self._looking(look):
                results = self._run_tasks(tasks, telling(work, tally, results=on_results is not None), at_once)
        except Exception as error:
            self._raise_cause(tally.value.failures, error)
            raise
        finally:
            tell_results()
        self._raise_cause(tally.value.failures, None)
        return list(results)

    def _run_tasks(
        self, tasks: Sequence[Any], run_task: Callable[[Iterable[Any]], Iterable[Any]], at_once: int | None
    ) -> list[Any]:
        def run(some: Sequence[Any]) -> list[Any]:
            return list(self.spark.parallelize(some, len(some)).mapPartitions(run_task).collect())

        if at_once is None or at_once >= len(tasks):
            return run(tasks)
        # Spark has no limit for one job: so many of its jobs, of one task each, are kept going.
        with ThreadPoolExecutor(at_once, thread_name_prefix="tasks") as pool:
            try:
                return [each for found in pool.map(run, ([task] for task in tasks)) for each in found]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                with suppress(Py4JError, OSError):
                    self.spark.cancelAllJobs()
                raise

    def _show(self) -> None:
        """Print where the job is now and then, for the log of whoever runs Spark."""
        now = time.monotonic()
        if self.log.last is not None and now - self._shown >= _SHOW_S:
            self._shown = now
            print(f"holdfast: {self.log.last.describe()}", file=sys.stderr)  # noqa: T201

    def _raise_cause(self, failures: list[ReportedError], error: Exception | None) -> None:
        """Raise what really ended the job, as one sentence."""
        if self._abort is not None:
            raise self._abort
        if failures:
            raise failures[0]
        if isinstance(error, Py4JJavaError):
            found = _RAISED.findall(str(error))
            said = ": ".join(found[-1]) if found else str(error).splitlines()[0]
            raise HoldfastError(f"a Spark task failed each time it was tried: {said[:600]}") from error
        if isinstance(error, (Py4JError, ConnectionError)):
            raise SparkEndedError(
                "Spark's Java process has ended in the middle of the job (killed, or out of memory): try again"
            ) from error

    @contextmanager
    def _looking(self, look: Callable[[], None]) -> Iterator[None]:
        done = threading.Event()

        def loop() -> None:
            look()  # the step is told even of a job that takes no time
            while not done.wait(_WATCH_S):
                look()

        thread = threading.Thread(target=loop, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the parent and the locks while the block runs, and end it where they are lost; end Spark after it."""
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        before = signal.signal(_ABORT_SIGNAL, self._raise_abort)
        thread.start()
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
        finally:
            signal.signal(_ABORT_SIGNAL, before)
            thread.join()
            self._stop_spark()

    @contextmanager
    def last_step(self) -> Iterator[None]:
        """Let nothing interrupt the block, nor what follows it: whether a commit was made must be known.

        The commit asks for parent and locks itself, just before it is written.
        """
        with self._guard:
            yield
            self._stopping.set()

    def _stop_spark(self) -> None:
        """Stop Spark's Java, and begin to stop Python's part, which looks but once a second whether it is to end."""

        def stop(context: SparkContext) -> None:
            with suppress(Py4JError, OSError):  # it may be gone already
                context.stop()

        if self._spark is not None:
            with suppress(Py4JError, OSError):
                self._spark._jsc.stop()  # which ends with this process, whatever it is at
            Job._last_stop = threading.Thread(target=stop, args=[self._spark], name="stop", daemon=True)
            Job._last_stop.start()

    def _watch(self) -> None:
        turns = 0
        while not self._stopping.wait(_WATCH_S):
            turns += 1
            try:
                self._check_parent()
                if turns % _CHECK_LOCKS_EVERY == 0:
                    self.locks.check()
            except (LockStateUnknown, StoreError):
                continue  # the store did not answer: the commit will ask again, and nothing relies on the lock before
            except (HoldfastError, LockError) as error:
                self._end_work(error)
                return

    def _end_work(self, error: HoldfastError | LockError) -> None:
        """Interrupt the work, whatever it waits for: Spark, the database, pg_restore."""
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

    :param unlocked: it only reads the archive, and was told to do so without locks.
    :param has_tasks: the driver does not do all by itself.
    """
    try:
        store = open_store(archive)
        handles, records = os.environ.get(LOCKS_VARIABLE), os.environ.get(RECORDS_VARIABLE)
        if handles is None and not (unlocked and records):
            raise UsageError("start this job by command or operator: it needs their locks")
        locks = AttachedLocks(store, ()) if handles is None else attach(store, handles)
        job = Job(store, run, operation, locks, records=open_store(records) if records else None)
        if has_tasks and LOCAL_VARIABLE in os.environ:
            job.prepare()
        with job.log as log, job.watched(), _outages_explained():
            job.check()
            log.result = work(job)
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes one sentence and an exit code
        code = exit_code_of(error)
        print(f"holdfast {operation}: {sentence(error)}", file=sys.stderr)  # noqa: T201
        return code
    return 0


@contextmanager
def _outages_explained() -> Iterator[None]:
    """Say what to do about a server that was lost, or cannot be written."""
    try:
        yield
    except Exception as error:
        url = next((os.environ[name] for name in URL_VARIABLES.values() if name in os.environ), "the database")
        if (told := explained(error, url)) is not None:
            raise told from error
        raise


def database_address(role: str) -> Address:
    """Return the database this job works on, as its parent said it.

    :param role: "source" or "target".
    """
    url = os.environ.get(URL_VARIABLES[role])
    if url is None:
        raise UsageError(f"{URL_VARIABLES[role]} is not set: start this job by command or operator")
    return Address.parse(url, os.environ.get("PGPASSWORD"))


__all__ = ["Job", "database_address", "run_application"]
