"""The run of a backup: its held snapshot, its jobs, and their restarts.

A snapshot lives as long as the session that holds it. Held by the process that starts the backup, beside the
locks, it outlives the job's driver, so another driver goes on from the pieces that are finished. Where the session was
cut, the rows that were read cannot be joined with any later snapshot.
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
"""So many times a job is started, at most: what ends it each time would end it again."""

RETURN_S = 60.0
"""A server that was restarted has so long to answer again."""

_SHOWN = 200


def needs_spark(archive: Archive, address: Address, wanted: BackupRequest, *, on_cluster: bool) -> bool:
    """Return whether a backup needs Spark in any state of the source: it takes a snapshot of a large database."""
    known = newest_with_stream(archive.state, wanted.source)
    if wanted.kind != "full" and wanted.restart != "now" and known is not None:
        return False
    return choose_executor("backup", database_bytes=database_bytes(address), on_cluster=on_cluster).executor == "spark"


def run_to_the_end(
    store: ObjectStore,
    run: str,
    address: Address,
    *,
    wanted: BackupRequest,
    attempt: Callable[[Mapping[str, str]], str],
    say: Callable[[str], None] = lambda words: None,
    note: Callable[[str], None] = lambda words: None,
    coordination: AnyAddress = None,
    wait: float = 0.0,
    executor: Executor = "auto",
    on_cluster: bool = False,
) -> None:
    """Run a backup's job until it has reported a result or an error of its own.

    A full one works in a snapshot that is held meanwhile. One of changes may find tables that start over: a job then
    works in such a snapshot, too, and commits the changes up to it together with the rows of those tables. Where that
    cannot be, the changes are backed up alone, and the tables wait.

    :param address: of the source.
    :param attempt: runs the job once, with these environment variables, until none of its processes is left;
        returns the sentence that its driver ended with, if there is one; raises `SparkNeededError` where it hands
        itself over to Spark.
    :param say: is called with what happens beside the job's own progress, which the run's records have, too.
    :param note: is called with where each job runs.
    :param coordination: address of the store with the update log, where the archive is a replica; None for what the
        environment says.
    :param wait: seconds for a backup of the source through another replica, and for locks that others hold on this one.
    :param executor: where its jobs are to run.
    :param on_cluster: Spark's workers are on other machines.
    :raises RefusedError, BusyError: no snapshot could be taken, or the source cannot be followed; or it is being backed
        up through another replica.
    :raises ReportedError: changes were backed up, and tables wait that are to start over.
    """
    with ExitStack() as taken:
        with _failure_recorded(store, run):
            turn = source_taken(
                store, wanted.source, run, coordination, quorum_request=wanted.quorum_request, wait=wait, say=say
            )
            settle = taken.enter_context(turn)
            decision = _decide(store, address, wanted, say)
        jobs = _Jobs(store, run, address, attempt, say, note, executor, on_cluster, ddl_waits=wanted.ddl == "wait")
        _run_jobs(jobs, decision, settle)
        if wanted.restart == "stuck" and (stuck := jobs.stuck):
            with _failure_recorded(store, run):
                again = wanted.with_values(restart_stream="now", stuck=stuck)
                decision = _decide(store, address, again, say)
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
    """Wait for the quorum of a backup, and release the log of archived changes on its server.

    The caller holds no lock.

    :param result: of the backup's job. What is returned says which replicas have it, too.
    :param say: is called with what is waited for.
    :param patience: seconds; the quorum's own deadline ends the wait in any case.
    :raises QuorumFailedError: too few replicas had it in time: it was taken back.
    :raises BusyError: it is still pending when the patience is over.
    """
    reached = await_quorum(store, str(result["block"]), address=coordination, say=say, patience=patience)
    try:
        _let_go(store, address, result)
    except (HoldfastError, StoreError, psycopg.Error) as error:
        say(f"the source keeps the log that is archived until the next backup: {sentence(error)}")
    return {**result, "quorum": reached}


def _let_go(store: ObjectStore, address: Address, result: Mapping[str, Any]) -> None:
    placed = Archive.open(store).state.blocks.get(str(result["block"]))
    if placed is None or placed.head.kind != "changes" or placed.head.stream is None:
        return
    with connect(address) as session:
        advance(session, placed.head.stream.slot, placed.head.covers.to_position)


def _run_jobs(jobs: _Jobs, decision: Decision, settle: Callable[[], None]) -> None:
    """Run the jobs of a backup.

    :param settle: waits until what one of them has committed counts.
    """
    if decision.kind == "snapshot":
        jobs.snapshot(decision)
        return
    if begin := jobs.changes(decision):
        jobs.say(f"a snapshot is taken of {named([f'{table} ({reason})' for table, reason in begin.items()])}")
        jobs.settled(settle)
        jobs.begin_anew(decision)
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

    def begin_anew(self, decision: Decision) -> None:
        """Back up changes up to a snapshot, with the tables that start over; else the changes alone."""
        before = self._last()
        try:
            words = self.snapshot(decision.model_copy(update={"begins": True}))
        except HoldfastError as error:
            postponed = Postponed.by(error)
        else:
            if self._last() != before:
                return
            postponed = Postponed(reason=words or "its job did not start")
        self.say(f"the changes are backed up without the tables that begin anew: {postponed.reason}")
        self.changes(decision.model_copy(update={"postponed": postponed}))

    @property
    def stuck(self) -> str:
        """The last job's reason why no incremental backup can continue, or ""."""
        record = self._last()
        failed = record is not None and record.error is not None and record.error.type == UndecodableError.__name__
        return record.error.message if failed and record and record.error else ""

    def waiting(self) -> tuple[WaitingTable, ...]:
        """Return the tables that wait to start over, from the last job's result."""
        record = self._last()
        if record is None or record.state != "succeeded" or record.result is None:
            return ()
        return tuple(WaitingTable.model_validate(each) for each in record.result.get("waiting", ()))

    def fail_for(self, waiting: Sequence[WaitingTable]) -> None:
        """Fail the run for its waiting tables, and report the changes that were backed up.

        :raises ReportedError: always: with exit code 5 where somebody has to do something, else 1.
        """
        record = self._last()
        result = (record.result if record else None) or {}
        tables = [f"{each.table}, whose rows are known up to {iso(each.since)} ({each.reason})" for each in waiting]
        with _failure_recorded(self.store, self.run):
            raise ReportedError(
                f"commit {result.get('commit')} has the changes up to {result.get('restorable_to')}, but without "
                f"{named(tables)}; the next backup tries these again",
                RefusedError.exit_code if any(each.act for each in waiting) else HoldfastError.exit_code,
            )

    def snapshot(self, decision: Decision) -> str:
        """Back up in a snapshot that outlives the job's driver.

        Returns the sentence that the last driver ended with.
        """
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
        """Run a job once, by the executor chosen for it.

        Returns the sentence that its driver ended with, and its newest record: None where it wrote none, since it did
        not begin.

        :param environment: what it needs beside the decision.
        :param reads_log: it backs up changes.
        """
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
        """Wait until the commit counts; the run's records report a failure of that."""
        with _failure_recorded(self.store, self.run):
            settle()

    def succeeded(self) -> bool:
        """Return whether the last job succeeded."""
        record = self._last()
        return record is not None and record.state == "succeeded"

    def _last(self) -> RunRecord | None:
        """Return the newest record of the run; None where it cannot be read."""
        with suppress(HoldfastError, StoreError):
            return read_last(self.store, self.run)
        return None


def _patiently() -> Retrying:
    """Return what tries again for RETURN_S after failures that another try may mend."""
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


def _decide(store: ObjectStore, address: Address, wanted: BackupRequest, say: Callable[[str], None]) -> Decision:
    try:
        return decide(store, address, wanted, say)
    except psycopg.Error as error:
        raise server_error(f"{address.url} could not be looked at", error) from error


def _log_bytes(address: Address, begin: str) -> int:
    with _looking(address) as session:
        _, end = flush_position(session)
    return max(parse_position(end) - parse_position(begin), 0)


def database_bytes(address: Address) -> int:
    """Return the bytes of a database with its indexes."""
    with _looking(address) as session:
        # Unlike the size of a table, this waits for no lock.
        row = session.execute("select pg_catalog.pg_database_size(pg_catalog.current_database())").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _looking(address: Address) -> Iterator[psycopg.Connection[Any]]:
    try:
        with connect(address) as session:
            yield session
    except psycopg.Error as error:
        raise server_error(f"{address.url} could not be looked at", error) from error


def _take(address: Address, holding: ExitStack, ddl_waits: bool) -> HeldSnapshot:
    try:
        return holding.enter_context(hold_snapshot(address, ddl_waits=ddl_waits))
    except psycopg.Error as error:
        outage = session_errors.explained(error, address.url)
        raise outage or HoldfastError(
            f"no snapshot of {address.url} could be taken: {session_errors.words(error)}"
        ) from error


def _has_snapshot(store: ObjectStore, run: str) -> bool:
    """Return whether a run has committed its snapshot; also True where that is unknown."""
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
            "starting again from nothing: the session that held the snapshot was cut "
            f"({gone[:_SHOWN]}), and what was read in it cannot be joined with a new one"
        )
    return f"the job was ended from outside while {record.step}: starting it again"


def _tell(store: ObjectStore, run: str, words: str, say: Callable[[str], None]) -> None:
    say(words)
    with suppress(StoreError):
        log = RunLog(store, run, "backup")
        log.say(words)
        log.progress("starting again")
