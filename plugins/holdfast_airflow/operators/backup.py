"""Back a database up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow.sdk.exceptions import TaskDeferred

from holdfast.common.errors import BusyError, DamagedError, UsageError
from holdfast.config.archives_model import Restart, parse_bandwidth, parse_size
from holdfast.config.archives_yaml import find_archive
from holdfast.operations.executor_choice import forced_executor
from holdfast.sources.postgresql.connection.address import Address
from holdfast_airflow.arguments import is_yes, listed, number, span
from holdfast_airflow.connections import database_address
from holdfast_airflow.coordination import coordination_address
from holdfast_airflow.exceptions import JobFailed, in_airflow_terms
from holdfast_airflow.operators.job import DatabaseJobOperator, last_words
from holdfast_airflow.triggers.quorum import QuorumTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from holdfast.config.archives_model import ArchiveConfig, SourceConfig
    from holdfast.storage import ObjectStore
    from holdfast_airflow.operators.job import PreparedJob

_MARGIN = timedelta(minutes=5)
"""For a trigger to find out that the deadline is over."""


class BackupOperator(DatabaseJobOperator):
    """Back a source up into an archive: a full backup in one commit, or nothing; or its changes, commit after commit.

    Where changes were lost, a backup of changes becomes a full one, which begins anew; the task's log says why.

    Returns `commit` (the newest one that can be restored to), `block` (the id of what it added), `kind` (`full` or
    `changes`), `rows` (of changes, how many there were, with the rows of `begun`), `bytes`, `restorable_to`, `position`
    (in the source's log), `begun` (tables that a backup of changes took a snapshot of) and `gap` (why no moment between
    the backup before and this one can be restored; empty where all can, or where nobody asked for changes).

    :param source_conn_id: the Airflow connection to the source, of type postgres; without it, what
        archives.yaml says. (templated)
    :param tables: globs of `schema.table`, a list or one string; empty means all that archives.yaml says. (templated)
    :param connections: sessions that read the source at a time, at most; without it, what archives.yaml says.
        (templated)
    :param bandwidth: what is read of it in a second, at most, such as `50 MB`; without it, what archives.yaml says.
        (templated)
    :param quorum: how many replicas must have the backup before it counts; without it, what archives.yaml says. The
        task waits for them deferred, without locks, and fails where too few have it in time: then the backup was taken
        back. What it returns then has `quorum` (`entry`, `size`, `replicas`), too. (templated)
    :param quorum_timeout: how long they have for it: a timedelta, or words such as `2h`. (templated)
    :param kind: `full`; `changes`, which begins to follow a source that is not followed yet; or `auto`, for changes
        where the source is followed, else a full backup. (templated)
    :param moved: the source's address names the same database at another place than at the last backup. (templated)
    :param restart_stream: begin a new stream of changes by a full backup: `no`; `stuck`, where no backup of changes can
        get on; `now`. Without it, what `restart_stuck_stream` of archives.yaml says. (templated)
    """

    operation: ClassVar[str] = "backup"
    role: ClassVar[Literal["source", "target"]] = "source"
    template_fields: Sequence[str] = (
        *DatabaseJobOperator.template_fields,
        "source_conn_id",
        "tables",
        "kind",
        "moved",
        "restart_stream",
        "connections",
        "bandwidth",
        "quorum",
        "quorum_timeout",
    )

    def __init__(
        self,
        *,
        source_conn_id: str | None = None,
        tables: Sequence[str] | str | None = None,
        kind: str = "auto",
        moved: bool | str = False,
        restart_stream: str | None = None,
        connections: int | str | None = None,
        bandwidth: str | None = None,
        quorum: int | str | None = None,
        quorum_timeout: timedelta | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_conn_id = source_conn_id
        self.tables = tables
        self.kind = kind
        self.moved = moved
        self.restart_stream = restart_stream
        self.connections = connections
        self.bandwidth = bandwidth
        self.quorum = quorum
        self.quorum_timeout = quorum_timeout

    def execute_decided(
        self, context: Context, event: Mapping[str, Any] | None, summary: dict[str, Any]
    ) -> dict[str, Any]:
        """Go on after waiting for the quorum; wait on where the store cannot be asked just now.

        :raises JobFailed: it has failed, or nobody could find out how it was decided.
        """
        found = event or {}
        if found.get("state") != "decided":
            raise JobFailed(str(found.get("message", "the wait for the quorum ended without an answer")))
        return self.confirmed(context, summary)

    def confirmed(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        """Return the summary where the backup counts; else wait for its quorum, deferred."""
        archive = find_archive(self.archive)
        if self._quorum_of(archive) < 2:
            return summary
        with in_airflow_terms():
            try:
                return self._confirm(context, summary)
            except BusyError as error:
                self.log.info("waiting, without locks: %s", error)
                left = self._quorum_timeout_of(archive) + _MARGIN
                trigger = self._quorum_trigger(summary, datetime.now(UTC) + left)
        # The quorum's own deadline ends the wait; Airflow's time-out is for a triggerer that does not.
        raise TaskDeferred(
            trigger=trigger, method_name="execute_decided", kwargs={"summary": summary}, timeout=left + _MARGIN
        )

    def _confirm(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        """Bring the other replicas up to the backup, and return its summary if it counts by that."""
        from holdfast.operations.backup_run import confirm

        archive, store = self._place()
        source, address = self.database(archive)
        told = confirm(
            store,
            address,
            summary,
            say=self.log.info,
            coordination=coordination_address(archive),
            patience=0,
        )
        done = {**summary, "quorum": told["quorum"]}
        self.tell_assets(context, source, done)
        return done

    def _quorum_trigger(self, summary: Mapping[str, Any], until: datetime) -> QuorumTrigger:
        archive, store = self._place()
        return QuorumTrigger(
            url=store.url,
            store=coordination_address(archive),
            key=archive.key,
            block=str(summary["block"]),
            until=until.isoformat(),
        )

    def _place(self) -> tuple[ArchiveConfig, ObjectStore]:
        from holdfast.storage import open_store

        archive = find_archive(self.archive)
        return archive, open_store(archive.place(self.replica), archive.key)

    def _quorum_of(self, archive: ArchiveConfig) -> int:
        return number(self.quorum, "quorum") or archive.quorum or 1

    def _quorum_timeout_of(self, archive: ArchiveConfig) -> timedelta:
        return span(self.quorum_timeout or archive.quorum_timeout)

    def database(self, archive: ArchiveConfig) -> tuple[str | None, Address]:
        """Return the source to back up."""
        if self.source_conn_id and self.source and not archive.sources:
            return self.source, database_address(self.source_conn_id)
        name, source = archive.source(self.source)
        conn_id = self.source_conn_id or source.connection
        return name, database_address(conn_id) if conn_id else Address.parse(source.url or "")

    def arguments(self, archive: ArchiveConfig, source: str | None) -> Sequence[str]:
        """Return kind, tables and limits."""
        known = archive.sources.get(source or "")
        arguments = ["--kind", self.kind]
        chosen = listed(self.tables, "tables")
        for table in chosen or (known.tables if known else ()):
            arguments += ["--tables", table]
        arguments += ["--chosen"] if chosen else []
        for table in known.exclude if known else ():
            arguments += ["--exclude", table]
        if known and known.max_retained_wal:
            arguments += ["--max-retained", str(parse_size(known.max_retained_wal))]
        arguments += ["--moved"] if is_yes(self.moved) else []
        if (restart := self._restart(known)) != "no":
            arguments += ["--restart-stream", restart]
        if connections := number(self.connections, "connections") or (known and known.connections):
            arguments += ["--connections", str(connections)]
        if bandwidth := self.bandwidth or (known and known.bandwidth):
            arguments += ["--bandwidth", str(parse_bandwidth(bandwidth))]
        if (size := self._quorum_of(archive)) > 1:
            timeout = self._quorum_timeout_of(archive).total_seconds()
            arguments += ["--quorum", str(size), "--quorum-timeout", str(timeout)]
        return arguments

    def _restart(self, known: SourceConfig | None) -> str:
        wanted = self.restart_stream or (known.restart_stream if known else "no")
        if wanted not in get_args(Restart):
            raise UsageError(f"restart_stream is {wanted!r}: write one of {', '.join(get_args(Restart))}")
        return wanted

    def needs_spark(self, store: ObjectStore, job: PreparedJob) -> bool:
        """Say whether Spark has to start, whatever the source says: for a first backup, and for a full one."""
        from holdfast.archive import Archive
        from holdfast.operations.backup_run import takes_snapshot

        forced = forced_executor(self.job_executor)
        if forced != "auto":
            return forced == "spark"
        return takes_snapshot(Archive.open(store), job.arguments)

    def submit(self, store: ObjectStore, job: PreparedJob, context: Context) -> str:
        """Run the job in a snapshot that this task holds; start it again where it was killed."""
        from holdfast.operations.backup_run import run_to_the_end

        problem = ""

        def attempt(more: Mapping[str, str]) -> str:
            nonlocal problem
            problem = self.submit_once(job, context, more)
            return last_words(problem, self.operation)

        if job.database is None:
            raise UsageError("a backup needs a database to read")
        run_to_the_end(
            store,
            job.run,
            job.database,
            arguments=job.arguments,
            attempt=attempt,
            say=self.log.warning,
            note=self.note,
            coordination=job.coordination,
            executor=forced_executor(self.job_executor),
        )
        return problem

    def committed(self, store: ObjectStore, run: str) -> dict[str, Any] | None:
        """Return the summary of the block that a run ends with, if it is committed, however its job ended."""
        from holdfast.archive import Archive
        from holdfast.archive.format.model import summary

        placed = Archive.open(store).state.finished_by(run)
        return {"commit": placed.number, **summary(placed.block)} if placed else None

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Read the commit back: what the archive says counts, not what the job says.

        :raises DamagedError: the commit is there, but not with the block that the job wrote.
        """
        from holdfast.archive import Archive

        placed = Archive.open(store).state.blocks.get(str(result.get("block")))
        if placed is None or placed.number != result["commit"]:
            raise DamagedError(f"commit {result['commit']} does not hold the block of run {run}: see 'holdfast status'")
        keys = ("commit", "block", "kind", "rows", "bytes", "restorable_to", "position")
        told = {key: result.get(key) for key in keys}
        return told | {"begun": list(result.get("begun", ())), "gap": placed.head.gap}
