"""Consolidation: a full snapshot made of an older one and the changes since, without the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.format.block import Block
from holdfast.archive.history.coverage import covered_ranges, to_of
from holdfast.archive.history.table_bases import not_selected
from holdfast.archive.history.target_resolution import resolve
from holdfast.common.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord, TableRecord
    from holdfast.archive.format.state import State
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.storage import ObjectStore


def newest_cut(state: State, source: str) -> Placed | None:
    """Return the newest block of changes with a schema, behind the newest full backup of the newest range."""
    ranges = covered_ranges(state, source)
    if not ranges or not ranges[-1].chain.changes:
        return None
    newest = ranges[-1]
    since = max(to_of(placed.head) for placed in newest.snapshots)
    cuts = [placed for placed in newest.chain.changes if placed.head.is_cut and since < to_of(placed.head)]
    return cuts[-1] if cuts else None


def bytes_to_consolidate(state: State, source: str) -> int:
    """Return the stored bytes that a consolidation reads at most: the newest covered range's."""
    newest = covered_ranges(state, source)[-1]
    return sum(placed.size for placed in (*newest.snapshots, *newest.chain.changes))


def target_of(state: State, store: ObjectStore, cut: Placed) -> RecoveryTarget:
    """Return the recovery target at the end of a block of changes; RefusedError: its schema is unknown."""
    target = resolve(state, store, cut.source, f"lsn:{cut.head.covers.to_position}")
    if target.approximate:
        raise RefusedError(f"{cut.source} cannot be consolidated: {target.approximate}")
    return target


def synthetic_block(
    cut: Placed,
    *,
    identity: str,
    run: str,
    tables: Iterable[TableRecord],
    packs: Iterable[FileRecord],
    left_out: Iterable[str],
) -> Block:
    """Return the snapshot for the end of a block of changes.

    :param tables: all that have rows then, as a full backup has them; `packs`: those that hold files of theirs.
    :param left_out: names of those whose rows are left out by choice.
    """
    ends, stream = cut.head, cut.head.stream
    skipped = tuple(map(not_selected, left_out))
    covers = ends.covers.model_copy(update={"from_position": None, "from_time": ends.covers.to_time, "exact": True})
    return Block(
        id=identity,
        kind="snapshot",
        run=run,
        source=ends.source,
        covers=covers,
        tables=tuple(tables),
        packs=tuple(packs),
        catalog=ends.catalog,
        schema_dump=ends.schema_dump,
        sequences=ends.sequences,
        schema_version=ends.schema_version,
        schema_digest=ends.schema_digest,
        whole=not skipped,
        not_included=(*ends.not_included, *skipped),
        stream=stream.model_copy(update={"position": ends.covers.to_position}) if stream else None,
        after=cut.number,
    )
