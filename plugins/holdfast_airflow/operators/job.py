"""Base classes of the operators that work on an archive."""

from __future__ import annotations

import inspect
import shutil
import threading
from abc import abstractmethod
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from holdfast.common.cleanup import cleanup
from holdfast.common.errors import HoldfastError
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.executor_choice import check_hand_over, forced_executor, is_inline
from holdfast.operations.job_process import (
    check_java,
    find_application,
    inline_command,
    job_path,
    local_environment,
    new_run_id,
    spark_conf,
)
from holdfast.operations.outcome import JobEnd, last_words
from holdfast.operations.run import PreparedJob, check, run_locked
from holdfast_airflow.arguments import Span, add_arguments, check_spans, request_of, span
from holdfast_airflow.assets import fill_events
from holdfast_airflow.connections import check_spark_connection, find_archive_or_connection, is_cluster_connection
from holdfast_airflow.deferral import check_event, deadline_in, deferred_until_free
from holdfast_airflow.exceptions import JobFailed, in_airflow_terms
from holdfast_airflow.jobs.log_lines import progress_logged, spark_lines
from holdfast_airflow.jobs.processes import RUN_VARIABLE, end_processes, run_inline
from holdfast_airflow.links import ArchiveLink, JobLink
from holdfast_airflow.notes import RUN, leave_note
from holdfast_airflow.owners import owner_of
from holdfast_airflow.telemetry.lineage import Moved, lineage_of
from holdfast_airflow.telemetry.metrics import job_metrics
from locking import LockBusy, LockError
from locking.one_line import LogsLines
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from holdfast.archive.locks import HeldLocks
    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.requests.base import Request
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore
    from holdfast_airflow.telemetry.metrics import JobMetrics

_RELEASE_S = 2.0


class ArchiveOperator(LogsLines, BaseOperator):
    """Operator that works on an archive in the task's own process.

    :param archive: a name in archives.yaml. (templated)
    """

    request_type: ClassVar[type[Request]]
    """Its options are arguments of the operator, where it has any."""

    operator_extra_links = (ArchiveLink(),)

    template_fields: Sequence[str] = ("archive",)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "request_type" in cls.__dict__:
            add_arguments(cls, cls.request_type, {})

    def __init__(self, *, archive: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.archive = archive


class ArchiveJobOperator(LogsLines, SparkSubmitOperator):  # type: ignore[override]
    """Operator that runs a Spark application under the locks of its operation.

    Takes the locks (deferred while they are busy), runs the application, reads back from the
    archive what the job did, and releases the locks in any case. What is secret reaches the job
    through the environment of the process only, so Spark must run in client mode.

    :param archive: a name in archives.yaml, or a URL. (templated)
    :param replica: which of its replicas; without it, the first one in archives.yaml. (templated)
    :param lock_wait: how long to wait for the locks before failing with the holder's name: a timedelta, seconds, or
        words such as `90 min`. Waiting is deferred: it takes no worker slot. (templated)
    :param spark_conn_id: the Spark connection; without it, the one archives.yaml names. It is asked for only where
        Spark is needed. (templated)
    :param job_executor: where the job runs: `spark`; `inline`, in a child process of the task without Java; or `auto`,
        for `inline` where there is little to do, else Spark. Without it, what HOLDFAST_EXECUTOR says, else `auto`.
        (templated)

    All other arguments go to :class:`SparkSubmitOperator`, such as `driver_memory` and `conf`.
    """

    request_type: ClassVar[type[Request]]
    """Its options are arguments of the operator; its operation names the application and the row in the table of
    locks."""

    request_defaults: ClassVar[Mapping[str, Any]] = {}
    """Of arguments, where they are not those of the request."""

    operation: ClassVar[str]

    role: ClassVar[Literal["source", "target"]] = "source"
    """Whether the database is read or written, where there is one."""

    operator_extra_links = (ArchiveLink(), JobLink())

    template_fields: Sequence[str] = (
        "archive",
        "replica",
        "conf",
        "name",
        "lock_wait",
        "spark_conn_id",
        "job_executor",
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "request_type" in cls.__dict__:
            cls.operation = cls.request_type.operation
            add_arguments(cls, cls.request_type, cls.request_defaults)

    def __init__(
        self,
        *,
        archive: str,
        replica: str | None = None,
        lock_wait: Span = timedelta(hours=1),
        spark_conn_id: str | None = None,
        job_executor: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", f"holdfast-{self.operation}")
        # A local driver has no id to come back to after a crash: another try is a new job.
        super().__init__(durable=False, **kwargs)
        check_spans(lock_wait=lock_wait)
        self.archive = archive
        self.replica = replica
        self.lock_wait = lock_wait
        self.spark_conn_id = spark_conn_id
        self.job_executor = job_executor
        self._locks: HeldLocks | None = None
        self._deadline: datetime | None = None
        self._task_context: Context | None = None
        self._run_name = ""
        self._killed = False
        self._secret_environment: dict[str, str] = {}
        self._spark_log: Any = None
        self._moved: Moved | None = None

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        return self.confirmed(context, self._attempt(context, deadline_in(span(self.lock_wait))))

    def execute_when_free(self, context: Context, event: Mapping[str, Any] | None, deadline: str) -> dict[str, Any]:
        return self.confirmed(context, self._attempt(context, check_event(event, deadline)))

    def on_kill(self) -> None:
        """End the job, then give the locks back. Both within the five seconds Airflow leaves."""
        self._killed = True
        if self._run_name:
            end_processes(self._run_name)
        # In a thread: this runs inside a signal handler, which may have interrupted the release itself.
        release = threading.Thread(target=self._release, daemon=True)
        release.start()
        release.join(_RELEASE_S)

    def place(self, archive: ArchiveConfig) -> str:
        return archive.location(self.replica)

    def subject(self, archive: ArchiveConfig) -> tuple[str | None, Address | None]:
        """Return the source and the database of the job. None for neither."""
        return None, None

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        """Return the arguments, with settings of archives.yaml for those not given.

        :raises UsageError: an argument makes no sense; it is said before any lock is taken.
        """
        made: Request = request_of(self, self.request_type)
        return made.with_values(source=source) if source and "source" in self.request_type.model_fields else made

    @property
    def measured_as(self) -> str:
        """Return the name of the operation in metrics."""
        return self.operation

    @property
    def job_run(self) -> str:
        """Return the name of the job's run in the archive; "" before a job has started."""
        return self._run_name

    @abstractmethod
    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Check a successful job in the archive; return its summary."""

    def confirmed(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        """Return the summary of a job once its result counts. Its locks are released."""
        return summary

    def wait_left(self) -> float:
        """Return the remaining seconds of `lock_wait`, for a running job."""
        return max(0.0, (self._deadline - datetime.now(UTC)).total_seconds()) if self._deadline else 0.0

    def say(self, words: str) -> None:
        """Log what people should know."""
        self.log.warning("%s", words)

    def note(self, words: str) -> None:
        """Log what goes as it should."""
        self.log.info("%s", words)

    def check_spark(self) -> str:
        """Return the master of the Spark that the job runs on.

        :raises HoldfastError: Spark cannot start; says what is missing.
        """
        mode = self._deploy_mode or (self.conf or {}).get("spark.submit.deployMode")
        master = check_spark_connection(self._conn_id, deploy_mode=mode)
        check_java()
        binary = self._spark_binary or "spark-submit"
        if shutil.which(binary, path=job_path()) is None:
            raise HoldfastError(f"{binary} was not found: install pyspark into Airflow's environment")
        return master

    @contextmanager
    def followed(self, job: PreparedJob, records: ObjectStore) -> Iterator[None]:
        """Log the job's progress while the block runs."""
        from holdfast.archive.format.runs import read_last

        with progress_logged(lambda: read_last(records, job.run), self.note):
            yield

    def start(self, job: PreparedJob, environment: Mapping[str, str]) -> JobEnd:
        """Run the job's process to its end, and return that.

        :raises SparkNeededError: it ran inline and has more to do than small work, none of which it did.
        """
        if self._killed:  # while the locks were being taken, say: Airflow's signal does not end the task
            raise JobFailed("the task was killed before its job began")
        environment = {**environment, RUN_VARIABLE: job.run}
        self._run_name = job.run
        end = self._run_inline(job, environment) if is_inline(environment) else self._run_spark(job, environment)
        if self._killed:
            raise JobFailed("the task was killed, and its job with it")
        return end

    def unread(self, error: StoreError) -> Exception:
        """Return the error itself: another try finds out what this one has done."""
        return error

    def _attempt(self, context: Context, deadline: datetime) -> dict[str, Any]:
        with job_metrics(self.archive, self.measured_as) as metrics, in_airflow_terms():
            return self._under_locks(context, deadline, metrics)

    def _under_locks(self, context: Context, deadline: datetime, metrics: JobMetrics) -> dict[str, Any]:
        self._deadline = deadline
        self._task_context = context
        job = self._prepare(context)
        metrics.source = job.source or metrics.source
        store = check(job, self)
        self._locks = self._take_locks(store, job, context, deadline)
        with self._ended():
            metrics.begin(span(self.lock_wait).total_seconds() - self.wait_left(), self.archive, self.measured_as)
            metrics.summary = summary = self._run(store, job, context)
            self.note_moved(job.database, store, summary, source=job.source)
            self.fill_asset_events(context, store, job.source, summary)
            return summary

    def context_of(self, settings: ArchiveConfig) -> ArchiveContext:
        """Return the context of the archive or replica."""
        return ArchiveContext.resolve(settings, self.place(settings))

    def _prepare(self, context: Context) -> PreparedJob:
        settings = find_archive_or_connection(self.archive)
        archive = self.context_of(settings)
        self._conn_id = self.spark_conn_id or settings.spark_connection
        executor = forced_executor(self.job_executor)
        source, database = self.subject(settings)
        request = self.request(settings, source)
        self.application = str(find_application(request.operation))
        run = new_run_id(f"{request.operation}-{source or 'all'}")
        on_cluster = is_cluster_connection(self._conn_id)
        return PreparedJob(archive, request, run, source, database, executor, on_cluster=on_cluster)

    def _take_locks(self, store: ObjectStore, job: PreparedJob, context: Context, deadline: datetime) -> HeldLocks:
        purpose = f"{self.operation} {job.source or ''}".strip()
        try:
            return job.acquire(store, owner_of(context, scope="task"), purpose=purpose, wait=0)
        except LockBusy as error:
            trigger = self._trigger(job, deadline)
            raise deferred_until_free(self, trigger, busy=str(error), deadline=deadline) from None

    def _trigger(self, job: PreparedJob, deadline: datetime) -> Any:
        from holdfast_airflow.triggers.lock import PlanFreeTrigger

        return PlanFreeTrigger(
            url=job.archive.url, deadline=deadline.isoformat(), operation=job.operation, sources=job.sources
        )

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """End the job's processes and release the locks, in this order, however the block ends."""
        with cleanup(self._end_job, self._release):
            yield

    def _end_job(self) -> None:
        if self._run_name:
            end_processes(self._run_name)

    def _release(self) -> None:
        held, self._locks = self._locks, None
        if held is None:
            return
        try:
            held.release()
        except (LockError, StoreError) as error:
            self.log.warning("the locks could not be released; they end with their lease: %s", error)

    def _run(self, store: ObjectStore, job: PreparedJob, context: Context) -> dict[str, Any]:
        if self._killed:  # while the locks were being taken, say: Airflow's signal does not end the task
            raise JobFailed("the task was killed before its job began")
        about = f" of {job.source}" if job.source else ""
        self.log.info("%s%s begins: run %s in %s", job.operation, about, job.run, job.archive.url)
        leave_note(RUN, {"run": job.run, "archive": self.archive, "url": job.archive.url})
        summary = self.summarise(store, job.run, run_locked(job, store, self._locks, self))
        self.log.debug("the summary of the %s: %s", job.operation, summary)
        self.log.info("%s", self.sentence(summary))
        return summary

    def sentence(self, summary: Mapping[str, Any]) -> str:
        return f"{self.operation} is done: {', '.join(f'{key} {value}' for key, value in summary.items() if value)}"

    def fill_asset_events(
        self, context: Context, store: ObjectStore, source: str | None, summary: Mapping[str, Any]
    ) -> None:
        """Fill the events of the archive's assets."""
        fill_events(
            self.outlets,
            context,
            summary={"source": source, **summary},
            archive=self.context_of(find_archive_or_connection(self.archive)),
            store=store,
        )

    def note_moved(self, database: Address | None, store: ObjectStore, summary: Mapping[str, Any], **more: Any) -> None:
        self._moved = Moved(self.role, database, store, summary, **more) if database else None

    def _run_inline(self, job: PreparedJob, environment: Mapping[str, str]) -> JobEnd:
        command = inline_command(job.operation, job.arguments)
        code, lines = run_inline(command, environment, run=job.run, say=self.note)
        if not self._killed:
            check_hand_over(job.operation, code)
        return JobEnd(code, last_words("\n".join(lines), job.operation), list(lines))

    def _run_spark(self, job: PreparedJob, environment: Mapping[str, str]) -> JobEnd:
        self._secret_environment = {**local_environment(self.check_spark()), **environment}
        self.conf = {**spark_conf(), **(self.conf or {})}
        self.application_args = job.arguments
        self._hook = None  # one that has started a job already would start it with that one's environment
        try:
            with spark_lines(self.log, job.run) as self._spark_log:
                # Unwrapped, because the wrapper warns of a call outside the task runner when a deferred task
                # goes on: it knows only tasks that are at their first method.
                inspect.unwrap(SparkSubmitOperator.execute)(self, self._task_context)
        except AirflowException as error:
            end_processes(job.run)
            _, _, output = str(error).partition("Last spark-submit output:")
            lines = [line for line in output.splitlines() if line.strip()]
            return JobEnd(None, last_words(str(error), job.operation), lines)
        return JobEnd()

    def _get_hook(self) -> Any:
        hook = super()._get_hook()
        # Not through env_vars: that is a template field, which Airflow stores and shows, and on YARN and
        # Kubernetes the hook would write it into the command as `--conf`.
        hook._env = self._secret_environment
        hook._log = self._spark_log
        return hook


class SourceJobOperator(ArchiveJobOperator):
    """Operator that runs a job on one source, or on all.

    :param source: the source in the archive. (templated)
    """

    template_fields: Sequence[str] = (*ArchiveJobOperator.template_fields, "source")

    def __init__(self, *, source: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source

    def subject(self, archive: ArchiveConfig) -> tuple[str | None, Address | None]:
        return self.source or None, None


class DatabaseJobOperator(SourceJobOperator):
    """Operator that runs a Spark application that reads or writes a database.

    :param source: the source in the archive; not needed where there is only one. (templated)
    """

    @abstractmethod
    def database(self, archive: ArchiveConfig) -> tuple[str | None, Address]:
        """Return the source's name and the database's address."""

    def subject(self, archive: ArchiveConfig) -> tuple[str | None, Address | None]:
        return self.database(archive)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return the lineage of the job. Airflow's OpenLineage provider asks for it, where it is installed."""
        return lineage_of(self._moved) if self._moved else None
