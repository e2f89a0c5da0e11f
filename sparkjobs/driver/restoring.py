"""The course of a restore: plan, objects, rows in parallel, indexes, comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import RefusedError, ReportedError, UsageError, exit_code_of, sentence
from holdfast.common.words import named
from holdfast.postgresql.catalog.large_objects import check_comparable
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import explained
from holdfast.postgresql.restore.objects import object_creation
from holdfast.postgresql.restore.objects.database_statements import DatabasePlan, plan_database, run_statements
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.empty_target import check_empty
from holdfast.postgresql.restore.plan.make_plan import make_plan
from holdfast.postgresql.restore.plan.name_maps import NameMaps
from holdfast.postgresql.restore.plan.plan import (
    NotRestored,
    data_only,
    schema_only,
    without_rows,
    without_superusers,
    without_tablespaces,
)
from holdfast.postgresql.restore.plan.stages import as_partitions, built_on, keys_of
from holdfast.postgresql.restore.plan.target_state import Target, check_tablespaces, read_target
from holdfast.postgresql.restore.rights.guard import lower_guard
from holdfast.postgresql.restore.rights.owner_choice import owned_by
from holdfast.postgresql.restore.rights.restricted_login import (
    check_namesakes,
    drop_login,
)
from holdfast.postgresql.restore.rights.role_plan import create_roles, plan_roles
from holdfast.postgresql.restore.rights.superuser_entries import (
    superuser_entries,
    superuser_settings,
    without_native_code,
)
from holdfast.postgresql.restore.rights.target_rights import owners_of, within_rights
from holdfast.postgresql.restore.rows import existing_tables, load, staging_tables
from holdfast.storage.encryption.signing_key import believed
from sparkjobs.driver.building import FILLED, Building
from sparkjobs.driver.loading import Loading, files_of
from sparkjobs.driver.restored_moment import RestoredMoment, stored_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.history.recovery_target import RecoveryTarget, TableParts
    from holdfast.operations.requests.restore import RestoreRequest
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.restore.plan.plan import RestorePlan
    from holdfast.postgresql.restore.rights.role_plan import RolePlan
    from sparkjobs.driver.application import Job

_FOR_GOOD = (2, 4, 5)
"""Exit codes of errors that come again as often as it is tried: wrong use, damage, refusals of the server's too."""


_SHOWN = 20
"""Things that are not restored, logged before the work begins, at most; all are in the summary."""


class Restoring:
    """One restore into its target; `session` keeps other restores out."""

    def __init__(
        self,
        job: Job,
        address: Address,
        session: Any,
        claim: ledger.TargetClaim,
        moment: RecoveryTarget,
        request: RestoreRequest,
    ) -> None:
        self._job = job
        self._address = address
        self._session = session
        self._claim = claim
        self._moment = moment
        self._request = request
        self._restored_moment = RestoredMoment(job.store, moment)
        self._catalog = self._restored_moment.catalog
        self._parts = self._restored_moment.parts
        self._left: ledger.UnfinishedRestore | None = None
        load.check_target(session, address, self._catalog)
        self.plan = self._begin()
        self.database = self._plan_database()
        self.plan = replace(self.plan, not_restored=(*self.plan.not_restored, *self.database.not_restored))

    def _begin(self) -> RestorePlan:
        """Plan the restore and create its ledger, or go on with an unfinished one; a dry run changes nothing."""
        left = ledger.read_ledger(self._session)
        if left is not None:
            plan, why = self._taken_up(left)
            if plan is not None:
                self._claim_files(plan)
                self.roles = self._check_server(plan)
                self._left = left
                self._job.say(self._going_on(left, plan))
                return plan
            self._make_way(left, why)
        if not self._request.is_beside:
            check_empty(self._session, self._address)
        found = Target() if self._request.data_only else read_target(self._session)
        plan = self._plan(found)
        if self._request.data_only:
            existing_tables.check_without_rows(self._session, [table for table, _ in self._restored(plan)])
        self.roles = self._check_server(plan)
        self._claim_files(plan)
        if not self._request.dry_run:
            ledger.create_ledger(self._session, self._claim, plan=plan.digest, found=found)
        return plan

    def _claim_files(self, plan: RestorePlan) -> None:
        """Claim the files to read, before anything new of this restore is in the target.

        Footers do not count: they are most of a file of few rows, and are not decoded where many are read together.

        :raises SparkNeededError: this job may not: all that could refuse the restore has been asked.
        """
        if not self._request.dry_run:
            records = (record for _, parts in self._restored(plan) for record in (parts.base, *parts.changes))
            self._job.claim(sum(file.page_bytes for record in records for file in record.files))

    def _taken_up(self, left: ledger.UnfinishedRestore) -> tuple[RestorePlan | None, str]:
        if why := self._claim.difference(left.claim):
            return None, why
        plan = self._plan(left.found)
        if plan.digest != left.plan:
            return None, "this one would create it otherwise (another release, or other options)"
        unlogged = [table for table, file in self._files(plan) if table.persistence == "u" and file.path in left.steps]
        if left.crashed and unlogged:
            return None, f"the server has crashed meanwhile, so that {unlogged[0].label} may be empty again"
        return plan, ""

    def _plan(self, found: Target) -> RestorePlan:
        entries = self._restored_moment.entries(self._session.info.server_version)
        stored = {int(parts.base.id): stored_of(parts) for parts in self._parts.values()}
        request = self._request
        try:
            plan = make_plan(
                self._catalog,
                entries,
                found,
                globs=request.tables,
                exclude=request.exclude,
                maps=NameMaps.parse(request.map),
                stored=dict.fromkeys((table.oid for table in self._catalog.tables), (0, 0, 0))
                if request.schema_only
                else stored,
            )
            plan = self._emptied(plan)
        except UsageError as error:
            raise self._restored_moment.explained(error, request.tables) from error
        if request.data_only:
            return self._rows_alone(plan)
        others = self._restored_moment.of_other_moments() | plan.empty
        given_up = keys_of(plan.entries, others) | built_on(plan.entries, self._restored_moment.older())
        given_up |= as_partitions(plan.entries, others)
        plan = replace(plan, borrowed=plan.borrowed | given_up, is_strict=self._request.strict)
        if self._request.has_harmless_roles:
            plan = without_superusers(plan)
        if request.owner or request.no_owner:
            created = self._catalog.roles if request.creates_roles else ()
            plan = owned_by(self._session, plan, request.owner, created, is_trusted=request.trust_source)
        plan = plan if self._request.tablespaces == "keep" else without_tablespaces(plan)
        if self._is_superuser() and not self._request.trust_source:
            if not self._request.has_harmless_roles:
                check_namesakes(self._session, owners_of(plan), self._catalog.role_details)
            if not self._is_written_by_key():
                plan = without_native_code(plan, self._superusers(plan))
            plan = replace(plan, is_built_apart=True, superusers=self._superusers(plan))
        return within_rights(self._session, plan, strict=self._request.strict)

    def _rows_alone(self, plan: RestorePlan) -> RestorePlan:
        plan = data_only(plan)
        tables = [table for table, _ in self._restored(plan)]
        existing_tables.check_existing(self._session, self._address.url, tables, is_trusted=self._request.trust_source)
        sequences, lacking = existing_tables.present(self._session, plan.sequences)
        left = (*plan.not_restored, *lacking)
        return replace(plan, sequences=sequences, not_restored=left, is_strict=self._request.strict)

    def _emptied(self, plan: RestorePlan) -> RestorePlan:
        request, catalog = self._request, self._catalog
        if request.schema_only:
            return schema_only(plan)
        if not request.exclude or request.tables:
            return plan
        pages = [catalog.large_objects] if catalog.large_objects else []
        every = catalog.with_fields({"tables": (*catalog.tables, *pages)})
        tables = every.tree_of(every.matching(request.exclude, "--exclude"))
        return without_rows(plan, tables, "--exclude")

    def _is_written_by_key(self) -> bool:
        """Return whether only holders of a key can have written what is restored."""
        store = self._job.store
        return store.key is not None or believed(store.signing) is not None

    def _superusers(self, plan: RestorePlan) -> Mapping[int, bool]:
        return superuser_entries(plan.entries, superuser_settings(self._session))

    def _is_superuser(self) -> bool:
        return bool(self._session.info.parameter_status("is_superuser") == "on")

    def loaded_by(self) -> str:
        """Return, in words, the role that runs code of the source while rows come in."""
        if self.plan.is_built_apart:
            return "a log-in of the restore's own, which is no superuser"
        return f"{self._session.info.user}, a superuser" if self._is_superuser() else self._session.info.user

    def _check_server(self, plan: RestorePlan) -> RolePlan:
        details = self._catalog.role_details
        roles = plan_roles(
            self._session,
            self._address,
            {*plan.roles, *self._roles_of_database()},
            details,
            create=self._request.creates_roles,
            harmless=self._request.has_harmless_roles,
            owners=owners_of(plan) if self._request.creates_roles else (),
        )
        check_tablespaces(self._session, self._address, plan.tablespaces)
        if plan.large_objects:
            check_comparable(self._session, self._address)
        return roles

    def _roles_of_database(self) -> Collection[str]:
        recorded, details = self._catalog.database_settings, self._catalog.role_details
        if not (self._request.creates_roles and self._request.keeps_database_settings and recorded and details):
            return ()
        return recorded.roles.intersection(role.name for role in details.roles)

    def _plan_database(self) -> DatabasePlan:
        is_trusted = (self._request.trust_source or self._is_written_by_key()) and not self._request.has_harmless_roles
        return plan_database(
            self._session,
            self._catalog.database_settings,
            is_wanted=self._request.keeps_database_settings,
            is_trusted=is_trusted,
            new_roles=[role.name for role in self.roles.created],
        )

    def _make_way(self, left: ledger.UnfinishedRestore, why: str) -> None:
        """Drop the objects of another unfinished restore, where nothing else is dropped."""
        holds = f"{self._address.url} holds {left.claim.describe()}, and {why}"
        if left.steps and not left.claim.is_undoable:
            raise RefusedError(
                f"{holds}: go on with that one (--at {left.claim.at}), or drop the database, create it empty and "
                "restore again"
            )
        if self._request.dry_run:
            raise RefusedError(f"{holds}: the next restore that is not a dry run drops what that has left")
        dropped = ledger.undo(self._session)
        if self._is_superuser():
            lower_guard(self._session)
            drop_login(self._session)
        self._job.say(f"dropped what {left.claim.describe()} had left, since {why}: {named(dropped) or 'nothing yet'}")

    def _going_on(self, left: ledger.UnfinishedRestore, plan: RestorePlan) -> str:
        files = self._files(plan)
        would = "would go on" if self._request.dry_run else "going on"
        return f"{would} with run {left.claim.run}'s restore: {_loaded(files, left)} of {len(files)} files were in"

    def _files(self, plan: RestorePlan) -> list[tuple[Table, FileRecord]]:
        return files_of(self._restored(plan))

    def _restored(self, plan: RestorePlan) -> Iterator[tuple[Table, TableParts]]:
        for table in plan.tables:
            parts = self._parts.get(str(table.source.oid))
            if parts is not None and table.source.oid not in plan.empty:
                yield table.target, parts

    def stale(self) -> list[dict[str, Any]]:
        tables = (table.source for table in self.plan.tables)
        return self._restored_moment.stale(table for table in tables if table.oid not in self.plan.empty)

    def resumed(self) -> dict[str, Any] | None:
        """Return the finished work of an unfinished restore and its run; None where there is none."""
        if self._left is None:
            return None
        steps = self._left.steps
        done = [file for table, file in self._files(self.plan) if staging_tables.is_loaded(table, file.path, steps)]
        return {"run": self._left.claim.run, "files": len(done), "rows": sum(file.rows for file in done)}

    def run(self) -> dict[str, Any]:
        plan = self.plan
        lines = [f"not restored: {each.what}: {each.reason}" for each in plan.not_restored]
        self._job.say(
            *lines[:_SHOWN], *([f"not restored: {len(lines) - _SHOWN} more, in the summary"] if lines[_SHOWN:] else [])
        )
        if self._request.tables:
            chosen = {table.source.label for table in plan.tables}
            self._job.say(*(f"another table of that name: {each}" for each in self._restored_moment.namesakes(chosen)))
        stale = self.stale()
        self._job.say(*(_stale_line(each) for each in stale[:_SHOWN]))
        if self._moment.approximate:
            self._job.say(self._moment.approximate)
        if self._request.trust_source and self._is_superuser():
            self._job.say(f"code of the source runs with the rights of {self.loaded_by()}")
        unlogged = [table.target.label for table in plan.tables if table.source.persistence == "u"]
        if unlogged:
            self._job.say(f"unlogged, so that a crash of the target's server empties them: {named(unlogged)}")
        try:
            late, rows = self._run()
        except Exception as raised:
            error = explained(raised, self._address.url) or raised
            said = "; ".join(
                filter(None, (sentence(error), self._restored_moment.hint(error), self._what_is_left(error)))
            )
            raise ReportedError(said, exit_code_of(error)) from raised
        self._job.say(*(f"not restored: {each.what}: {each.reason}" for each in late))
        return {
            "not_restored": [each.describe() for each in (*plan.not_restored, *late)],
            "skipped_existing": list(plan.skipped_existing),
            "roles": self.roles.describe(),
            "loaded_by": self.loaded_by(),
            "unlogged": unlogged,
            "stale": stale,
            **(plan.size() if plan.beside or plan.empty else {}),
            "rows": rows,
        }

    def _run(self) -> tuple[tuple[NotRestored, ...], int]:
        job = self._job
        steps = self._left.steps if self._left else {}
        tables = tuple(self._restored(self.plan))
        if [file for table, file in files_of(tables) if not staging_tables.is_loaded(table, file.path, steps)]:
            job.start("sparkjobs.tasks.restore_files")
        late = self._create_roles()
        building = Building(job, self._address, self._session, self.plan, tables, self._loading)
        if self._request.data_only:
            late = building.fill(self._check_complete)
        else:
            late = (*late, *building.run(), *run_statements(self._session, self._address, self.database))
        rows = sum(each.rows for each in self._loading(self._address, self._session).expected().values())
        self._check_complete(late)
        late = (*late, *self._login_left(), *object_creation.finish(self._session, self.plan))
        return late, rows

    def _check_complete(self, late: Sequence[NotRestored]) -> None:
        """End a strict restore that leaves something out; the ledger stays, for one that is not strict."""
        if self._request.strict and late:
            left = named([f"{each.what} ({each.reason})" for each in late])
            there = "" if self._request.data_only else "the rows are there, but "
            raise RefusedError(f"{there}with --strict nothing may be left out: {left}")

    def _login_left(self) -> tuple[NotRestored, ...]:
        name = drop_login(self._session) if self.plan.is_built_apart else ""
        reason = "what could not be given to its owner belongs to it; it can log in no more"
        statement = f"drop owned by {name}; drop role {name};"
        return (NotRestored(f"(left behind) role {name}", reason, statement),) if name else ()

    def _loading(self, address: Address, session: Any) -> Loading:
        tables = tuple(self._restored(self.plan))
        older, strict = self._with_older_rows(self.plan), self.plan.is_strict
        encoding, pages_by = self._catalog.encoding, self._address
        return Loading(self._job, address, session, tables, older, encoding, is_strict=strict, pages_by=pages_by)

    def _with_older_rows(self, plan: RestorePlan) -> set[int]:
        others = self._restored_moment.of_other_moments()
        return {table.target.oid for table in plan.tables if table.source.oid in others}

    def _create_roles(self) -> tuple[NotRestored, ...]:
        """Create the missing roles; they belong to the server, and stay even if the restore fails."""
        roles = self.roles
        left = create_roles(self._session, roles)
        if roles.created:
            self._job.say(f"created roles: {named([role.name for role in roles.created])}")
        if roles.joined:
            self._job.say(f"{self._session.info.user} is a member of {named(roles.joined)} now, which own something")
        if roles.without_password:
            self._job.say(f"roles that need a password to log in: {named(roles.without_password)}")
        self._job.say(*(f"left as it is: role {each}" for each in roles.differences[:_SHOWN]))
        return left

    def _what_is_left(self, error: Exception) -> str:
        """Return a sentence on the objects that a failed restore has left.

        Where a retry would fail again, objects beside other tables are dropped first.
        """
        for_good = exit_code_of(error) in _FOR_GOOD
        try:
            with connect(self._address) as session:  # the restore's own may be the one that broke
                left = ledger.read_ledger(session)
                if left is None:
                    return ""
                if for_good and left.claim.is_undoable:
                    dropped = len(ledger.undo(session))
                    if left.claim.is_data_only and FILLED in left.steps:
                        return "all rows are in the tables of the target"
                    if left.claim.is_data_only:
                        return "the tables of the target are as empty as they were"
                    if self.plan.is_built_apart:
                        lower_guard(session)
                        drop_login(session)
                    return f"what it had created in the target was dropped again ({dropped} objects)"
        except Exception as trouble:  # noqa: BLE001 - the first error matters more
            return f"what it had done is still there ({sentence(trouble)})"
        files = self._files(self.plan)
        once = "once that is mended, run it again" if for_good else "run it again"
        return f"{once}: it goes on from {_loaded(files, left)} of {len(files)} files"


def _loaded(files: Sequence[tuple[Table, FileRecord]], left: ledger.UnfinishedRestore) -> int:
    return sum(staging_tables.is_loaded(table, file.path, left.steps) for table, file in files)


def _stale_line(stale: dict[str, Any]) -> str:
    as_of = f"as it was at {stale['as_of']}" if stale["as_of"] else "without rows"
    again = f"; whole again at {stale['whole_at']}, {stale['whole_from']}" if stale["whole_at"] else ""
    return f"{stale['table']} is restored {as_of}: {stale['reason']}{again}"
