"""Spark as a job's executor: its context, its tasks, and its errors in our words."""

from __future__ import annotations

import os
import re
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext, cloudpickle

import holdfast
from holdfast.common.cleanup import cleanup
from holdfast.common.errors import HoldfastError, SparkEndedError, UsageError, sentence
from holdfast.operations.job_process import DEFAULT_MASTER, LOCAL_VARIABLE, OF_WORKERS
from holdfast.operations.ready_process import PYTHON_SETTINGS
from sparkjobs.executors import WATCH_S, Executor, Tally, daemon, kubernetes, worker_facts
from sparkjobs.executors.shipment import needs, out_of_reach, pack, ship
from sparkjobs.executors.spark_task import TallyParam, TaskFailure, import_modules, telling
from sparkjobs.executors.survey import survey, wait_for_executors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore
    from sparkjobs.executors import Work
    from sparkjobs.executors.survey import Question, WorkerSurvey

_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w+): (?!Traceback)(.+)", re.MULTILINE)
"""Last lines of Python tracebacks, which Java's own traces show indented or after other words."""


GUARDED = {"spark.authenticate": "true"}
"""Tasks hold the database's password, and Spark's block service gives them to all that connect. Run on one machine and
on YARN, Spark makes a secret for each application, which is in memory alone; on Kubernetes it has to come from a file.

Source: Spark manual, 'Spark Security', Authentication.
"""

_ENCRYPTED = {"spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true"}
"""Beside it, where workers are on other machines: for what goes to them, and for what Spark puts on their disks.

Source: Spark manual, 'Spark Security', Encryption.
"""

_LACKS = (
    (
        re.compile(r"No module named '?(?:sparkjobs|holdfast|locking)\b"),
        f"no Holdfast in their Python: install Holdfast {holdfast.__version__} there, and say by spark.pyspark.python "
        "which Python has it",
    ),
    (
        re.compile(r'Cannot run program "([^"]+)"'),
        "no Python that starts as {0}: say by spark.pyspark.python where it is there",
    ),
    (
        re.compile(r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)"),
        "Python {0}, and this driver has {1}: install one of both on all machines, and say by spark.pyspark.python "
        "where it is there",
    ),
)
"""What Spark says of workers that cannot begin a task, and what they have then."""

MOST = 256
"""Tasks at a time, each of which a thread of the driver waits for."""

RENEWALS = 3
"""How often a task is sent again that failed with credentials which were renewed since."""

_UNGUARDED = "A secret key must be specified via the spark.authenticate.secret config"


class SparkExecutor(Executor):
    """Executor that runs each task as one of Spark's, which the first use of its context starts.

    :param operation: is the application's name.
    """

    _last_stop: ClassVar[threading.Thread | None] = None
    """Stops the Spark of this process's last job: there can be one at a time."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._context: SparkContext | None = None
        self._daemon: daemon.Prepared | None = None
        self._has_reach = False
        self._executors = 0

    @property
    def context(self) -> SparkContext:
        """Return Spark's context.

        :raises HoldfastError: Spark did not start.
        """
        if self._context is None:
            if SparkExecutor._last_stop is not None:
                SparkExecutor._last_stop.join()
            try:
                SparkContext._ensure_initialized()  # else a SparkConf knows nothing of what spark-submit was given
                conf = SparkConf().setAppName(f"holdfast {self._operation}").setAll([*GUARDED.items()])
                if LOCAL_VARIABLE in os.environ and not _is_local(conf.get("spark.master")):
                    conf.setMaster(DEFAULT_MASTER)  # of a database that other machines cannot reach
                if not _is_local(conf.get("spark.master")):
                    conf.setAll([*_ENCRYPTED.items()])
                if kubernetes.is_kubernetes(conf.get("spark.master")):
                    kubernetes.complete(conf, os.environ)
                if self._daemon is not None:
                    conf.set(f"{OF_WORKERS}{daemon.PREPARED}", self._daemon.address)
                self._context = SparkContext(conf=conf)
                self._context.setLogLevel("ERROR")
            except (OSError, Py4JError, RuntimeError) as error:
                if _UNGUARDED in str(error):
                    raise UsageError(
                        "this Spark has no secret by which its processes know each other, and all that reach them "
                        "could read the database's password: set spark.authenticate and spark.authenticate.secret in "
                        "the configuration of its masters, workers and drivers (a standalone cluster makes none itself)"
                    ) from error
                raise HoldfastError(f"Spark did not start: {sentence(error)}. Try again; its log says more") from error
        return self._context

    @property
    def cores(self) -> int:
        return int(self.context.defaultParallelism)

    def prepare(self) -> None:
        """Begin the imports of workers on this machine, before Spark starts.

        Without that they take longer.
        """
        with suppress(OSError):
            self._daemon = daemon.prepare(PYTHON_SETTINGS)

    def start(self, modules: Sequence[str]) -> None:
        """Start Spark, and begin the imports of tasks in as many workers as it has cores, without waiting.

        Java's first job and the workers' imports take a second, in which the driver has other things to do.
        """
        context = self.context
        cores = self.cores

        def warm_up() -> None:
            with suppress(Exception):  # the work itself will say it
                context.parallelize(range(cores), cores).foreachPartition(partial(import_modules, modules))

        threading.Thread(target=warm_up, name="warm-up", daemon=True).start()

    def check_reach(self, things: Sequence[ObjectStore | Address]) -> None:
        """Check once that workers on other machines can open what tasks will.

        Tasks find out on their own, each after its time-out and four times over.

        :raises HoldfastError: one cannot; names the machine.
        """
        if self._has_reach or _is_local(self.context.master):
            return
        self._has_reach = True
        try:
            found = self._run_tasks(range(self.cores), partial(out_of_reach, things), None)
        except Exception as error:
            _raise_cause(Tally(), error)
            raise
        if found:
            raise HoldfastError(f"Spark's workers cannot do what this machine can: {'; '.join(sorted(set(found)))}")

    def settings(self) -> Mapping[str, str]:
        return dict(self.context.getConf().getAll())

    def survey(self, question: Question | None) -> WorkerSurvey:
        """Put a question to each executor of the cluster, also where no Holdfast is installed.

        :raises HoldfastError: there is no executor, or Python does not start there.
        """
        context = self.context
        cloudpickle.register_pickle_by_value(worker_facts)  # type: ignore[no-untyped-call]
        ask = worker_facts.asker(holdfast.__version__, None if question is None else pack(question))
        try:
            if not self._executors:
                wait_for_executors(self._count_executors)
            self._executors = max(self._executors, self._count_executors())  # more may have come since
            return survey(
                self._executors, lambda count: context.parallelize(range(count), count).mapPartitions(ask).collect()
            )
        except Exception as error:
            _raise_cause(Tally(), error)
            raise

    def _count_executors(self) -> int:
        return (
            len(self.context._jsc.sc().statusTracker().getExecutorInfos()) - 1
        )  # beside them, Spark counts its driver

    def run(
        self,
        tasks: Sequence[Any],
        work: Work,
        *,
        watch: Callable[[Tally], None],
        tells_results: bool,
        at_once: int | None,
    ) -> list[Any]:
        """Run tasks and return their results, in the order of the tasks.

        :raises SparkEndedError: Java has ended.
        """
        tally = self.context.accumulator(Tally(), TallyParam())

        def look() -> None:
            seen = tally.value
            watch(seen)
            if seen.failures:
                self.context.cancelAllJobs()

        with cleanup(lambda: watch(tally.value)):
            try:
                with _looking(look):
                    results = self._run_tasks(tasks, telling(work, tally, results=tells_results), at_once)
            except Exception as error:
                _raise_cause(tally.value, error)
                raise
        _raise_cause(tally.value, None)
        return list(results)

    def _run_tasks(
        self, tasks: Sequence[Any], run_task: Callable[[Iterable[Any]], Iterable[Any]], at_once: int | None
    ) -> list[Any]:
        def run(some: Sequence[Any]) -> list[Any]:
            if _is_local(self.context.master):
                return list(self.context.parallelize(some, len(some)).mapPartitions(run_task).collect())
            return list(ship(self.context, some, run_task).collect())

        slots = ClusterSlots(lambda: self.cores + 1)
        if tasks and not _is_local(self.context.master) and needs(tasks[:1], run_task).is_renewed:
            # What one job of Spark's sends has the credentials of its beginning: so each task is a job of its own. One
            # more than there are cores waits for one: a cluster that grows by need sees that there is need.
            at_once, run = min(at_once or MOST, MOST, len(tasks)), partial(_renewing, run, run_task, slots)
        elif at_once is None or at_once >= len(tasks):
            return run(tasks)
        # Spark has no limit for one job: so many of its jobs, of one task each, are kept going.
        with ThreadPoolExecutor(at_once, thread_name_prefix="tasks") as pool:
            try:
                return [each for found in pool.map(run, ([task] for task in tasks)) for each in found]
            except BaseException:
                slots.close()
                pool.shutdown(wait=False, cancel_futures=True)
                with suppress(Py4JError, OSError):
                    self.context.cancelAllJobs()
                raise

    def stop(self) -> None:
        """Stop Spark's Java, and begin to stop its Python part, which looks once a second whether it is to end."""

        def stop(context: SparkContext) -> None:
            with suppress(Py4JError, OSError):  # it may be gone already
                context.stop()

        if self._context is not None:
            with suppress(Py4JError, OSError):
                self._context._jsc.stop()  # which ends with this process
            SparkExecutor._last_stop = threading.Thread(target=stop, args=[self._context], name="stop", daemon=True)
            SparkExecutor._last_stop.start()


class ClusterSlots:
    """Slots that threads take one of, in no certain order.

    :param count: looks how many there are; is asked once a second at most.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._counted = count()
        self._when = time.monotonic()
        self._taken = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a slot, and keep it for the block.

        :raises CancelledError: the slots were closed.
        """
        with self._changed:
            while not self._is_closed and self._taken >= self._there():
                self._changed.wait(WATCH_S)
            if self._is_closed:
                raise CancelledError
            self._taken += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify()

    def close(self) -> None:
        """Let no thread begin any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _there(self) -> int:
        if time.monotonic() - self._when >= WATCH_S:
            self._counted, self._when = self._count(), time.monotonic()
        return self._counted


def _renewing(
    run: Callable[[Sequence[Any]], list[Any]],
    run_task: Callable[[Iterable[Any]], Iterable[Any]],
    slots: ClusterSlots,
    some: Sequence[Any],
) -> list[Any]:
    """Run tasks, and again where they failed and would now be sent with other credentials: theirs may have ended."""
    for _ in range(RENEWALS):
        with slots.one():
            sent = needs(some, run_task)
            try:
                return run(some)
            except Py4JJavaError:
                if needs(some, run_task) == sent:
                    raise
    with slots.one():
        return run(some)


def _is_local(master: str | None) -> bool:
    """Return whether tasks run on the driver's machine, in processes that have its environment and its files."""
    return master is None or master.split("[")[0] == "local"


def _raise_cause(seen: Tally, error: Exception | None) -> None:
    """Raise the cause of failed tasks, as one sentence."""
    if seen.failures:
        raise seen.failures[0]
    if isinstance(error, Py4JJavaError):
        for pattern, has in _LACKS:
            if match := pattern.search(str(error)):
                has = has.format(*match.groups())
                raise UsageError(f"Spark's workers have {has} (docs/cluster.md)") from error
        raised = _RAISED.findall(str(error))
        failures = [said for kind, said in raised if kind == TaskFailure.__name__]
        kind, said = ("", failures[-1]) if failures else raised[-1] if raised else ("", str(error).splitlines()[0])
        if kind == UsageError.__name__:  # of what a task was before its work began
            raise UsageError(said) from error
        said = f"{kind}: {said}" if kind else said
        raise HoldfastError(f"a Spark task failed each time it was tried: {said[:600]}") from error
    if isinstance(error, (Py4JError, ConnectionError)):
        raise SparkEndedError(
            "Spark's Java process has ended in the middle of the job (killed, or out of memory): try again"
        ) from error


@contextmanager
def _looking(look: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def loop() -> None:
        look()  # the step is shown even of a job that takes no time
        while not done.wait(WATCH_S):
            look()

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
