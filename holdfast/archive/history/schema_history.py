"""Schemas of a source along its log: cuts record one, and the log what changed between two."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.archive.history.coverage import to_of
from holdfast.common.lsn import PG_CLASS, parse_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.archive.format.block import Block, PassedTable
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.history.coverage import Chain
    from holdfast.common.lsn import Touches


@dataclass(frozen=True)
class PassingTable:
    """Table at a position, that was made and dropped between the cuts around it."""

    record: PassedTable
    is_certain: bool  # it was there; else it may have been dropped by then


@dataclass(frozen=True)
class SchemaChanges:
    """Known schema changes between two cuts."""

    before: Placed
    after: Placed
    changed_at: tuple[int, ...] | None
    """Positions at which definitions were changed, in order; None: it is not known when they were."""
    seen: tuple[int, ...]
    """Positions at which tables were seen to be others than before, or definitions recorded to be changed."""
    differ: bool  # the cuts have different schemas, or nobody knows what was changed and changed back in between
    touches: Touches | None = None
    """By object, the positions at which it was touched, in order; None: it is not known of each change."""
    passed: tuple[PassedTable, ...] = ()  # tables that were made and dropped in between, each once

    @property
    def is_known(self) -> bool:
        """Return whether every position in between has the schema of one of the cuts."""
        return not (self.differ or self.seen) if self.changed_at is None else len(self.changed_at) <= 1

    def schema_at(self, position: int) -> Placed | None:
        """Return the cut with the schema of a position; None where that is not known."""
        if self.changed_at is None:
            return self.before if self.is_known else None
        if all(changed >= position for changed in self.changed_at):
            return self.before
        if all(changed < position for changed in self.changed_at):
            return self.after if self.differ else self.before
        return None

    def passed_by(self, position: int) -> tuple[PassingTable, ...]:
        """Return the tables that had come by a position, and are not known to be dropped by then."""
        dropped = {oid: at[-1] for (catalog, oid), at in (self.touches or {}).items() if catalog == PG_CLASS}
        return tuple(
            PassingTable(table, is_certain=table.oid in dropped or position <= parse_position(table.last))
            for table in self.passed
            if parse_position(table.first) < position <= dropped.get(table.oid, position)
        )

    def is_changed_by(self, position: int) -> bool:
        return any(seen < position for seen in self.seen)


def schema_changes(chain: Chain) -> Iterator[SchemaChanges]:
    recorded = _Recorded(chain)
    for before, after in pairwise(chain.cuts):
        yield recorded.between(before, after)


def between(chain: Chain, before: Placed, after: Placed) -> SchemaChanges:
    return _Recorded(chain).between(before, after)


class _Recorded:
    """Schema changes that a chain's blocks record, put in order once for all cuts."""

    def __init__(self, chain: Chain) -> None:
        self._defined = _positions(chain, lambda block: block.defined)
        self._seen = _positions(chain, lambda block: (*block.ddl, *block.defined))
        self._passed = [each for placed in chain.changes for each in placed.head.passed]  # of each block, in order
        self._objects = {
            parse_position(each.position): each.objects
            for placed in chain.changes
            for each in placed.head.definition_changes
        }

    def between(self, before: Placed, after: Placed) -> SchemaChanges:
        start, end = to_of(before.head), to_of(after.head)
        is_recorded = _is_recorded(before.head, after.head)
        differ = _differ(before.head, after.head, is_recorded=is_recorded)
        changed_at = _within(self._defined, start, end) if is_recorded else None
        if differ and not changed_at:  # the log does not record some commands
            changed_at = None
        passed = _joined([each for each in self._passed if start <= parse_position(each.first) < end])
        return SchemaChanges(
            before, after, changed_at, _within(self._seen, start, end), differ, self._touches(changed_at), passed
        )

    def _touches(self, positions: Sequence[int] | None) -> Touches | None:
        if positions is None or not self._objects.keys() >= set(positions):
            return None
        touches: dict[tuple[int, int], list[int]] = {}
        for position in positions:
            for touched in self._objects[position]:
                touches.setdefault(touched, []).append(position)
        return touches


def _joined(passed: Sequence[PassedTable]) -> tuple[PassedTable, ...]:
    """Return tables that several blocks record, each once.

    Where a block has left some without their changes and their names, one that is recorded later may be among them.
    """
    tables: dict[int, PassedTable] = {}
    for table in passed:
        kept = table.kept and 0 not in tables
        if (before := tables.get(table.oid)) is None:
            tables[table.oid] = table.model_copy(update={"kept": kept})
        else:
            more = {"changes": before.changes + table.changes, "last": table.last, "kept": before.kept and table.kept}
            tables[table.oid] = before.model_copy(update=more)
    return tuple(tables.values())


def _positions(chain: Chain, recorded_by: Callable[[Block], Iterable[str]]) -> list[int]:
    return sorted(parse_position(each) for placed in chain.changes for each in recorded_by(placed.head))


def _within(positions: Sequence[int], start: int, end: int) -> tuple[int, ...]:
    return tuple(positions[bisect_left(positions, start) : bisect_left(positions, end)])


def _is_recorded(before: Block, after: Block) -> bool:
    definitions = {block.stream.definitions if block.stream else "" for block in (before, after)}
    return len(definitions) == 1 and "" not in definitions


def _differ(before: Block, after: Block, *, is_recorded: bool) -> bool:
    """Return whether definitions may have differed in between.

    Equal digests do not say that nothing was changed and changed back: only a log that records it does.
    """
    if before.schema_version and before.schema_version == after.schema_version:
        return False
    return not (is_recorded and before.schema_digest and before.schema_digest == after.schema_digest)
