"""Recovery targets whose schema is put together of those of two backups.

The definitions of both are known, and where event triggers log it, also which objects each commit in between touched.
So changes of one table do not make another one uncertain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.archive.files.data_files import read_file
from holdfast.archive.format.document import iso
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.common.errors import HoldfastError
from holdfast.common.lsn import PG_CLASS
from holdfast.common.words import named
from holdfast.postgresql.dump.dump_entries import read_entries
from holdfast.postgresql.dump.dump_objects import DumpObjects
from holdfast.postgresql.logical.ddl_triggers import PG_ATTRIBUTE, PG_DESCRIPTION, PRIVILEGES
from holdfast.postgresql.logical.schema_composition import ComposedSchema, KnownSchema, Side, compose

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord
    from holdfast.common.lsn import Touches
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.storage import ObjectStore

_KEPT: Final = 4

ReadDump = Callable[["FileRecord"], DumpObjects]
"""Returns the objects of the schema dump that a file holds."""


def dump_reader(store: ObjectStore) -> ReadDump:
    """Return a reader of schema dumps that keeps the last few."""

    @lru_cache(_KEPT)
    def read(file: FileRecord) -> DumpObjects:
        return DumpObjects(read_entries(read_file(store, file), server_version=0))

    return read


@dataclass(frozen=True, kw_only=True)
class ComposedTarget(RecoveryTarget):
    """Recovery target whose schema is put together of two backups'.

    :param pair: the blocks with the schema before and after it.
    """

    composed: ComposedSchema
    pair: tuple[Placed, Placed]

    @property
    def commit(self) -> int:
        """Return the number of the newest block that it needs."""
        return max(super().commit, *(placed.number for placed in self.pair))

    def blocks(self) -> tuple[Placed, ...]:
        """Return every block that a restore reads files of."""
        return tuple({placed.id: placed for placed in (*super().blocks(), *self.pair)}.values())


def with_composed_schema(
    read_catalog: Callable[[FileRecord], Catalog],
    read_dump: ReadDump,
    target: RecoveryTarget,
    weigh: Callable[[int], Side],
) -> ComposedTarget | None:
    """Return a target with its schema put together; None where it is not known what was touched when.

    :param weigh: returns what to take of a table, by its oid, where that is not known.
    """
    if target.doubt is None or (target.touches is None and not target.unfit):
        return None
    schemas = []
    for placed in target.doubt:
        dump = placed.block.schema_dump
        if dump is None:
            return None
        try:
            schemas.append(KnownSchema(read_catalog(placed.block.catalog), read_dump(dump)))
        except HoldfastError:  # such as where there is no pg_restore; a damaged file is told by who needs it
            return None
    earlier, later = schemas
    nearest: Side = "earlier" if target.schema is target.doubt[0] else "later"
    touches = _touched_before(earlier, later, target.position, target.unfit) if target.unfit else target.touches
    composed = compose(earlier, later, touches, target.position, nearest, weigh) if touches is not None else None
    if composed is None:
        return None
    taken = {each.name: getattr(target, each.name) for each in fields(RecoveryTarget)}
    taken |= {"doubt": None, "touches": None, "approximate": _words(target, target.doubt, composed)}
    return ComposedTarget(**taken, composed=composed, pair=target.doubt)


def _touched_before(earlier: KnownSchema, later: KnownSchema, position: int, tables: Collection[int]) -> Touches | None:
    """Return the touches of a schema that is the later one at a position, but for some tables.

    None where rows of such a table need types that are others by now: one schema cannot have both.
    """
    of_both = [{table.oid: table for table in each.catalog.tables} for each in (earlier, later)]
    needs_types = any(oid in each and each[oid].has_own_types for oid in tables for each in of_both)
    if needs_types and later.catalog.types_since(earlier.catalog).altered:
        return None
    past, both = (position - 1,), (position - 1, position)
    touches: dict[tuple[int, int], Sequence[int]] = {PRIVILEGES: past}
    for _, *numbers in (key for each in (earlier, later) for key in each.dump.objects):
        match numbers:
            case [int(catalog), int(oid)]:
                touches[catalog, oid] = touches[PG_ATTRIBUTE, oid] = touches[PG_DESCRIPTION, oid] = past
    touches |= {(catalog, oid): both for catalog in (PG_CLASS, PG_ATTRIBUTE) for oid in tables}
    return touches


def _words(target: RecoveryTarget, pair: tuple[Placed, Placed], composed: ComposedSchema) -> str:
    """Return what is not known of the schema; "" where all is."""
    if not composed.unsure:
        return ""
    earlier, later = (iso(placed.head.covers.to_time) for placed in pair)
    if target.unfit:
        return (
            f"the rows of {named([*target.unfit.values()])} are of {earlier}, and do not fit the schema of {later}: "
            f"taken as of {earlier}, or left out, are {named(composed.unsure)}"
        )
    return (
        f"definitions were changed between {earlier} and {later} more than once; these may not be as they were then: "
        f"{named(composed.unsure)}"
    )
