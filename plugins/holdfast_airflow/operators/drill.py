"""Restore drill of an archive, as an Airflow task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from holdfast.common.errors import RefusedError, ReportedError, UsageError
from holdfast.operations.requests.drill import DrillRequest
from holdfast.operations.requests.restore import RestoreRequest
from holdfast_airflow.arguments import request_of
from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.jobs.between_tries import BetweenTries
from holdfast_airflow.operators.job import SourceJobOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import Context

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.drill import Drill
    from holdfast.operations.requests.base import Request
    from holdfast.operations.run import PreparedJob
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore


_MOMENT: Final = "holdfast_moment"
"""What is kept for another try: the moment that was chosen at random."""


class DrillOperator(SourceJobOperator):
    """Operator that restores a source into a temporary server and checks the result.

    Without `at`, the recovery target is random, and another try has the same one. The database is compared with the
    archive, and the assertions must hold. The server runs on the worker, which needs PostgreSQL's programs and room for
    the database; it is gone at the end. A database that is not equal to the archive, an assertion that does not hold,
    or a newest restorable moment that is older than it may be, fails the task, without another try. Returns `source`,
    `at`, `position`, `commit`, `seed`, `rows`, `tables`, `restore_s`, `seconds` (from the begin to a database that can
    be used), `newest` and `age_s` (the newest restorable moment and its age) and `assertions`.

    :param source: the source in the archive; not needed where there is only one. (templated)
    """

    request_type = DrillRequest

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        """Return a restore request without a recovery target. The drill chooses it under its locks."""
        return RestoreRequest(source=source)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        return dict(result)

    def _prepare(self, context: Context) -> PreparedJob:
        """Resolve all settings. Where there is a copy of the key, nothing else opens the archive."""
        from holdfast.drill.key_proof import by_copy

        job = replace(super()._prepare(context), is_local=True)  # where alone the drill's server can be reached
        made: DrillRequest = request_of(self, DrillRequest)
        self._drill = made.with_values(source=job.source).filled(key=job.archive.settings.drill.key)
        return replace(job, archive=by_copy(job.archive, self._drill))

    def _run(self, store: ObjectStore, job: PreparedJob, context: Context) -> dict[str, Any]:
        from holdfast.drill import Drill, new_run

        run_restore = super()._run

        def restore(address: Address, request: RestoreRequest) -> Mapping[str, Any]:
            try:
                return run_restore(store, replace(job, database=address, request=request), context)
            except JobFailed as error:  # the drill's record has it in the job's own terms
                raise ReportedError(str(error), error.exit_code) from None

        def prepare(at: str | None) -> Drill:
            drill = Drill(store, self._drill.with_values(at=at), job.archive.settings.drill, say=self.note)
            drill.prepare()
            return drill

        tries = BetweenTries(context, _MOMENT)
        drill = self._failed_drill(prepare, tries) or prepare(self._drill.at)
        if not self._drill.at:
            tries.keep(drill.chosen)
        run = new_run(drill.name)
        self.log.info("drill %s: its record is under runs/%s in %s", run, run, job.archive.url)
        outcome = drill.run(run, restore)
        tries.forget()
        return outcome

    def _failed_drill(self, prepare: Callable[[str], Drill], tries: BetweenTries) -> Drill | None:
        """Return the drill that an earlier try failed with: another random moment might go well."""
        kept = None if self._drill.at else tries.kept()
        if kept is None:
            return None
        self.log.info("going on with the moment of the try before: %s", kept)
        try:
            return prepare(kept)
        except (UsageError, RefusedError) as error:
            self.log.info("it cannot be restored any more, so another one is chosen: %s", error)
            return None
