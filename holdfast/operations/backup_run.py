"""The run of a backup: its held snapshot, its jobs, and their restarts.

A snapshot lives as long as the session that holds it. The process that starts the backup holds it, so another driver
can continue a killed job. If that session is cut, the rows cannot be joined with a later snapshot.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from holdfast.archive import Archive
from holdfast.archive.format.block import WaitingTable
from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import RunLog, read_last
from holdfast.common.errors import (
    HoldfastError,
    RefusedError,
    ReportedError,
    SparkEndedError,
    UndecodableError,
    exit_code_of,
    sentence,
)
from holdfast.common.lsn import parse_position
from holdfast.common.words import named
from holdfast.operations.backup_decision import Postponed, decide, newest_with_stream
from holdfast.operations.executor_choice import choose_executor, run_chosen
from holdfast.operations.job_process import SNAPSHOT_VARIABLE
from holdfast.postgresql.connection import session_errors
from holdfast.postgresql.connection.session import connect, server_error
from holdfast.postgresql.logical.stream import advance, flush_position
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot
from holdfast.replication.work.replica_backup import await_quorum, source_taken
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast.archive.format.runs import RunRecord
    from holdfast.operations.backup_decision import Decision
    from holdfast.operations.executor_choice import Executor, ExecutorChoice
    from holdfast.operations.requests.backup import BackupRequest
    from holdfast.postgresql.connection.address import Address
    from holdfast.replication.log.settings import AnyAddress
    from holdfast.storage import ObjectStore

ATTEMPTS = 3
"""Maximum number of starts of a job."""

RETURN_S = 60.0
"""Seconds for a restarted server to answer."""

_SHOWN = 200


def needs_spark(archive: Archive, address: Address, request: BackupRequest, *, on_cluster: bool) -> bool:
    """Return whether a backup needs Spark in any state of the source: it takes a snapshot of a large database."""
    known = newest_with_stream(archive.state, request.source)
    if request.kind != "full" and request.restart != "now" and known is not None:
        return False
    size = None if on_cluster else database_bytes(address)
    return choose_executor("backup", database_bytes=size, on_cluster=on_cluster).executor == "spark"


def run_to_the_end(
    store: ObjectStore,
    run: str,
    address: Address,
    *,
    request: BackupRequest,
    attempt: Callable[[Mapping[str, str]], str],
    say: Callable[[str], None] = lambda words: None,
    note: Callable[[str], None] = lambda words: None,
    coordination: AnyAddress = None,
    wait: float = 0.0,
    executor: Executor = "auto",
    on_cluster: bool = False,
) -> None:
    """Run a backup's job until it has reported a result or an error of its own.

    A full backup works in a held snapshot. If an incremental one finds tables that start over, another job backs up
    the changes up to such a snapshot with those tables' rows; where that fails, the changes alone, and the tables wait.

    :param attempt: runs the job once, with these environment variables, until none of its processes runs; returns the
        sentence that its driver ended with; raises `SparkNeededError` for a hand-over to Spark.
    :param say: takes messages, which the run's records have, too; `note`: the executor of each job.
    :param wait: seconds for a backup of the source through another replica, and for locks of others.
    :raises RefusedError, BusyError: no snapshot could be taken, the source cannot be followed, or it is being backed
        up through another replica.
    :raises ReportedError: changes were backed up, and tables wait to start over.
    """
    with ExitStack() as taken:
        with _failure_recorded(store, run):
            turn = source_taken(
                store, request.source, run, coordination, quorum_request=request.quorum_request, wait=wait, say=say
            )
            settle = taken.enter_context(turn)
            decision = _decide(store, address, request, say)
        jobs = _Jobs(store, run, address, attempt, say, note, executor, on_cluster, ddl_waits=request.ddl == "wait")
        _run_jobs(jobs, decision, settle)
        if request.restart == "stuck" and (stuck := jobs.stuck):
            with _failure_recorded(store, run):
                restarted = request.with_values(restart_stream="now", stuck=stuck)
                decision = _decide(store, address, restarted, say)
            jobs.snapshot(decision)


def confirm(
    store: ObjectStore,
    address: Address,
    result: Mapping[str, Any],
    *,
    say: Callable[[str], None] = lambda words: None,
    coordination: AnyAddress = None,
    patience: float = math.inf,
) -> dict[str, Any]:
    """Wait for the quorum of a backup without a lock, and release the log of archived changes on its server.

    :param result: of the backup's job; it is returned with the replicas that have the backup.
    :param patience: seconds; the quorum's own deadline ends the wait, too.
    :raises QuorumFailedError: too few replicas had it in time, so the backup does not count.
    :raises BusyError: it is still pending when the patience is over.
    """
    reached = await_quorum(store, str(result["block"]), address=coordination, say=say, patience=patience)
    try:
        _let_go(store, address, result)
    except (HoldfastError, StoreError, psycopg.Error) as error:
        say(f"the source keeps the archived log until the next backup: {sentence(error)}")
    return {**result, "quorum": reached}


def _let_go(store: ObjectStore, address: Address, result: Mapping[str, Any]) -> None:
    placed = Archive.open(store).state.blocks.get(str(result["block"]))
    if placed is None or placed.head.kind != "changes" or placed.head.stream is None:
        return
    with connect(address) as session:
        advance(session, placed.head.stream.slot, placed.head.covers.to_position)


def _run_jobs(jobs: _Jobs, decision: Decision, settle: Callable[[], None]) -> None:
    """Run the jobs of a backup; `settle` waits until a commit counts."""
    if decision.kind == "snapshot":
        jobs.snapshot(decision)
        return
    if begin := jobs.changes(decision):
        jobs.say(f"taking a snapshot of {named([f'{table} ({reason})' for table, reason in begin.items()])}")
        jobs.settled(settle)
        jobs.start_over(decision)
    waiting = jobs.waiting()
    if waiting:
        jobs.settled(settle)
        jobs.fail_for(waiting)


@dataclass(frozen=True)
class _Jobs:
    """The jobs of a run, restarted where they are killed."""

    store: ObjectStore
    run: str
    address: Address
    attempt: Callable[[Mapping[str, str]], str]
    say: Callable[[str], None]
    note: Callable[[str], None]
    executor: Executor
    on_cluster: bool
    ddl_waits: bool

    def changes(self, decision: Decision) -> Mapping[str, str]:
        """Back up changes, and return the tables that need a snapshot, each with the reason."""
        for number in range(2, ATTEMPTS + 2):
            words, record = self._run(decision, reads_log=True)
            if record is not None and record.result is not None:
                begin: Mapping[str, str] = record.result.get("to_begin", {})
                return begin
            if record is None or number > ATTEMPTS or not _was_killed(record, words):
                return {}
            _tell(self.store, self.run, f"{_why(record, '')} (attempt {number} of {ATTEMPTS})", self.say)
        return {}

    def start_over(self, decision: Decision) -> None:
        """Back up changes up to a snapshot with the tables that start over, or else the changes alone."""
        before = self._last()
        try:
            words = self.snapshot(decision.model_copy(update={"begins": True}))
        except HoldfastError as error:
            postponed = Postponed.by(error)
        else:
            if self._last() != before:
                return
            postponed = Postponed(reason=words or "its job did not start")
        self.say(f"the changes are backed up without the tables that start over: {postponed.reason}")
        self.changes(decision.model_copy(update={"postponed": postponed}))

    @property
    def stuck(self) -> str:
        """Return the last job's reason why no incremental backup can continue, or ""."""
        record = self._last()
        failed = record is not None and record.error is not None and record.error.type == UndecodableError.__name__
        return record.error.message if failed and record and record.error else ""

    def waiting(self) -> tuple[WaitingTable, ...]:
        record = self._last()
        if record is None or record.state != "succeeded" or record.result is None:
            return ()
        return tuple(WaitingTable.model_validate(each) for each in record.result.get("waiting", ()))

    def fail_for(self, waiting: Sequence[WaitingTable]) -> None:
        """Fail the run for its waiting tables: with exit code 5 if one needs a person, else 1."""
        record = self._last()
        result = (record.result if record else None) or {}
        tables = [f"{each.table}, which has no rows since {iso(each.since)} ({each.reason})" for each in waiting]
        with _failure_recorded(self.store, self.run):
            raise ReportedError(
                f"commit {result.get('commit')} has the changes up to {result.get('restorable_to')}, except "
                f"{named(tables)}; the next backup tries these again",
                RefusedError.exit_code if any(each.act for each in waiting) else HoldfastError.exit_code,
            )

    def snapshot(self, decision: Decision) -> str:
        """Back up in a snapshot that outlives the job's driver; return the last driver's final sentence."""
        store, run, address = self.store, self.run, self.address
        with ExitStack() as holding:
            held = _hold(store, run, lambda: _take(address, holding, self.ddl_waits))
            for number in range(2, ATTEMPTS + 2):
                words, record = self._run(decision, {SNAPSHOT_VARIABLE: held.snapshot.to_json()})
                if record is None or record.state == "succeeded" or number > ATTEMPTS or _has_snapshot(store, run):
                    break
                killed = _was_killed(record, words)
                gone = held.why_gone() if killed or _failed(record) else ""
                if not killed and not gone:
                    break
                _tell(store, run, f"{_why(record, gone)} (attempt {number} of {ATTEMPTS})", self.say)
                if gone:
                    holding.close()
                    held = _hold(store, run, lambda: _patiently()(_take, address, holding, self.ddl_waits))
        return words

    def _run(
        self, decision: Decision, environment: Mapping[str, str] | None = None, *, reads_log: bool = False
    ) -> tuple[str, RunRecord | None]:
        """Run a job once; return its driver's final sentence, and its newest record unless it did not begin."""
        before: RunRecord | None = None

        def start(more: Mapping[str, str]) -> str:
            nonlocal before
            before = self._last()
            with decision.handed_over() as handed:
                return self.attempt({**handed, **(environment or {}), **more})

        with _failure_recorded(self.store, self.run):
            choice = self._choose_executor(decision, reads_log)
            words = run_chosen(choice, start, self.note)
        record = self._last()
        return words, None if record == before else record

    def _choose_executor(self, decision: Decision, reads_log: bool) -> ExecutorChoice:
        """Choose by the bytes of log that are read, or those of the database; Spark, where both are read."""
        log = database = None
        if decision.stream is not None and reads_log:
            log = _log_bytes(self.address, decision.stream.position)
        elif not decision.begins:
            database = database_bytes(self.address)
        return choose_executor(
            "backup", forced=self.executor, log_bytes=log, database_bytes=database, on_cluster=self.on_cluster
        )

    def settled(self, settle: Callable[[], None]) -> None:
        """Wait until the commit counts, and record a failure of that."""
        with _failure_recorded(self.store, self.run):
            settle()

    def _last(self) -> RunRecord | None:
        """Return the newest record of the run, if it can be read."""
        with suppress(HoldfastError, StoreError):
            return read_last(self.store, self.run)
        return None


def _patiently() -> Retrying:
    return Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, HoldfastError) and exit_code_of(error) == 1),
        wait=wait_fixed(1),
        stop=stop_after_delay(RETURN_S),
        reraise=True,
    )


def _hold(store: ObjectStore, run: str, take: Callable[[], HeldSnapshot]) -> HeldSnapshot:
    with _failure_recorded(store, run):
        return take()


@contextmanager
def _failure_recorded(store: ObjectStore, run: str) -> Iterator[None]:
    """Record an error of the block in the run's records, and raise it again."""
    try:
        yield
    except HoldfastError as error:
        with suppress(StoreError):
            RunLog(store, run, "backup").fail(error)
        raise


def _decide(store: ObjectStore, address: Address, request: BackupRequest, say: Callable[[str], None]) -> Decision:
    try:
        return decide(store, address, request, say)
    except psycopg.Error as error:
        raise server_error(f"{address.url} could not be examined", error) from error


def _log_bytes(address: Address, begin: str) -> int:
    with _examining(address) as session:
        _, end = flush_position(session)
    return max(parse_position(end) - parse_position(begin), 0)


def database_bytes(address: Address) -> int:
    """Return the bytes of a database with its indexes."""
    with _examining(address) as session:
        # Unlike the size of a table, this waits for no lock.
        row = session.execute("select pg_catalog.pg_database_size(pg_catalog.current_database())").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _examining(address: Address) -> Iterator[psycopg.Connection[Any]]:
    try:
        with connect(address) as session:
            yield session
    except psycopg.Error as error:
        raise server_error(f"{address.url} could not be examined", error) from error


def _take(address: Address, holding: ExitStack, ddl_waits: bool) -> HeldSnapshot:
    try:
        return holding.enter_context(hold_snapshot(address, ddl_waits=ddl_waits))
    except psycopg.Error as error:
        outage = session_errors.explained(error, address.url)
        raise outage or HoldfastError(
            f"no snapshot of {address.url} could be taken: {session_errors.words(error)}"
        ) from error


def _has_snapshot(store: ObjectStore, run: str) -> bool:
    """Return whether a run has committed its snapshot, or that is unknown."""
    with suppress(HoldfastError, StoreError):
        blocks = Archive.open(store).state.blocks.values()
        return any(placed.head.run == run and placed.head.kind == "snapshot" for placed in blocks)
    return True


def _was_killed(record: RunRecord, words: str) -> bool:
    """Return whether a job ended without a report, or was left alone by Spark."""
    if record.error is not None:
        return record.error.type == SparkEndedError.__name__
    return not words


def _failed(record: RunRecord) -> bool:
    """Return whether a job failed as it would if its snapshot was gone."""
    return record.error is not None and record.error.exit_code == HoldfastError.exit_code


def _why(record: RunRecord, gone: str) -> str:
    if gone:
        return (
            "starting again from the beginning: the session that held the snapshot was cut "
            f"({gone[:_SHOWN]}), and its rows cannot be joined with a new snapshot"
        )
    return f"the job was killed while {record.step}: starting it again"


def _tell(store: ObjectStore, run: str, words: str, say: Callable[[str], None]) -> None:
    say(words)
    with suppress(StoreError):
        log = RunLog(store, run, "backup")
        log.say(words)
        log.progress("starting again")
