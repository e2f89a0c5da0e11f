"""What blocks a source has, in the order of its log: which snapshots the changes can be joined to, and up to where.

A chain is a run of change blocks without a hole, with the snapshots that fall into it: each of its positions from the
first snapshot on can be restored. A snapshot that no changes are joined to is a chain of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.archive.position import parse_position, show_position

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from holdfast.archive.model import Block, FileRecord, TableRecord
    from holdfast.archive.state import Placed, State


@dataclass(frozen=True)
class Chain:
    """Snapshots and the changes that follow them, each in the order of positions.

    :param start: from this position on no change is missing.
    :param gap: why nothing before is joined to it.
    """

    start: int
    snapshots: tuple[Placed, ...] = ()
    changes: tuple[Placed, ...] = ()
    gap: str = ""

    @property
    def end(self) -> int:
        """Return the position up to which every change is here."""
        return to_of(self.changes[-1].block) if self.changes else self.start

    @property
    def full(self) -> tuple[Placed, ...]:
        """Return the snapshots that one can begin with: not those of single tables that were added later."""
        return tuple(placed for placed in self.snapshots if not placed.block.supplement)

    @property
    def opened(self) -> bool:
        """Say whether a new stream began with it."""
        return any(placed.block.stream is not None and placed.block.stream.opened for placed in self.snapshots)


def to_of(block: Block) -> int:
    """Return the position that a block brings its source to."""
    return parse_position(block.covers.to_position)


def from_of(block: Block) -> int:
    """Return the position from which a block of changes holds them."""
    return parse_position(block.covers.from_position or block.covers.to_position)


@dataclass
class _Growing:
    start: int
    gap: str = ""
    snapshots: list[Placed] = field(default_factory=list)
    changes: list[Placed] = field(default_factory=list)

    @property
    def end(self) -> int:
        return to_of(self.changes[-1].block) if self.changes else self.start

    def chain(self) -> Chain:
        return Chain(
            self.start, tuple(sorted(self.snapshots, key=lambda each: to_of(each.block))), tuple(self.changes), self.gap
        )


def chains(state: State, source: str) -> tuple[Chain, ...]:
    """Return a source's chains in the order in which they were begun."""
    found: list[_Growing] = []
    stream: _Growing | None = None
    mine = (placed for placed in state.blocks.values() if placed.block.source.name == source)
    for placed in sorted(mine, key=lambda each: each.commit):
        block = placed.block
        if block.kind == "changes":
            if stream is None or stream.end != from_of(block):
                stream = _Growing(from_of(block), block.gap)
                found.append(stream)
            stream.changes.append(placed)
            continue
        if block.stream is None or not block.covers.exact:
            found.append(_Growing(to_of(block), block.gap, [placed]))
            continue
        if block.stream.opened or stream is None:
            stream = _Growing(parse_position(block.stream.position), block.gap)
            found.append(stream)
        stream.snapshots.append(placed)
    return tuple(each.chain() for each in found)


@dataclass(frozen=True)
class TableParts:
    """What makes up the rows of one table at a position.

    :param base: its rows in the snapshot at position `since`.
    :param changes: those since, up to the position; empty where they are not followed.
    :param stale: why the rows are those of the snapshot, and not of the position; "" where they are exact.
    :param catalog: the record of the objects in the snapshot.
    """

    base: TableRecord
    catalog: FileRecord
    since: int
    as_of: datetime
    changes: tuple[TableRecord, ...] = ()
    stale: str = ""


@dataclass(frozen=True)
class Moment:
    """What brings a source to a position: all transactions whose commit begins before it, and no other.

    :param at: the moment it stands for: for a time that was asked for that time, else when it was reached.
    :param full: the snapshot to begin with.
    :param schema: the block whose schema is that of the position, as nearly as it is known.
    :param sequences: the block that tells where sequences stood, never earlier than at the position.
    :param approximate: why the schema may differ from that of the position; "" where it does not.
    """

    source: str
    position: int
    at: datetime
    chain: Chain
    full: Placed
    schema: Placed
    sequences: Placed
    approximate: str = ""

    def __str__(self) -> str:
        return f"commit:{self.commit}, lsn:{show_position(self.position)}"

    @property
    def is_snapshot(self) -> bool:
        """Say whether the snapshot alone is enough."""
        return to_of(self.full.block) == self.position

    @property
    def commit(self) -> int:
        """Return the newest commit that it needs."""
        return max(self.full.commit, self.schema.commit, *(placed.commit for placed in self.changes), 0)

    @property
    def changes(self) -> tuple[Placed, ...]:
        """Return the blocks of changes between the snapshots and the position."""
        since = min(to_of(placed.block) for placed in self._snapshots())
        return tuple(
            placed
            for placed in self.chain.changes
            if from_of(placed.block) < self.position and to_of(placed.block) > since
        )

    def blocks(self) -> tuple[Placed, ...]:
        """Return every block that files are read of."""
        used = (self.schema, self.sequences, *self._snapshots(), *self.changes)
        return tuple({placed.block.id: placed for placed in used}.values())

    def tables(self) -> Mapping[str, TableParts]:
        """Return the parts of every table that has rows here, by the table's id."""
        return {record.id: self._parts(record, placed) for record, placed in self._bases().values()}

    def _bases(self) -> Mapping[str, tuple[TableRecord, Placed]]:
        """Return of every table its newest snapshot, with the block it is in."""
        found: dict[str, tuple[TableRecord, Placed]] = {}
        for placed in self.chain.snapshots:
            # Behind the end of the changes there is nothing but the snapshot itself.
            if to_of(placed.block) == self.position or to_of(placed.block) < self.position <= self.chain.end:
                found.update((record.id, (record, placed)) for record in placed.block.tables)
        return found

    def _snapshots(self) -> tuple[Placed, ...]:
        return tuple({placed.block.id: placed for _, placed in self._bases().values()}.values()) or (self.full,)

    def _parts(self, record: TableRecord, base: Placed) -> TableParts:
        since = to_of(base.block)
        changes: list[TableRecord] = []
        entry = base.block.stream.followed.get(int(record.id)) if base.block.stream else None
        stale = "" if self.position == since else why_not_followed(base.block, record)
        for placed in self.chain.changes:
            block = placed.block
            if to_of(block) <= since or from_of(block) >= self.position:
                continue
            now = block.stream.followed.get(int(record.id)) if block.stream else None
            if not stale and (now is None or now != entry):
                stale = why_not_followed(block, record)
            changes += (each for each in block.tables if each.id == record.id)
        rows = () if stale else tuple(changes)
        return TableParts(record, base.block.catalog, since, base.block.covers.to_time, rows, stale)


def why_not_followed(block: Block, record: TableRecord) -> str:
    """Return why a block does not follow a table; "" where it does."""
    if block.stream is None:
        return "its changes are not backed up"
    if int(record.id) in block.stream.followed and record.label not in block.stream.not_followed:
        return "" if block.kind == "snapshot" else "it left the publication and was added to it again"
    return block.stream.not_followed.get(record.label, "it is not in the publication any more")
