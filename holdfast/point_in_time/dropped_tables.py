"""Tables that were dropped before a recovery target, each with the last position that has it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.archive.history import schema_history
from holdfast.archive.history.coverage import to_of
from holdfast.common.errors import UsageError
from holdfast.common.lsn import PG_CLASS, parse_position, show_position
from holdfast.point_in_time.table_names import changes_between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.archive.history.schema_history import SchemaChanges
    from holdfast.point_in_time.target_contents import ReadCatalog
    from holdfast.postgresql.catalog.catalog import Catalog

_LOOKED_INTO: Final = 50
"""Backups with dropped tables, the newest ones: a catalog is read of each."""


@dataclass(frozen=True)
class DroppedTable:
    """A table that was dropped, and the last recovery target that has it.

    :param at: this, as `--at` takes it.
    :param is_certain: the table was certainly there; else the schema of the backup before has to be asked for.
    """

    oid: int
    label: str
    at: str
    is_certain: bool

    def __str__(self) -> str:
        schema = "" if self.is_certain else " --schema earlier"
        return f"{self.label} was dropped before that; the last moment that has it is --at {self.at}{schema}"


def dropped_before(
    read: ReadCatalog, target: RecoveryTarget, catalog: Catalog, is_meant: Callable[[str], bool]
) -> list[DroppedTable]:
    """Return the tables that a recovery target lacks since they were dropped, the newest of each name.

    :param is_meant: whether a table is looked for, by its `schema.name`.
    """
    there = {table.oid for table in catalog.tables}
    found: dict[str, DroppedTable] = {}
    for before, after in islice(_with_drops(target), _LOOKED_INTO):
        dropped = set(after.head.stream.dropped if after.head.stream else ()) - there
        tables = [
            table for table in read(before.block.catalog).tables if table.oid in dropped and is_meant(table.label)
        ]
        if not tables:
            continue
        between = schema_history.between(target.chain, before, after)
        changes = changes_between(target, (before, after))
        for table in tables:
            changed = [parse_position(each.last or "") for each in changes.get(table.oid, ())]
            at, is_certain = _last_moment(table.oid, between, max(changed, default=None))
            found.setdefault(table.label, DroppedTable(table.oid, table.label, at, is_certain))
    return [*found.values()]


def _with_drops(target: RecoveryTarget) -> Iterator[tuple[Placed, Placed]]:
    """Yield the blocks between which tables were dropped, the newest first."""
    cuts = target.chain.cuts
    for after in reversed(cuts):
        if after.head.stream and after.head.stream.dropped:
            # A snapshot of tables that start over tells the schema of the very position, too.
            before = next((each for each in reversed(cuts) if to_of(each.head) < to_of(after.head)), None)
            if before is not None and to_of(before.head) < target.position:
                yield before, after


def _last_moment(oid: int, between: SchemaChanges, changed: int | None) -> tuple[str, bool]:
    """Return the last position that has a table, and whether the table was certainly there.

    :param changed: position of its last change since the backup before, or None.
    """
    if touched := (between.touches or {}).get((PG_CLASS, oid)):
        return f"lsn:{show_position(touched[-1])}", len(touched) == 1
    if between.changed_at:
        return f"lsn:{show_position(between.changed_at[0])}", True
    if changed is not None:
        return f"lsn:{show_position(changed + 1)}", False
    return f"commit:{between.before.number}", True


def with_last_moment(
    read: ReadCatalog, target: RecoveryTarget, catalog: Catalog, error: UsageError, is_meant: Callable[[str], bool]
) -> UsageError:
    """Return an error on a missing table, with the last target that has it, and the schema's doubt.

    The parameters are those of `dropped_before`.
    """
    tables = dropped_before(read, target, catalog, is_meant)
    more = "; ".join(filter(None, (*map(str, tables), target.approximate)))
    between = " " if str(error).endswith("?") else "; "
    return UsageError(between.join(filter(None, (str(error), more))))
