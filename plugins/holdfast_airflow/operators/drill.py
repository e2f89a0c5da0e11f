"""Restore drill of an archive, as an Airflow task."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.common.errors import RefusedError, ReportedError, UsageError
from holdfast.common.units import parse_span
from holdfast.common.words import listed
from holdfast.operations.requests.restore import RestoreRequest
from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.jobs.between_tries import BetweenTries
from holdfast_airflow.operators.job import SourceJobOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    :param at: the moment to restore, as for a restore; without it a random one. (templated)
    :param assertions: queries that must return one row with the value true, beside those of archives.yaml. (templated)
    :param newest_within: how old the newest restorable moment may be, such as `1h`; without it, what archives.yaml
        says. (templated)
    :param key: address of a copy of the archive's key, which the drill opens the archive by and proves right; without
        it, what archives.yaml says. (templated)
    """

    operation: ClassVar[str] = "restore"
    template_fields: Sequence[str] = (*SourceJobOperator.template_fields, "at", "assertions", "newest_within", "key")

    def __init__(
        self,
        *,
        at: str | None = None,
        assertions: Sequence[str] | str | None = None,
        newest_within: str | None = None,
        key: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "holdfast-drill")
        super().__init__(**kwargs)
        self.at = at
        self.assertions = assertions
        self.newest_within = newest_within
        self.key = key

    @property
    def measured_as(self) -> str:
        """Return the name of the operation in metrics: a drill is no restore that anybody asked for."""
        return "drill"

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        """Return a restore request without a recovery target; the drill chooses it under its locks."""
        return RestoreRequest(source=source)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job's summary: the restore has compared everything itself."""
        return dict(result)

    def _prepare(self, context: Context) -> PreparedJob:
        """Resolve all settings; where there is a copy of the key, nothing else opens the archive."""
        from holdfast.drill.key_proof import check_copy

        job = replace(super()._prepare(context), is_local=True)  # where alone the drill's server can be reached
        archive = job.archive
        self._copy = copy = self.key or archive.settings.drill.key
        if not copy:
            return job
        check_copy(copy, archive.keys.key)
        return replace(job, archive=replace(archive, keys=archive.keys._replace(key=copy)))

    def _run(self, store: ObjectStore, job: PreparedJob, context: Context) -> dict[str, Any]:
        from holdfast.drill import new_run

        run_restore = super()._run
        settings = job.archive.settings.drill

        def restore(address: Address, arguments: Sequence[str]) -> Mapping[str, Any]:
            with_moment = replace(job, database=address, request=RestoreRequest.from_arguments(arguments))
            try:
                return run_restore(store, with_moment, context)
            except JobFailed as error:  # the drill's record has it in the job's own terms
                raise ReportedError(str(error), error.exit_code) from None

        tries = BetweenTries(context, _MOMENT)
        prepare = partial(self._prepared, store, job.source, proves_key=bool(self._copy))
        drill = self._again(prepare, tries) or prepare(self.at or None)
        if not self.at:
            tries.keep(drill.chosen)
        drill.asserted = [*settings.of(drill.name), *listed(self.assertions, "assertions")]
        within = self.newest_within or settings.newest_within
        drill.newest_within = parse_span(within) if within else None
        run = new_run(drill.name)
        self.log.info("drill %s: its record is under runs/%s in %s", run, run, job.archive.url)
        found = drill.run(run, restore)
        tries.forget()
        return found

    def _prepared(self, store: ObjectStore, source: str | None, at: str | None, *, proves_key: bool) -> Drill:
        from holdfast.drill import Drill

        drill = Drill(store, source, at, proves_key=proves_key, say=self.log.info)
        drill.prepare()
        return drill

    def _again(self, prepare: Callable[[str], Drill], tries: BetweenTries) -> Drill | None:
        """Return the drill of the moment that an earlier try has chosen at random and failed with; else None.

        Another moment might go well, and nobody would look at that one any more.
        """
        kept = None if self.at else tries.kept()
        if kept is None:
            return None
        self.log.info("going on with the moment of the try before: %s", kept)
        try:
            return prepare(kept)
        except (UsageError, RefusedError) as error:
            self.log.info("it cannot be restored any more, so another one is chosen: %s", error)
            return None
