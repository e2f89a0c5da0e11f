"""Restore of a database, as an Airflow task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from holdfast.common.errors import UsageError
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.operations.sentences import restore_sentence
from holdfast_airflow.arguments import request_of
from holdfast_airflow.connections import database_address
from holdfast_airflow.jobs.between_tries import BetweenTries
from holdfast_airflow.operators.job import DatabaseJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from holdfast.config.archives_model import ArchiveConfig, Consistency
    from holdfast.operations.requests.base import Request
    from holdfast.operations.run import PreparedJob
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore


LATEST: Final = "latest"

_MOMENT: Final = "holdfast_moment"
"""What is kept for another try: the moment that `latest` has meant."""


class RestoreOperator(DatabaseJobOperator):
    """Operator that restores a source of an archive, or tables of it.

    The restored tables are proved equal to the archive. Another try goes on with what is in the target: `latest` means
    the same moment to it as to the first. Everything goes into an empty database; chosen tables, or all
    under other names, go beside what is there. Returns `commit`, `restored_to`, `position`, `tables`, `rows`,
    `seconds`, `lost` (values and rows that the archive has and the target does not), `log_only` (tables that only the
    log has), `unproved_names` (of tables that may have had others), `loaded_by` (the role that loaded the rows),
    `not_restored`, `skipped_existing`, `unlogged`, `stale` (tables whose rows are older than that, since their changes
    are not backed up), `schema_note` (why the schema may be that of another moment, or empty), `roles` and `read_from`
    (which replica was read and how fresh it is); after a dry run also `dry_run` and `plan`.

    :param target_conn_id: the Airflow connection to the database to write to, of type `holdfast_postgres` or
        `postgres`. (templated)
    """

    request_type = RestoreRequest
    role: ClassVar[Literal["source", "target"]] = "target"
    template_fields = (*DatabaseJobOperator.template_fields, "target_conn_id")

    def __init__(self, *, target_conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_conn_id = target_conn_id

    def place(self, archive: ArchiveConfig) -> str:
        """Return where to read: for sequential consistency, the first replica that can be read so."""
        if self.replica is not None or not archive.replicas or self._consistency(archive) == "eventual":
            return super().place(archive)
        from holdfast.replication.work.consistent_read import open_first

        resolved = ArchiveContext.resolve(archive)
        stores = [replica.open() for replica in resolved.replicas]
        return open_first(stores, "sequential", address=resolved.coordination).store.url

    def _consistency(self, archive: ArchiveConfig) -> Consistency:
        made: RestoreRequest = request_of(self, RestoreRequest)
        return made.consistency or archive.consistency

    def database(self, archive: ArchiveConfig) -> tuple[str | None, Address]:
        """Return the source to restore, if one is named or there is only one, and the target."""
        if not self.target_conn_id:
            raise UsageError("say where to restore to: the id of an Airflow connection, in 'target_conn_id'")
        made: RestoreRequest = request_of(self, RestoreRequest)
        # A commit says of which source it is.
        is_said = self.source is None and made.at.startswith("commit:") and len(archive.sources) > 1
        source = archive.source(self.source)[0] if archive.sources and not is_said else self.source
        return source, database_address(self.target_conn_id)

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        is_sequential = self._consistency(archive) == "sequential"
        return super().request(archive, source).with_values(consistency="sequential" if is_sequential else None)

    def _run(self, store: ObjectStore, job: PreparedJob, context: Context) -> dict[str, Any]:
        tries = BetweenTries(context, _MOMENT)
        summary = super()._run(store, self._pinned(store, job, tries), context)
        tries.forget()
        return summary

    def _pinned(self, store: ObjectStore, job: PreparedJob, tries: BetweenTries) -> PreparedJob:
        """Once there is a newer backup, `latest` would mean another restore, which cannot go on with what is in the
        target; and `-10min` would, later on.
        """
        from holdfast.archive import Archive
        from holdfast.archive.history.restore_points import only_source
        from holdfast.archive.history.target_resolution import resolve

        request = job.request
        if not tries.is_there or not isinstance(request, RestoreRequest) or request.dry_run:
            return job
        if request.at != LATEST and not str(getattr(self, "at", "")).startswith("-"):
            return job
        at = tries.kept()
        if at is None:
            at = request.at
            if at == LATEST:
                state = Archive.open(store).state
                at = f"commit:{resolve(state, store, only_source(state, job.source), LATEST).commit}"
            tries.keep(at)
        else:
            self.log.info("going on with the moment of the try before: %s", at)
        return replace(job, request=request.with_values(at=at))

    def note_moved(self, database: Address | None, store: ObjectStore, summary: Mapping[str, Any], **more: Any) -> None:
        made: RestoreRequest = request_of(self, RestoreRequest)
        super().note_moved(database, store, summary, tables=made.tables, maps=made.map, **more)

    def sentence(self, summary: Mapping[str, Any]) -> str:
        if "plan" in summary:
            return "nothing was changed: the plan is what this task returns"
        return restore_sentence(summary)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job's summary: the job has compared target and archive itself."""
        summary = {key: result.get(key) for key in ("commit", "restored_to", "position", "tables", "rows", "seconds")}
        lists = ("not_restored", "skipped_existing", "unlogged", "stale", "lost", "log_only", "unproved_names")
        summary |= {key: result.get(key, []) for key in lists}
        summary["schema_note"] = result.get("schema_note", "")
        return summary | {
            key: result[key] for key in ("roles", "loaded_by", "read_from", "dry_run", "plan") if key in result
        }
