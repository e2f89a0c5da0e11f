"""Recovery targets: all that brings a source to a position."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.archive.format.block_ref import load
from holdfast.archive.format.document import iso
from holdfast.archive.history import schema_history
from holdfast.archive.history.coverage import from_of, to_of
from holdfast.common.lsn import parse_position, show_position
from holdfast.common.words import named

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import Block, Stream
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord, TableRecord
    from holdfast.archive.history.coverage import Chain, CoveredRange
    from holdfast.archive.history.schema_history import PassingTable
    from holdfast.common.lsn import Touches

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class TableParts:
    """Snapshot and changes that make a table's rows at a position."""

    base: TableRecord  # its rows in the snapshot at position `since`
    catalog: FileRecord
    since: int
    begun: datetime  # when the snapshot was taken
    upto: int  # what of the changes counts: those of transactions that commit before this position
    as_of: datetime  # when `upto` was reached
    changes: tuple[TableRecord, ...] = ()  # those since the snapshot; they may hold more than counts
    stale: str = ""  # why the rows are those of an earlier position than the target's; "" where they are exact

    @property
    def why_unfit(self) -> str:
        """Return the reason why these rows do not fit the table, which then has none."""
        return f"{self.stale}; its rows of {iso(self.as_of)} do not fit what it is here"

    def without_changes(self) -> TableParts:
        return replace(self, changes=(), upto=self.since, as_of=self.begun)


@dataclass(frozen=True)
class RecoveryTarget:
    """Recovery target: all that brings a source to a position, with the transactions that commit before it."""

    source: str
    position: int
    at: datetime  # the time it stands for: for a time that was asked for that time, else when it was reached
    chain: Chain
    full: Placed  # the snapshot to begin with
    schema: Placed  # the block whose schema is that of the position, as nearly as it is known
    sequences: Placed
    """The block that records where sequences stood, never earlier than at the position, if there is one."""
    approximate: str = ""  # why the schema may differ from that of the position; "" where it does not
    lost: tuple[str, ...] = ()
    """Objects that certainly existed, and have a place in the other schema only, not in the one that is taken."""
    passed: tuple[PassingTable, ...] = ()
    """Tables that may have been there, and were made and dropped between two backups."""
    log_only: tuple[str, ...] = ()  # those of these that are restored, by the log alone
    unproved_names: tuple[str, ...] = ()  # of tables that may have had another one
    # The blocks with the schema before and after the position, where it was changed in between, and it is not known
    # when; None where that is known
    doubt: tuple[Placed, Placed] | None = None
    touches: Touches | None = None
    """Objects changed between these two, with the positions; None if the position of a change is unknown."""
    unfit: Mapping[int, str] = field(default_factory=dict)
    """Tables, by oid, with rows that do not fit the later of these two, which is that of the position."""
    sequences_before: Placed | None = None
    """The last such block before the position; None where `sequences` is of the very position."""
    # The first block behind the position that records a schema, where none is of the very position; what it reads may
    # be missing. None where there is none.
    next_cut: Placed | None = None

    def __str__(self) -> str:
        return f"commit:{self.commit}, lsn:{show_position(self.position)}"

    def by(self, schema: Placed) -> RecoveryTarget:
        """Return the target with one of the schemas in doubt."""
        if self.doubt is None:
            return self
        earlier, later = (iso(placed.head.covers.to_time) for placed in self.doubt)
        taken = earlier if schema is self.doubt[0] else later
        why = f"the schema was changed between {earlier} and {later}, it is not known when"
        if self.unfit:
            why = f"the rows of {named([*self.unfit.values()])} are of {earlier}, and do not fit the schema of {later}"
        return replace(self, schema=schema, approximate=f"{why}: taken is that of {taken}")

    @property
    def is_snapshot(self) -> bool:
        return to_of(self.full.head) == self.position

    @property
    def commit(self) -> int:
        """Return the number of the newest block that it needs."""
        return max(self.full.number, self.schema.number, *(placed.number for placed in self.changes), 0)

    @property
    def changes(self) -> tuple[Placed, ...]:
        since = min(to_of(placed.head) for placed in self._snapshots())
        return self.chain.changes_between(since, self.position)

    def blocks(self) -> tuple[Placed, ...]:
        """Return every block that a restore reads files of."""
        before = (self.sequences_before,) if self.sequences_before else ()
        used = (self.schema, self.sequences, *before, *self._snapshots(), *self.changes)
        return tuple({placed.id: placed for placed in used}.values())

    def tables(self, labels: Mapping[str, str] = _NONE) -> Mapping[str, TableParts]:
        """Return the parts of every table with rows, by table id, which may have a present label."""
        changes, bases = self.changes, self.chain.bases(self.position)
        snapshots = {placed.id: placed for placed in bases.values()}
        load((*snapshots.values(), *changes))
        records = {(placed.id, record.id): record for placed in snapshots.values() for record in placed.block.tables}
        names = names_of(self.chain)
        tables = [
            _Followed.since(
                placed,
                records[placed.id, table],
                (*filter(None, [labels.get(table)]), *names[table]),
                self.position,
                self.at,
            )
            for table, placed in bases.items()
        ]
        # A snapshot of this very position has all rows: a window of changes around it tells what became of them later.
        earlier = (table for table in tables if table.start < self.position)
        waiting = sorted(earlier, key=lambda each: each.start, reverse=True)
        begun: dict[str, _Followed] = {}
        before = None
        for placed in changes:
            block, end = placed.block, to_of(placed.block)
            told_here = _by_table(block)
            concerned = set(told_here)
            while waiting and waiting[-1].start < end:
                each = waiting.pop()
                begun[each.record.id] = each
                concerned.add(each.record.id)
            now = (block.stream.followed, block.stream.not_followed) if block.stream else None
            # What is followed rarely differs from block to block: tables without changes have nothing to learn then.
            for table in concerned & begun.keys() if now == before else begun:
                begun[table].add(block, told_here.get(table, ()))
            before = now
        return {table.record.id: table.parts() for table in tables}

    def _snapshots(self) -> tuple[Placed, ...]:
        bases = self.chain.bases(self.position)
        return tuple({placed.id: placed for placed in bases.values()}.values()) or (self.full,)


def target_at(covered: CoveredRange, source: str, position: int, at: datetime) -> RecoveryTarget:
    """Return the recovery target of a position in a covered range."""
    chain = covered.chain
    full = chain.full_until(position)
    before, after = chain.cut_until(position), chain.cut_after(position)
    if before is None or to_of(before.head) < to_of(full.head):
        before = full
    sequences = chain.sequences_at(position) or before
    is_recorded = sequences.head.is_cut and to_of(sequences.head) == position
    target = RecoveryTarget(
        source,
        position,
        at,
        chain,
        full,
        before,
        sequences,
        sequences_before=None if is_recorded else before,
        next_cut=None if is_recorded else after,
    )
    if after is None and to_of(before.head) < position:
        return replace(
            target,
            approximate="the last backup of changes was ended before it had told the schema: taken is that of "
            f"{iso(before.head.covers.to_time)}",
        )
    if after is None or not _is_behind(before.head, position, at):
        return target
    if after.head.schema_since and parse_position(after.head.schema_since) <= position:
        return replace(target, schema=after)
    between = schema_history.between(chain, before, after)
    if (schema := between.schema_at(position)) is not None:
        return replace(target, schema=schema)
    target = replace(target, passed=between.passed_by(position))
    if not between.differ and between.touches is None:
        return replace(target, approximate=_came_and_went(before.head, after.head))
    in_doubt = replace(target, doubt=(before, after), touches=between.touches)
    return in_doubt.by(after if between.is_changed_by(position) else before)


def _came_and_went(before: Block, after: Block) -> str:
    return (
        f"definitions were changed between {iso(before.covers.to_time)} and {iso(after.covers.to_time)}, and are again "
        "as they were: what was made and dropped in between, such as a table with its rows, is not here"
    )


def _is_behind(cut: Block, position: int, at: datetime) -> bool:
    """Return whether a recovery target is later than a cut, by time where both have one position."""
    return to_of(cut) < position or cut.covers.to_time < at


@dataclass
class _Followed:
    """Table followed from its snapshot on, block by block."""

    record: TableRecord
    names: Collection[str]  # under which the snapshots have it, the newest first
    base: Block
    start: int  # position of the snapshot
    entry: int | None  # of the publication, by which it was followed then; None where it was not
    stale: str
    upto: int  # position up to which it is followed; `as_of`: when that was reached
    as_of: datetime
    changes: list[TableRecord] = field(default_factory=list)

    @classmethod
    def since(cls, base: Placed, record: TableRecord, names: Collection[str], position: int, at: datetime) -> _Followed:
        block, start = base.head, to_of(base.head)
        stale = "" if position == start else why_not_followed(block, record, names)
        upto, as_of = (start, block.covers.to_time) if stale else (position, at)
        return cls(record, names, block, start, _entry(block, record), stale, upto, as_of)

    def add(self, block: Block, records: Sequence[TableRecord]) -> None:
        if self.stale:
            return
        now = _entry(block, self.record)
        if now is None or now != self.entry:
            self.stale = why_not_followed(block, self.record, self.names)
            reached = max(self.base.covers.to_time, block.covers.from_time)
            self.upto, self.as_of = max(self.start, from_of(block)), reached
            return
        if records and not (self.changes and self.changes[-1] is records[-1]):  # as parts of one block tell the same
            self.changes += records

    def parts(self) -> TableParts:
        return TableParts(
            base=self.record,
            catalog=self.base.catalog,
            since=self.start,
            begun=self.base.covers.to_time,
            upto=self.upto,
            as_of=self.as_of,
            changes=tuple(self.changes),
            stale=self.stale,
        )


def _entry(block: Block, record: TableRecord) -> int | None:
    return block.stream.followed.get(int(record.id)) if block.stream else None


def _by_table(block: Block) -> Mapping[str, Sequence[TableRecord]]:
    """Return a block's records by table id, one for each form of a table."""
    records: dict[str, list[TableRecord]] = {}
    for record in block.tables:
        records.setdefault(record.id, []).append(record)
    return records


def names_of(chain: Chain) -> Mapping[str, Collection[str]]:
    """Return the names of each table in a chain's snapshots, by its id, the newest first."""
    names: dict[str, dict[str, None]] = {}
    for placed in reversed(chain.snapshots):
        for record in placed.head.tables:
            names.setdefault(record.id, {})[record.label] = None
    return names


def why_left(stream: Stream, names: Collection[str]) -> str:
    """Return why a stream does not follow a table, of some names, any more."""
    reasons = (stream.not_followed[name] for name in names if name in stream.not_followed)
    return next(reasons, "it is not in the publication any more")


def why_not_followed(block: Block, record: TableRecord, names: Collection[str]) -> str:
    """Return why a block does not follow a table; "" where it does."""
    if block.stream is None:
        return "its changes are not backed up"
    if int(record.id) in block.stream.followed and record.label not in block.stream.not_followed:
        return "" if block.kind == "snapshot" else "it left the publication and was added to it again"
    return why_left(block.stream, names)
