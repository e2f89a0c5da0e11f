"""Loading of a restore's rows: into tables, to a later position, into staging tables if they do not fit."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.point_in_time.target_contents import history_of
from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.relaxed_constraints import OTHER_MOMENT
from holdfast.postgresql.restore.rights.search_paths import asked_by, lend_search_paths, take_back
from holdfast.postgresql.restore.rows import load, staging_tables
from holdfast.postgresql.restore.rows.apply import Applied
from holdfast.postgresql.restore.rows.generated_columns import (
    has_stored,
    nothing,
    recomputed,
    sum_apart,
    with_changes,
)
from holdfast.postgresql.restore.rows.partition_routing import partition_roots
from holdfast.postgresql.values.content_hash import ContentHash
from sparkjobs.tasks.packing import pack
from sparkjobs.tasks.restore_files import ChangeApplier, ChangedTable, FileHasher, FileLoader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.history.recovery_target import TableParts
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.parallel_sessions import Sessions
    from holdfast.postgresql.restore.plan.plan import NotRestored
    from holdfast.postgresql.restore.rows.generated_columns import Apart, Recomputed
    from sparkjobs.driver.application import Job

_TASK_BYTES = 8 << 20
"""How many stored bytes one task loads, unless a single file is larger."""


class Loading:
    """Rows of a restore on their way into the tables of a target; its ledger has the progress.

    :param session: of the restore.
    :param tables: those that rows come into, each with what makes it up.
    :param older: oids of those whose rows may be of another moment than their conditions, which go then.
    :param encoding: of the source.
    :param is_strict: conditions of all others hold, or the restore ends. Else they are added when the rows are there,
        `NOT VALID` where these break them.
    :param pages_by: who writes large objects.
    """

    def __init__(
        self,
        job: Job,
        address: Address,
        session: Any,
        tables: Sequence[tuple[Table, TableParts]],
        older: Collection[int],
        encoding: str,
        *,
        is_strict: bool = False,
        pages_by: Address | None = None,
    ) -> None:
        self._job = job
        self._address = address
        self._session = session
        self._older = frozenset(older)
        self._is_strict = is_strict
        self._pages_by = pages_by or address
        self._given = tables
        self._encoding = encoding
        self._tables = self._routed()

    @property
    def tables(self) -> Sequence[Table]:
        """Return, for each table, the one that holds its rows once they are loaded."""
        return [table for table, _ in self._tables]

    @cached_property
    def _changed(self) -> list[ChangedTable]:
        found = [ChangedTable(table, history_of(parts, table)) for table, parts in self._tables if parts.changes]
        return [each for each in found if each.history.changes]

    def missing(self, steps: Mapping[str, str]) -> list[tuple[Table, FileRecord]]:
        """Return the files still to load, each with its table or staging table, by what the ledger says."""
        return [
            (staging_tables.staging_table(table, steps) if staging_tables.is_aside(table, steps) else table, file)
            for table, file in files_of(self._tables)
            if not staging_tables.is_loaded(table, file.path, steps)
        ]

    def run(self, sessions: Sessions) -> None:
        """Load the missing files, and apply the changes; what does not fit goes into staging tables first."""
        every = {table.oid for table in self.tables}
        # Changes are those of one partition: behind a root, they would find rows of all.
        self._set_aside({each.table.oid for each in self._changed if not each.table.has_rows}, is_begun=False)
        self._put_aside(self._load_with_functions(self._load(self.missing(self._steps()), every)))
        self._put_aside(self._apply(every))
        self._apply(())
        self._bring_back(sessions)

    def gather(self) -> None:
        """Bring all rows together in staging tables: nothing comes into the tables themselves."""
        self._set_aside({table.oid for table in self.tables}, is_begun=False)
        self._load(self.missing(self._steps()), ())
        self._apply(())

    def left_out(self) -> Iterator[NotRestored]:
        """Yield the constraints that were dropped for rows of another time, the last one first.

        So their statements undo it step by step: a partition is attached before its root gets what both had lost.
        """
        steps = self._steps()
        for table, _ in reversed(self._tables):
            yield from staging_tables.left_out(table, steps)

    def expected(self) -> dict[int, ContentHash]:
        """Return each table's content hash by oid, from the archive's files and the applied changes."""
        steps = self._steps()
        applied = self._applied(steps)
        expected = {}
        for table, parts in self._tables:
            there = staging_tables.staging_table(table, steps) if staging_tables.is_aside(table, steps) else table
            found = ((steps.get(staging_tables.step_of(there, file.path)) or file.digest) for file in parts.base.files)
            base = sum((ContentHash.parse(each or "0:0") for each in found), ContentHash(0, 0))
            expected[table.oid] = applied[table.oid].after(base) if table.oid in applied else base
        return expected

    def compare(self, sessions: Sessions, pages: Sessions) -> tuple[NotRestored, ...]:
        """Compare all tables with the archive; return the generated columns that the target computes otherwise.

        :param sessions: of who loads: code of the source may have put something else in a table's place.
        :param pages: of who may read large objects.
        :raises DamagedError: anything else differs.
        """
        expected = self.expected()
        different: list[load.Difference] = []
        for by, some in (
            (sessions, [table for table in self.tables if table.oid != LARGE_OBJECTS]),
            (pages, [table for table in self.tables if table.oid == LARGE_OBJECTS]),
        ):
            different += load.differences(by, expected, some)
        generated = [each for each in different if has_stored(each.tables[0])]
        found = self._recomputed(sessions, generated) if generated else {}
        load.check_equal([each for each in different if each.tables[0].oid not in found])
        return tuple(named for each in found.values() for named in each.name())

    def _recomputed(self, sessions: Sessions, different: Sequence[load.Difference]) -> dict[int, Recomputed]:
        """Return the differences in generated columns alone, by the oid of each first table."""
        wanted = self._apart({table.oid for each in different for table in each.tables})
        roots = [each.tables[0] for each in different]
        here = sessions.run(roots, load.hashes_apart)
        found = {}
        for each, seen in zip(different, here, strict=True):
            parts = [wanted[table.oid] for table in each.tables]
            if all(part is not None for part in parts):
                root = each.tables[0]
                total = sum_apart(part for part in parts if part is not None)
                if (one := recomputed(root, total, seen)) is not None:
                    found[root.oid] = one
        return found

    def _apart(self, oids: Collection[int]) -> dict[int, Apart | None]:
        """Return the hashes of tables in the archive, with their changes; None where changes were not noted so."""
        files = [pair for pair in files_of(self._tables) if pair[0].oid in oids]
        tasks = pack(files, lambda pair: pair[1].size, room=_TASK_BYTES)
        rows = sum(file.rows for _, file in files)
        hashed = self._job.map("comparing columns", tasks, FileHasher(self._job.store), estimated_rows=rows)
        applied, found = self._applied(self._steps()), {}
        for table in self.tables:
            if table.oid in oids:
                base = sum_apart([nothing(table), *(apart for oid, apart in hashed if oid == table.oid)])
                found[table.oid] = with_changes(base, applied[table.oid].plain) if table.oid in applied else base
        return found

    def _applied(self, steps: Mapping[str, str]) -> dict[int, Applied]:
        return {each.table.oid: Applied.from_json(steps[each.step]) for each in self._changed}

    def _steps(self) -> Mapping[str, str]:
        return ledger.read_steps(self._session)

    def _load_with_functions(self, misfits: set[int]) -> set[int]:
        """Load again the tables with constraints or formulas that call functions; return those that still misfit.

        These may ask other tables, which are there by now, or need a search_path. One that does not help is taken back.
        """
        if not misfits:
            return misfits
        asked = asked_by(self._session, [table for table, _ in self._tables if table.oid in misfits])
        failed = self._load_of(asked)
        needing = {} if self._is_strict else {oid: asked[oid] for oid in failed}
        lend_search_paths(self._session, {each for some in needing.values() for each in some})
        still = self._load_of(needing)
        helped = {routine for oid in needing.keys() - still for routine, _ in needing[oid]}
        take_back(self._session, {routine for oid in still for routine, _ in needing[oid]} - helped)
        return (misfits - asked.keys()) | (failed - needing.keys()) | still

    def _load_of(self, tables: Collection[int]) -> set[int]:
        return self._load([pair for pair in self.missing(self._steps()) if pair[0].oid in tables], tables)

    def _load(self, files: Sequence[tuple[Table, FileRecord]], tolerated: Collection[int]) -> set[int]:
        """Load files; return the oids of the tables that do not take their rows, of those where that is tolerated."""
        objects: dict[str, list[tuple[Table, FileRecord]]] = {}
        for table, file in files:
            objects.setdefault(file.key, []).append((table, file))
        tasks = pack(objects.values(), lambda some: sum(file.size for _, file in some), room=_TASK_BYTES)
        loads = [[pair for some in task for pair in some] for task in tasks]
        if not files:
            return set()
        labels = {table.oid: table.label for table, _ in self._tables} if not tolerated else {}
        tolerated = frozenset(tolerated) - {LARGE_OBJECTS}
        loader = FileLoader(self._job.store, self._address, tolerated, labels, self._pages_by)
        found = self._job.map("loading rows", loads, loader, estimated_rows=sum(file.rows for _, file in files))
        self._job.check()
        return set(found)

    def _apply(self, tolerated: Collection[int]) -> set[int]:
        """Bring the loaded tables to the restored position; return the oids of those that refuse, if tolerated."""
        steps = self._steps()
        tables = [_where_it_is(each, steps) for each in self._changed if each.step not in steps]
        tables.sort(key=lambda each: int(each.history.table))  # as their changes are packed
        tasks = pack(tables, lambda table: table.size, room=_TASK_BYTES)
        changes = sum(record.rows for table in tables for record in table.history.changes)
        applier = ChangeApplier(self._job.store, self._address, frozenset(tolerated) - {LARGE_OBJECTS})
        found = self._job.map("applying changes", tasks, applier, estimated_rows=changes)
        self._job.check()
        return set(found)

    def _put_aside(self, misfits: Collection[int]) -> None:
        """Start over with tables that do not take their rows, in staging tables."""
        oids = self._with_same_root(misfits)
        for label in dict.fromkeys(table.label for table in self.tables if table.oid in oids):
            self._job.say(f"{label} has conditions that rows break: these come together aside first")
        self._set_aside(oids)
        self._load([pair for pair in self.missing(self._steps()) if pair[0].oid in oids], ())

    def _with_same_root(self, oids: Collection[int]) -> set[int]:
        """Return the oids of all tables behind the same roots, where their rows cannot be distinguished."""
        roots = {_place(table) for table in self.tables if table.oid in oids}
        return {table.oid for table in self.tables if _place(table) in roots}

    def _set_aside(self, oids: set[int], *, is_begun: bool = True) -> None:
        computed = oids - {each.table.oid for each in self._changed}
        together: dict[tuple[str, str], list[tuple[Table, TableParts]]] = {}
        for table, parts in self._tables:
            if table.oid in oids:
                together.setdefault(_place(table), []).append((table, parts))
        for some in together.values():
            files = {table.oid: [file.path for _, file in files_of([(table, parts)])] for table, parts in some}
            tables = [table for table, _ in some]
            staging_tables.set_aside(self._session, tables, files, keep_computed=computed, is_begun=is_begun)

    def _routed(self) -> Sequence[tuple[Table, TableParts]]:
        is_same = self._session.info.parameter_status("server_encoding") == self._encoding
        roots = partition_roots(self._session, [table for table, _ in self._given], same_encoding=is_same)
        return [(roots.get(table.oid, table), parts) for table, parts in self._given]

    def _bring_back(self, sessions: Sessions) -> None:
        steps = self._steps()
        self._leave_roots(steps)
        aside = [table for table, _ in self._tables if staging_tables.is_aside(table, steps)]
        waiting = [table for table in aside if not staging_tables.is_back(table, steps)]
        sessions.run([table for table in waiting if table.oid not in self._older], self._try_to_bring_back)
        for table in waiting:  # what gives way may be a condition of several tables
            staging_tables.bring_back(self._session, table, reason=OTHER_MOMENT if table.oid in self._older else "")
        for table in reversed(aside):
            if table.oid not in self._older:
                staging_tables.put_conditions_back(self._session, table)

    def _leave_roots(self, steps: Mapping[str, str]) -> None:
        """Give up roots that cannot route rows, if none of these rows is back yet."""
        below: dict[tuple[str, str], list[Table]] = {}
        for (table, _), (routed, _) in zip(self._given, self._tables, strict=True):
            if not routed.has_rows and staging_tables.is_aside(table, steps):
                below.setdefault(_place(routed), []).append(table)
        for some in below.values():
            if not self._is_strict and not any(staging_tables.is_back(table, steps) for table in some):
                staging_tables.leave_root(self._session, some)
        self._tables = self._routed()

    def _try_to_bring_back(self, session: Any, table: Table) -> None:
        with nullcontext() if self._is_strict else suppress(staging_tables.MisfitError):
            staging_tables.bring_back(session, table)


def files_of(tables: Iterable[tuple[Table, TableParts]]) -> list[tuple[Table, FileRecord]]:
    """Return the files with rows to load, each with its table."""
    return [(table, file) for table, parts in tables for file in parts.base.files if file.rows]


def _place(table: Table) -> tuple[str, str]:
    return table.table_schema, table.name


def _where_it_is(changed: ChangedTable, steps: Mapping[str, str]) -> ChangedTable:
    table = changed.table
    return (
        replace(changed, table=staging_tables.staging_table(table, steps))
        if staging_tables.is_aside(table, steps)
        else changed
    )
