"""Spark as a job's executor: why it does not start, and what a failed task says; test_application.py has real ones."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from holdfast.common.errors import HoldfastError, SparkEndedError, UsageError
from holdfast.common.remote_environment import RemoteEnvironment, needed
from holdfast.operations.job_process import OF_WORKERS
from holdfast.operations.ready_process import PYTHON_SETTINGS
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from sparkjobs.executors import Tally, daemon, spark, survey
from sparkjobs.executors.shipment import needs
from sparkjobs.executors.spark import GUARDED, SparkExecutor
from sparkjobs.executors.spark_task import TaskFailure, telling


class Gateway:
    """Stands for Spark's Java, which knows nothing of a master here."""

    @staticmethod
    def _ensure_initialized() -> None:
        pass


def refusing(error: Exception) -> type[Gateway]:
    class Refuses(Gateway):
        def __init__(self, conf: object) -> None:
            raise error

    return Refuses


def test_a_spark_without_a_secret_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    error = Py4JError("A secret key must be specified via the spark.authenticate.secret config.")
    monkeypatch.setattr(spark, "SparkContext", refusing(error))
    with pytest.raises(UsageError, match=r"has no secret .*: set spark\.authenticate and"):
        _ = SparkExecutor("test").context


def test_a_spark_that_does_not_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "SparkContext", refusing(RuntimeError("JAVA_HOME is not set")))
    with pytest.raises(HoldfastError, match=r"Spark did not start: .*JAVA_HOME is not set\. Try again"):
        _ = SparkExecutor("test").context


class Context(Gateway):
    """Stands for Spark's context: runs each job in this thread, and fails where it is told to."""

    master = "local[3]"
    defaultParallelism = 3  # noqa: N815 - PySpark's name, as those below

    def __init__(self, conf: Any) -> None:
        self.conf = dict(conf.getAll())
        self.jobs: list[list[int]] = []
        self.error: Exception | None = None
        self.cancelled = False

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        """Take any level."""

    def accumulator(self, zero: Tally, param: object) -> SimpleNamespace:
        return SimpleNamespace(value=zero)

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.cancelled = True

    def parallelize(self, some: list[int], parts: int) -> Any:
        assert parts == len(some)
        self.jobs.append(list(some))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(mapPartitions=lambda work: SimpleNamespace(collect=lambda: list(work(some))))


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> SparkExecutor:
    monkeypatch.setattr(spark, "SparkContext", Context)
    monkeypatch.setattr(spark, "telling", lambda work, tally, *, results: lambda items: map(work, items))
    return SparkExecutor("test")


def context_of(executor: SparkExecutor) -> Any:
    return executor.context


def run(executor: SparkExecutor, tasks: list[int], *, at_once: int | None = None) -> list[Any]:
    def work(item: Any, *_: Any) -> Any:
        return 10 * item

    return executor.run(tasks, work, watch=lambda tally: None, tells_results=True, at_once=at_once)


def test_it_is_guarded_named_and_of_as_many_cores_as_spark_has(executor: SparkExecutor) -> None:
    conf = context_of(executor).conf
    assert conf.items() >= {**GUARDED, "spark.app.name": "holdfast test"}.items()
    assert (executor.cores, executor.is_bounded) == (3, False)
    assert context_of(executor) is context_of(executor)


def test_its_workers_are_told_of_imports_that_were_begun(
    executor: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def prepare(environment: Any) -> SimpleNamespace:
        asked.append(environment)
        return SimpleNamespace(address="/here")

    monkeypatch.setattr(daemon, "prepare", prepare)
    executor.prepare()
    assert asked == [PYTHON_SETTINGS]
    assert context_of(executor).conf[f"{OF_WORKERS}{daemon.PREPARED}"] == "/here"


@pytest.mark.parametrize("at_once", [None, 1])
def test_a_java_that_has_ended_is_told_as_such(executor: SparkExecutor, at_once: int | None) -> None:
    context_of(executor).error = Py4JError("An error occurred while calling None")
    with pytest.raises(SparkEndedError, match="Spark's Java process has ended in the middle of the job"):
        run(executor, [1, 2], at_once=at_once)
    assert context_of(executor).cancelled is (at_once is not None)


def test_an_error_of_ours_goes_on_as_it_is(executor: SparkExecutor) -> None:
    context_of(executor).error = ZeroDivisionError("ours")
    with pytest.raises(ZeroDivisionError, match="ours"):
        run(executor, [1])
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


class JavaError(Py4JJavaError):  # type: ignore[misc]  # it has no types
    """Error of Spark's Java, without a Java."""

    def __init__(self, said: str) -> None:
        Exception.__init__(self, said)

    def __str__(self) -> str:
        return str(self.args[0])


FULL_DISK = """do $$ begin
    raise disk_full using message = 'could not extend file', detail = 'Wrote: 1 block', hint = 'Check: free space';
end $$"""


@pytest.mark.service
def test_a_servers_own_error_line_is_the_reason_of_a_failed_task(executor: SparkExecutor, address: Address) -> None:
    def fail(task: int, report: object) -> Iterator[int]:
        with connect(address) as session:
            session.execute(FULL_DISK)
        yield task

    tally = SimpleNamespace(add=lambda more: None)
    with pytest.raises(TaskFailure) as raised:
        list(telling(fail, cast("Any", tally), results=False)([1]))
    text = "".join(traceback.format_exception(raised.value))  # what Python's worker gives Spark
    assert "\nDETAIL: " in text
    assert "\nHINT: " in text
    assert "\nCONTEXT: " in text
    context_of(executor).error = JavaError(
        f"Job aborted: org.apache.spark.api.python.PythonException: {text}\n\tat org"
    )
    with pytest.raises(HoldfastError) as failed:
        run(executor, [1])
    assert str(failed.value) == (
        "a Spark task failed each time it was tried: DiskFull: could not extend file (SQLSTATE 53100) DETAIL: Wrote: "
        "1 block HINT: Check: free space: make room on the server's disk, then start again"
    )


class Remote(Context):
    """Stands for the context of a cluster, whose workers answer what they are told to."""

    master = "spark://master:7077"
    said: ClassVar[list[str]] = []

    def parallelize(self, some: Any, parts: int) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(mapPartitions=lambda work: SimpleNamespace(collect=lambda: list(self.said)))


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> SparkExecutor:
    monkeypatch.setattr(spark, "SparkContext", Remote)
    return SparkExecutor("test")


def test_what_workers_cannot_reach_is_told_once_for_all_of_them(
    remote: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remote, "said", ["on b, no route", "on a, no route", "on b, no route"])
    with pytest.raises(HoldfastError, match=r"what this machine can: on a, no route; on b, no route$"):
        remote.check_reach([])
    remote.check_reach([])  # a job asks for each of its steps


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "(ModuleNotFoundError: No module named 'sparkjobs') PYTHONPATH was: /opt",
            "Spark's workers have no Holdfast in their Python: install Holdfast",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py": error=2',
            "no Python that starts as /opt/py: say by spark",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark",
            "workers have Python 3.12, and this driver has 3.11: install one",
        ),
        ("holdfast.common.errors.UsageError: a worker of Spark (b) has Holdfast 0.0.9", "a worker of Spark .b. has"),
    ],
)
def test_workers_that_cannot_be_used_are_told_before_any_task(remote: SparkExecutor, said: str, told: str) -> None:
    context_of(remote).error = JavaError(said)
    with pytest.raises(UsageError, match=told):
        remote.check_reach([])


class Renewed:
    """Task that travels with credentials of the moment."""

    tokens: ClassVar[list[str]] = []

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        if (remote := needed()) is not None:
            remote.add({"TOKEN": self.tokens[0]})
            remote.is_renewed = True
        return Renewed, (self.number,)


class Renewing(Remote):
    """Stands for the context of a cluster whose store knows which credentials have ended."""

    defaultParallelism = 2  # noqa: N815
    ended: ClassVar[set[str]] = set()

    def parallelize(self, some: Any, parts: int) -> Any:
        self.jobs.append(list(some))
        token = needs(some, one_each).variables["TOKEN"]

        def collect() -> list[Any]:
            if token not in self.ended:
                return [(task.number, token) for task in some]
            del Renewed.tokens[: len(Renewed.tokens) > 1]
            raise JavaError("holdfast.storage.StoreDenied: ExpiredToken")

        return SimpleNamespace(mapPartitions=lambda work: SimpleNamespace(collect=collect))


def renewing(monkeypatch: pytest.MonkeyPatch, count: int, tokens: list[str], ended: set[str]) -> tuple[Any, Any]:
    """Return the context, and what runs so many tasks in it."""
    monkeypatch.setattr(spark, "SparkContext", Renewing)
    monkeypatch.setattr(Renewing, "ended", ended)
    monkeypatch.setattr(Renewed, "tokens", list(tokens))
    executor = SparkExecutor("test")

    def works() -> list[Any]:
        tasks = [Renewed(number) for number in range(count)]
        return executor.run(tasks, lambda item, report: [item], watch=lambda _: None, tells_results=True, at_once=None)

    return context_of(executor), works


def test_each_task_has_the_credentials_of_its_own_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    context, works = renewing(monkeypatch, 5, ["first"], ended=set())
    assert works() == [(number, "first") for number in range(5)]
    assert [len(job) for job in context.jobs] == [1] * 5


def test_a_task_whose_credentials_ended_is_sent_again_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    context, works = renewing(monkeypatch, 1, ["first", "second"], ended={"first"})
    assert works() == [(0, "second")]
    assert len(context.jobs) == 2


def test_the_others_do_not_begin_where_one_failed_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    context, works = renewing(monkeypatch, 99, ["only"], ended={"only"})
    monkeypatch.setattr(Renewing, "defaultParallelism", 0)  # and so one at a time
    with pytest.raises(HoldfastError, match="ExpiredToken"):
        works()
    assert len(context.jobs) < 99
    assert context.cancelled


@pytest.mark.parametrize(("tokens", "jobs"), [(["only"], 1), (["one", "two", "three", "four", "five", "six"], 4)])
def test_a_task_that_fails_all_the_same_is_not_sent_for_ever(
    monkeypatch: pytest.MonkeyPatch, tokens: list[str], jobs: int
) -> None:
    context, works = renewing(monkeypatch, 1, tokens, ended=set(tokens))
    with pytest.raises(HoldfastError, match="each time it was tried: StoreDenied: ExpiredToken"):
        works()
    assert len(context.jobs) == jobs


class Surveyed(Remote):
    """Stands for the context of a cluster with two executors, each of which runs one of two tasks."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: self))

    def getConf(self) -> Any:  # noqa: N802
        return SimpleNamespace(getAll=lambda: [*self.conf.items()])

    def getExecutorInfos(self) -> list[str]:  # noqa: N802
        return ["driver", "a", "b"]

    def parallelize(self, some: Any, parts: int) -> Any:
        def run(ask: Any) -> list[Any]:
            return [{**told, "host": host} for host in "ab"[:parts] for told in ask([0])]

        if self.error is not None:
            raise self.error
        return SimpleNamespace(mapPartitions=lambda ask: SimpleNamespace(collect=lambda: run(ask)))


def one_each(items: Iterable[Any]) -> list[int]:
    return [1 for _ in items]


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> SparkExecutor:
    monkeypatch.setattr(spark, "SparkContext", Surveyed)
    monkeypatch.setattr(survey, "SETTLE_S", 0.0)
    monkeypatch.setattr(survey, "LOOK_S", 0.0)
    monkeypatch.setattr(RemoteEnvironment, "put_in_force", lambda self: None)
    return SparkExecutor("test")


def test_each_executor_is_asked_and_their_number_is_waited_for_once(
    surveyed: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = surveyed.survey(one_each)
    monkeypatch.delattr(spark, "wait_for_executors")
    assert ([host for host, _ in found.workers], found.expected) == (["a", "b"], 2)
    assert [each.answers for each in found.workers.values()] == [[1], [1]]
    assert [each.answers for each in surveyed.survey(None).workers.values()] == [None, None]
    assert surveyed.settings()["spark.authenticate"] == "true"


def test_a_survey_of_workers_without_python_says_so(surveyed: SparkExecutor) -> None:
    context_of(surveyed).error = JavaError('java.io.IOException: Cannot run program "/opt/py"')
    with pytest.raises(UsageError, match="no Python that starts as /opt/py"):
        surveyed.survey(None)
