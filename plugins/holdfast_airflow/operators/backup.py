"""Backup of a database, as an Airflow task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import TaskDeferred

from holdfast.common.errors import BusyError, DamagedError
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.sentences import backup_sentence
from holdfast_airflow.arguments import request_of
from holdfast_airflow.connections import find_archive_or_connection, source_address
from holdfast_airflow.exceptions import JobFailed, in_airflow_terms
from holdfast_airflow.operators.job import DatabaseJobOperator
from holdfast_airflow.triggers.quorum import QuorumTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from holdfast.config.archives_model import ArchiveConfig, SourceConfig
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore

_MARGIN = timedelta(minutes=5)
"""For a trigger to find out that the deadline is over."""


class BackupOperator(DatabaseJobOperator):
    """Operator that backs a source up into an archive.

    A full backup is one commit, or nothing; an incremental one is commit after commit. Where changes were lost, a
    backup of changes becomes a full one, which starts over; the task's log says why.

    Returns `commit` (the newest one that can be restored to), `block` (the id of what it added), `kind` (`full` or
    `changes`), `rows` (of changes, how many there were, with the rows of `begun`), `bytes`, `restorable_to`, `position`
    (in the source's log), `begun` (tables that a backup of changes took a snapshot of) and `gap` (why no moment between
    the backup before and this one can be restored; empty where all can, or where no changes were requested).

    :param source_conn_id: the Airflow connection to the source, of type `holdfast_postgres` or `postgres`; without it,
        as archives.yaml says. (templated)
    """

    request_type = BackupRequest
    template_fields = (*DatabaseJobOperator.template_fields, "source_conn_id")

    def __init__(self, *, source_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source_conn_id = source_conn_id

    def execute_decided(
        self, context: Context, event: Mapping[str, Any] | None, summary: dict[str, Any]
    ) -> dict[str, Any]:
        """Go on after waiting for the quorum; wait on where the store cannot be asked."""
        answer = event or {}
        if answer.get("state") != "decided":
            raise JobFailed(str(answer.get("message", "the wait for the quorum ended without an answer")))
        return self.confirmed(context, summary)

    def confirmed(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        """Return the summary where the backup counts. Else wait for its quorum, deferred."""
        quorum_request = self.requested(find_archive_or_connection(self.archive)).quorum_request
        if quorum_request is None:
            return summary
        with in_airflow_terms():
            try:
                return self._confirm(context, summary)
            except BusyError as error:
                self.log.info("waiting, without locks: %s", error)
                remaining = timedelta(seconds=quorum_request.timeout) + _MARGIN
                trigger = self._quorum_trigger(summary, datetime.now(UTC) + remaining)
        # The quorum's own deadline ends the wait; Airflow's time-out is for a triggerer that does not.
        raise TaskDeferred(
            trigger=trigger, method_name="execute_decided", kwargs={"summary": summary}, timeout=remaining + _MARGIN
        )

    def _confirm(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        from holdfast.operations.backup_run import confirm

        settings = find_archive_or_connection(self.archive)
        archive = self.context_of(settings)
        store = archive.open()
        source, address = self.database(settings)
        confirmed = confirm(store, address, summary, say=self.note, coordination=archive.coordination, patience=0)
        summary = {**summary, "quorum": confirmed["quorum"]}
        self.note_moved(address, store, summary)
        self.fill_asset_events(context, store, source, summary)
        return summary

    def _quorum_trigger(self, summary: Mapping[str, Any], until: datetime) -> QuorumTrigger:
        archive = self.context_of(find_archive_or_connection(self.archive))
        return QuorumTrigger(
            url=archive.open().url,
            store=archive.coordination.url,
            key=archive.settings.key,
            block=str(summary["block"]),
            until=until.isoformat(),
            replicas=archive.settings.replicas,
        )

    def database(self, archive: ArchiveConfig) -> tuple[str | None, Address]:
        name, source = self._configured_source(archive)
        return name, source_address(source, self.source_conn_id)

    def _configured_source(self, archive: ArchiveConfig) -> tuple[str, SourceConfig | None]:
        """Return the name of the source, and its settings in archives.yaml. None where a connection is all there is."""
        if self.source_conn_id and self.source and not archive.sources:
            return self.source, None
        return archive.source(self.source)

    def requested(self, archive: ArchiveConfig) -> BackupRequest:
        """Return the requested backup, with defaults from archives.yaml."""
        made: BackupRequest = request_of(self, BackupRequest)
        return made.configured(self._configured_source(archive)[1], archive.quorum, archive.quorum_timeout)

    def request(self, archive: ArchiveConfig, source: str | None) -> BackupRequest:
        # A DAG or archives.yaml names what is backed up: no mistaken address makes a source.
        return self.requested(archive).with_values(source=source, new_source=True)

    def sentence(self, summary: Mapping[str, Any]) -> str:
        return backup_sentence(summary)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Check the commit in the archive; all of the summary but `gap` is as the job reported it.

        :raises DamagedError: the commit is there, but not with the block that the job wrote.
        """
        from holdfast.archive import Archive

        placed = Archive.open(store).state.blocks.get(str(result.get("block")))
        if placed is None or placed.number != result["commit"]:
            raise DamagedError(f"commit {result['commit']} does not hold the block of run {run}: see 'holdfast status'")
        keys = ("commit", "block", "kind", "rows", "bytes", "restorable_to", "position")
        summary = {key: result.get(key) for key in keys}
        return summary | {"begun": list(result.get("begun", ())), "gap": placed.head.gap}
