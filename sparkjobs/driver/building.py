"""Building of what a restore brings: objects, rows, comparison, and everything to its owners."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS
from holdfast.postgresql.connection.parallel_sessions import OneSession, Sessions
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.logical.ddl_triggers import trigger_version
from holdfast.postgresql.restore.objects import object_creation
from holdfast.postgresql.restore.objects.extension_configuration import restore_configuration
from holdfast.postgresql.restore.objects.sequence_positions import find_places, set_sequences
from holdfast.postgresql.restore.objects.unbound_partitions import attach_unbound
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.plan.stages import hiding
from holdfast.postgresql.restore.rights.guard import lower_guard, raise_guard
from holdfast.postgresql.restore.rights.hand_over import forbid_writing, hand_over, holders_of, mark_owners
from holdfast.postgresql.restore.rights.lent_rights import (
    by_period,
    close_database,
    lend_references,
    lend_rights,
    open_database,
)
from holdfast.postgresql.restore.rights.restricted_login import (
    check_password,
    keep_password,
    lock_out,
    owners_login,
    powers,
    temporary_login,
)
from holdfast.postgresql.restore.rights.search_paths import give_back
from holdfast.postgresql.restore.rights.target_rights import owner_statements
from holdfast.postgresql.restore.rows import existing_tables, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.archive.history.recovery_target import TableParts
    from holdfast.postgresql.catalog.catalog import NamedRelation
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.restore.plan.plan import RestorePlan
    from sparkjobs.driver.application import Job
    from sparkjobs.driver.loading import Loading


_SESSIONS = max(2, os.cpu_count() or 2)

_FOR_ITS_OWNER = "policies may hide rows from its owner, who may do more than own things: let that one fill it"
_DEFAULT_PATH = '"$user", public'
"""PostgreSQL's own, not what the owner of the target's database has set: extensions write it down, and read it."""

_COMPARED = "compared with the archive"
FILLED = "filled"


class Building:
    """Builds what a restore brings into its target.

    :param session: of who restores.
    :param tables: those that rows come into, each with what makes it up.
    :param loading: returns the rows on their way, by the address and a session of the role that loads them.
    """

    def __init__(
        self,
        job: Job,
        address: Address,
        session: Any,
        plan: RestorePlan,
        tables: Sequence[tuple[Table, TableParts]],
        loading: Callable[[Address, Any], Loading],
    ) -> None:
        self._job = job
        self._address = address
        self._session = session
        self._plan = plan
        self._tables = tables
        self._loading = loading
        self._owned: dict[NamedRelation, str] = {}

    def run(self) -> tuple[NotRestored, ...]:
        """Build everything, and return what is not restored beside what the plan leaves out."""
        extending = replace(self._address, search_path=_DEFAULT_PATH)
        with (
            Sessions(self._address, _SESSIONS, settings=object_creation.SETTINGS) as own,
            Sessions(extending, 1, settings=object_creation.SETTINGS) as self._extending,
        ):
            if self._plan.is_built_apart:
                return self._build_apart(own)
            late = self._build(self._plan, self._address, self._session, own, None)
            return (*late, *set_sequences(self._session), *give_back(self._session))

    def fill(self, check: Callable[[Sequence[NotRestored]], None]) -> tuple[NotRestored, ...]:
        """Fill tables that are there, and return what is not as in the archive.

        The rows come together in staging tables first. Then one transaction moves them, and compares them, so that all
        tables are filled and equal to the archive, or none is.

        :param check: raises an error where that is not good enough.
        """
        loading = self._loading(self._address, self._session)
        loading.gather()
        with ledger.once(self._session, FILLED) as is_new:
            if is_new:
                late = self._fill(loading)
                check(late)
                self._job.check()
                set_sequences(self._session)  # no transaction takes that back
                ledger.note_left_out(self._session, FILLED, late)
            return tuple(ledger.read_left_out(self._session, FILLED))

    def _fill(self, loading: Loading) -> tuple[NotRestored, ...]:
        rows, size = sum(parts.base.rows for _, parts in self._tables), sum(each.size for each in self._plan.tables)
        here = OneSession(self._session)
        self._job.log.progress("filling tables", rows=rows, size=size)
        existing_tables.fill(self._session, loading.tables)
        self._job.log.progress("comparing with the archive", rows=rows, size=size)
        different = loading.compare(here, here)
        uncertain = find_places(self._session, self._plan.sequences)
        most = load.most_locked(self._session)
        return (*different, *uncertain, *load.analyze(here, self._plan.to_analyze(most)))

    def _build_apart(self, superuser: Sessions) -> tuple[NotRestored, ...]:
        check_password(self._session)
        is_quiet = not trigger_version(self._session)  # what lets the log tell of definitions must not be silent
        with temporary_login(self._session, self._address, is_quiet=is_quiet) as login:
            keep_password(self._session)
            plan = replace(self._plan, login=login.user)
            holders = holders_of(self._session, plan)
            ledger.let_write(self._session, plan.login)
            raise_guard(self._session, login)
            if not plan.beside:
                close_database(self._session, plan.login)
            lend_rights(self._session, plan)
            with connect(login) as session, Sessions(login, _SESSIONS, settings=object_creation.SETTINGS) as sessions:
                late = self._build(plan, login, session, sessions, superuser)
                late = (*late, *give_back(session))
                self._forbid_writing(plan, is_over=True)
                late = (*late, *mark_owners(self._session, sessions, plan, holders))
            lock_out(self._session)
            late = (*late, *set_sequences(self._session), *hand_over(self._session, plan, holders))
            late = (*late, *self._fill_for_owners())
            if not plan.beside:
                open_database(self._session)
            lower_guard(self._session)
        return late

    def _build(
        self,
        plan: RestorePlan,
        address: Address,
        session: Any,
        sessions: Sessions,
        superuser: Sessions | None,
    ) -> tuple[NotRestored, ...]:
        """Create, load and compare everything.

        :param address: of the role that builds, with a session and more of its own.
        :param superuser: creates what that role may not.
        """
        rows = sum(parts.base.rows for _, parts in self._tables)
        size = sum(table.size for table in plan.tables)
        made = self._counting("creating tables")
        created = object_creation.create_tables(sessions, self._extending, plan, superuser, made)
        late = (*created, *self._restore_configuration(plan))
        if plan.login:
            lend_references(self._session, plan)
        loading = self._loading(address, session)
        if not ledger.read_result(self._session, _COMPARED):
            loading.run(sessions)
            self._forbid_writing(plan)
        made = self._counting("building indexes and constraints", rows=rows, size=size)
        built = object_creation.create_rest(sessions, plan, superuser, made)
        find_places(self._session, plan.sequences, session)  # by now there are indexes, and all rows may be read
        self._job.log.progress("comparing with the archive", rows=rows, size=size)
        different = self._compare(plan, loading, sessions, superuser or sessions)
        late = (*late, *loading.left_out(), *different, *built, *attach_unbound(sessions, plan))
        self._job.check()
        self._job.log.progress("refreshing views and statistics", rows=rows, size=size)
        if superuser is None:  # it sees what policies let it see: it owns the views
            late = (
                *late,
                *object_creation.hide_rows(sessions, plan),
                *load.refresh_views(sessions, plan.materialized_views),
            )
        else:
            late = (*late, *self._fill_views(sessions, plan), *object_creation.hide_rows(sessions, plan))
        most = load.most_locked(self._session)
        return (*late, *load.analyze(sessions, plan.to_analyze(most)), *plan.not_analyzed(most))

    def _counting(self, step: str, **counts: int) -> Callable[[int, int], None]:
        return lambda made, whole: self._job.progress(step, objects=made, of_objects=whole, **counts)

    def _fill_views(self, sessions: Sessions, plan: RestorePlan) -> Iterator[NotRestored]:
        """Fill the materialised views that the login may fill for their owners.

        Others are filled in the end, with the rights of their owner: policies hide rows from it, or it reads what was
        there before.
        """
        owners = {(each.schema, each.name): owner for each in plan.entries for _, owner in owner_statements(each.sql)}
        self._owned = {view: owners.get((view.relation_schema, view.name), "") for view in plan.materialized_views}
        powerful = powers(self._session, [*self._owned.values()])
        is_apart = plan.beside or bool(hiding(plan.entries))
        hidden = [view for view, owner in self._owned.items() if is_apart and not powerful.get(owner, not owner)]
        yield from load.refresh_views(sessions, [view for view in self._owned if view not in hidden])
        yield from (load.empty_view(view, _FOR_ITS_OWNER) for view in hidden if self._owned[view] in powerful)
        self._owned = {view: self._owned[view] for view in hidden if self._owned[view] not in powerful}

    def _fill_for_owners(self) -> Iterator[NotRestored]:
        for owner in dict.fromkeys(self._owned.values()):
            views = [view for view in self._owned if self._owned[view] == owner]
            with owners_login(self._session, self._address, owner) as login, Sessions(login, 1) as sessions:
                yield from load.refresh_views(sessions, views)

    def _restore_configuration(self, plan: RestorePlan) -> tuple[NotRestored, ...]:
        why = {each.label: each.note for each in plan.configuration if each.note}
        why |= restore_configuration(self._session, plan.configuration)
        return tuple(NotRestored(what, reason) for what, reason in why.items())

    def _compare(
        self, plan: RestorePlan, loading: Loading, sessions: Sessions, pages: Sessions
    ) -> tuple[NotRestored, ...]:
        """Compare the rows with the archive, once: later steps change no rows, and may hide them.

        :param pages: of the role that reads large objects.
        :return: the generated columns that the target computes otherwise.
        """
        if not ledger.read_result(self._session, _COMPARED):
            found = loading.compare(sessions, pages)
            with ledger.once(self._session, _COMPARED):
                ledger.note_result(self._session, _COMPARED, json.dumps([each.describe() for each in found]))
        return tuple(ledger.read_left_out(self._session, _COMPARED))

    def _forbid_writing(self, plan: RestorePlan, *, is_over: bool = False) -> None:
        """Keep code of one owner from the rows of others, once they are loaded."""
        if plan.login and len(holders_of(self._session, plan)) > 1:
            tables = (each.target for each in plan.tables if each.source.kind != "f")
            names = {qualified(each.table_schema, each.name) for each in tables if each.oid != LARGE_OBJECTS}
            names.difference_update(by_period(plan))  # a check of such a key needs the right to lock rows, so to change
            forbid_writing(self._session, plan, sorted(names), is_over=is_over)
