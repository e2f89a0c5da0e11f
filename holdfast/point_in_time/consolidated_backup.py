"""Contents of a full snapshot made without the source, or the reasons why none can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import read_file
from holdfast.archive.maintenance.consolidation import target_of
from holdfast.common.errors import RefusedError
from holdfast.common.words import named
from holdfast.point_in_time.target_contents import catalog_of, history_of
from holdfast.postgresql.catalog.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.archive.history.recovery_target import TableParts
    from holdfast.archive.scan.table_history import TableHistory
    from holdfast.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore


class Consolidation:
    """Tables of a source at a recovery target: as in an older snapshot, or with changes since.

    :param cut: the block of changes at whose end the target is.
    :raises RefusedError: the schema or rows of that time are not known; names the tables.
    """

    def __init__(self, state: State, store: ObjectStore, cut: Placed) -> None:
        self._store = store
        self.target = target_of(state, store, cut)
        self._parts = self.target.tables()
        self._before: dict[str, dict[int, Table]] = {}
        tables = catalog_of(store, self.target).with_rows()
        self.kept = [table for table in tables if str(table.oid) in self._parts]
        self._without = [table for table in tables if str(table.oid) not in self._parts]
        self._changed = {table.oid for table in self.kept if not self._is_same(table)}
        if reasons := list(self._why_not()):
            raise RefusedError(
                f"{self.target.source} cannot be consolidated: {named(reasons)}. Take a full backup of it, or leave "
                "these tables out of its backups"
            )

    @property
    def left_out(self) -> list[str]:
        """Return the names of the tables left without rows by choice."""
        return [table.label for table in self._without]

    @property
    def changed(self) -> list[Table]:
        """Return the tables whose rows are to be written: the older snapshot has no files of them."""
        return [table for table in self.kept if table.oid in self._changed]

    @property
    def estimated(self) -> int:
        """Return the approximate number of rows to be written."""
        return sum(self.parts(table).base.rows for table in self.changed)

    def parts(self, table: Table) -> TableParts:
        return self._parts[str(table.oid)]

    def history(self, table: Table) -> TableHistory:
        return history_of(self.parts(table), table)

    def _why_not(self) -> Iterator[str]:
        stream = self.target.schema.head.stream
        missed = set(stream.not_followed) if stream else set()
        for table in self._without:
            if self.target.full.head.whole or table.label in missed:
                yield f"{table.label}: there is no snapshot of it"
        for table in self.kept:
            if stale := self.parts(table).stale:
                yield f"{table.label}: {stale}"
            elif table.oid in self._changed and any(column.generated == "s" for column in table.columns):
                yield f"{table.label}: it has generated columns, which only the database can compute"

    def _is_same(self, table: Table) -> bool:
        """Return whether a table and its rows are as in the older snapshot."""
        before = self._tables_of(self.parts(table)).get(table.oid)
        return not self.history(table).changes and before is not None and before.columns == table.columns

    def _tables_of(self, parts: TableParts) -> Mapping[int, Table]:
        path = parts.catalog.path
        if path not in self._before:
            catalog = Catalog.from_bytes(read_file(self._store, parts.catalog), path)
            self._before[path] = {table.oid: table for table in catalog.tables}
        return self._before[path]
