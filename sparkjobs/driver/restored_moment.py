"""Recovery target of a restore: its objects, its rows, and where both are not certainly of one time."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from holdfast.archive.files.data_files import read_file
from holdfast.archive.format.document import iso
from holdfast.common.errors import DamagedError, RefusedError, exit_code_of
from holdfast.point_in_time.composed_target import ComposedTarget
from holdfast.point_in_time.dropped_tables import dropped_before, with_last_moment
from holdfast.point_in_time.passed_tables import passed_entries
from holdfast.point_in_time.target_contents import (
    catalog_of,
    catalog_reader,
    older_rows,
    parts_of,
    taken_catalog,
)
from holdfast.postgresql.dump.dump_entries import read_entries
from holdfast.postgresql.restore.plan.name_maps import renamed_entries

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from holdfast.archive.history.recovery_target import RecoveryTarget, TableParts
    from holdfast.common.errors import UsageError
    from holdfast.point_in_time.dropped_tables import DroppedTable
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.storage import ObjectStore


class RestoredMoment:
    """A recovery target with everything that the archive has of it.

    :ivar catalog: its objects.
    :ivar parts: of its tables, by table id, as far as their rows fit.
    """

    def __init__(self, store: ObjectStore, moment: RecoveryTarget) -> None:
        self._store = store
        self._moment = moment
        self.catalog = catalog_of(store, moment)
        self.parts, self._unfit = parts_of(catalog_reader(store), moment, self.catalog)

    def entries(self, server_version: int) -> Sequence[DumpEntry]:
        """Return the entries of its schema dump.

        :param server_version: such as 180006; of the server they are for.
        :raises DamagedError: there is no dump.
        """
        entries = self._entries_taken(server_version)
        names = {table.oid: (table.table_schema, table.name) for table in self.catalog.tables}
        tables = taken_catalog(catalog_reader(self._store), self._moment).tables
        renamed = {
            (table.table_schema, table.name): names[table.oid]
            for table in tables
            if names[table.oid] != (table.table_schema, table.name)
        }
        return passed_entries(self.catalog.tables, renamed_entries(entries, renamed) if renamed else entries)

    def _entries_taken(self, server_version: int) -> Sequence[DumpEntry]:
        if isinstance(self._moment, ComposedTarget):
            return self._moment.composed.entries
        block = self._moment.schema.block
        if block.schema_dump is None:
            raise DamagedError(f"block {block.id} holds no schema dump: its schema must be created by hand")
        return read_entries(read_file(self._store, block.schema_dump), server_version=server_version)

    def of_other_moments(self) -> set[int]:
        """Return the oids of tables whose rows may be of another point in time than the restored schema."""
        if isinstance(self._moment, ComposedTarget):
            passed = {each.record.oid for each in self._moment.passed}
            return self.older() | passed | set(self._moment.composed.doubtful)
        if self._moment.is_snapshot or self._moment.doubt is None:
            return self.older()
        return {table.oid for table in self.catalog.with_rows()}

    def older(self) -> set[int]:
        """Return the oids of the tables with rows older than the recovery target."""
        if self._moment.is_snapshot:
            return set()
        exact = {int(table) for table, parts in self.parts.items() if not parts.stale}
        return {table.oid for table in self.catalog.with_rows()} - exact

    def stale(self, tables: Iterable[Table]) -> list[dict[str, Any]]:
        """Return the tables with older rows, or without rows, each with the reason and when it is whole again."""
        return [
            {
                "table": each.label,
                "as_of": iso(each.as_of) if each.as_of else None,
                "reason": each.reason,
                "whole_from": iso(each.again.head.covers.to_time) if each.again else None,
                "whole_at": f"commit:{each.again.number}" if each.again else None,
            }
            for each in older_rows(self._moment, tables, self.parts, self._unfit)
        ]

    def explained(self, error: UsageError, globs: Sequence[str]) -> UsageError:
        """Return an error on a glob without a table, with the last moment that has one."""
        labels = [table.label for table in self.catalog.tables]
        missing = [glob for glob in globs if not any(fnmatchcase(label, glob) for label in labels)]
        read = catalog_reader(self._store)
        return with_last_moment(
            read, self._moment, self.catalog, error, lambda label: any(fnmatchcase(label, glob) for glob in missing)
        )

    def namesakes(self, labels: Container[str]) -> Iterable[DroppedTable]:
        """Return the tables of these names that were dropped before the recovery target."""
        return dropped_before(catalog_reader(self._store), self._moment, self.catalog, labels.__contains__)

    def hint(self, error: Exception) -> str:
        """Return a hint at another possible schema, where this one refused rows."""
        if isinstance(self._moment, ComposedTarget):
            return "the schema is put together of those of two backups; --schema earlier and --schema later take one's"
        if self._moment.doubt is None or exit_code_of(error) != RefusedError.exit_code:
            return ""
        is_earlier = self._moment.schema is self._moment.doubt[0]
        return f"{self._moment.approximate}; --schema {'later' if is_earlier else 'earlier'} takes the other one"


def stored_of(parts: TableParts) -> tuple[int, int, int]:
    """Return a table's rows in its snapshot, the bytes of all its files, and its changes since."""
    records = (parts.base, *parts.changes)
    size = sum(file.size for record in records for file in record.files)
    return parts.base.rows, size, sum(record.rows for record in parts.changes)
