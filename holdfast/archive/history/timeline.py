"""Timeline of a source: its blocks in the order of its log.

It shows the snapshots that changes can be joined to, and up to where. A chain is a run of change blocks without a hole,
with the snapshots that fall into it: each of its positions from the first snapshot on can be restored. A snapshot that
no changes are joined to is a chain of its own. Tables whose changes are here from their first row on need no snapshot:
that they were empty stands for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.archive.format.block_ref import Beginning, JoinedPart, Placed, load
from holdfast.archive.format.document import iso
from holdfast.archive.history.table_bases import Live
from holdfast.common.lsn import parse_position, show_position
from holdfast.common.words import named

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import Block, Stream
    from holdfast.archive.format.document import FileRecord, TableRecord
    from holdfast.archive.format.state import State
    from holdfast.archive.history.schema_history import PassingTable
    from holdfast.common.lsn import Touches

_NONE: Mapping[str, str] = MappingProxyType({})


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
        """Return the position that changes reach without a hole."""
        return to_of(self.changes[-1].head) if self.changes else self.start

    @property
    def full(self) -> tuple[Placed, ...]:
        """Return the snapshots that a restore can begin with.

        Those of single tables that were added later are not among them.
        """
        return tuple(placed for placed in self.snapshots if not placed.head.supplement)

    @property
    def opened(self) -> bool:
        """Return whether a new stream began with the chain."""
        return any(placed.head.stream is not None and placed.head.stream.opened for placed in self.snapshots)


def to_of(block: Block) -> int:
    """Return the position that a block brings its source to."""
    return parse_position(block.covers.to_position)


def from_of(block: Block) -> int:
    """Return the position that a block's changes begin at."""
    return parse_position(block.covers.from_position or block.covers.to_position)


@dataclass
class _Growing:
    start: int
    gap: str = ""
    snapshots: list[Placed] = field(default_factory=list)
    changes: list[Placed] = field(default_factory=list)

    @property
    def end(self) -> int:
        return to_of(self.changes[-1].head) if self.changes else self.start

    def chain(self) -> Chain:
        ordered = sorted(self.snapshots, key=lambda each: (to_of(each.head), each.begins))
        return Chain(self.start, tuple(ordered), tuple(self.changes), self.gap)


def told(state: State, source: str) -> tuple[Placed, ...]:
    """Return a source's blocks in the order they were made.

    Of one commit, changes come first. A block that stands for several is given as these, each with the tables and
    transactions of all; a snapshot that was made of what was here follows the backup whose end it is.
    """
    found: list[tuple[int, bool, bool, Placed]] = []
    for placed in state.blocks.values():
        if placed.source != source:
            continue
        head = placed.head
        for part in head.parts:
            found.append((part.commit, False, False, Placed(JoinedPart(placed, part.block), part.commit, placed.id)))
        if not head.parts:
            number = placed.number if head.after is None else head.after
            found.append((number, head.after is not None, head.kind == "snapshot", placed))
    return tuple(placed for *_, placed in sorted(found, key=lambda each: each[:3]))


def chains(state: State, source: str) -> tuple[Chain, ...]:
    """Return a source's chains, in the order they were begun."""
    found: list[_Growing] = []
    stream: _Growing | None = None
    for placed in told(state, source):
        block = placed.head
        if block.kind == "changes":
            if stream is None or stream.end != from_of(block):
                stream = _Growing(from_of(block), block.gap)
                found.append(stream)
            stream.changes.append(placed)
            if block.stream is not None and block.stream.born:
                stream.snapshots.append(Placed(Beginning(placed), placed.number, placed.home or placed.id))
            continue
        if block.stream is None or not block.covers.exact:
            found.append(_Growing(to_of(block), block.gap, [placed]))
            continue
        # Where blocks in between were removed, the changes that come next are joined to this one, and not to those:
        # these may even be of a server that this one took the place of, and of greater positions.
        position = parse_position(block.stream.position)
        if block.stream.opened or stream is None or stream.end != position:
            stream = _Growing(position, block.gap)
            found.append(stream)
        stream.snapshots.append(placed)
    return tuple(each.chain() for each in found)


def stream_tip(state: State, source: str) -> Placed | None:
    """Return the block that a source's next changes follow on.

    It has the newest changes, or began the stream. It has to stay, whatever is removed: what was followed up to here,
    and in which form, is known from it.
    """
    found = [placed for placed in told(state, source) if placed.head.stream]
    tips = [each for each in found if each.head.kind == "changes" or (each.head.stream and each.head.stream.opened)]
    return max(tips, key=lambda each: each.number, default=None)


@dataclass(frozen=True)
class TableParts:
    """Snapshot and changes that make a table's rows at a position.

    :param base: its rows in the snapshot at position `since`.
    :param begun: when the snapshot was taken.
    :param upto: what of the changes counts: those of transactions that commit before this position.
    :param as_of: when `upto` was reached.
    :param changes: those since the snapshot; they may hold more than counts.
    :param stale: why the rows are those of an earlier position than the moment's; "" where they are exact.
    :param catalog: the record of the objects in the snapshot.
    """

    base: TableRecord
    catalog: FileRecord
    since: int
    begun: datetime
    upto: int
    as_of: datetime
    changes: tuple[TableRecord, ...] = ()
    stale: str = ""

    @property
    def why_unfit(self) -> str:
        """Return the reason why these rows do not fit the table.

        The table then has none.
        """
        return f"{self.stale}; its rows of {iso(self.as_of)} do not fit what it is here"

    def without_changes(self) -> TableParts:
        """Return the rows of the snapshot alone."""
        return replace(self, changes=(), upto=self.since, as_of=self.begun)


@dataclass(frozen=True)
class Moment:
    """Recovery target: everything that brings a source to a position.

    It has all transactions whose commit begins before the position, and no other.

    :param at: the moment it stands for: for a time that was asked for that time, else when it was reached.
    :param full: the snapshot to begin with.
    :param schema: the block whose schema is that of the position, as nearly as it is known.
    :param sequences: the block that tells where sequences stood, never earlier than at the position, if there is one.
    :param sequences_before: the last one that told before the position; None where `sequences` tells of the very
        position.
    :param next_cut: the first block behind the position that tells a schema, where none tells of the very position;
        what it reads may be missing. None where there is none.
    :param approximate: why the schema may differ from that of the position; "" where it does not.
    :param lost: what was certainly there, and has no place in the schema that is taken, though it has in the other one.
    :param passed: tables that may have been there, and were made and dropped between two backups.
    :param log_only: those of these that are restored, by what the log alone tells.
    :param unproved_names: of tables that may have had another one.
    :param doubt: the blocks that tell the schema before and after the position, where it was changed in between, and
        it is not known when; None where that is known.
    :param touches: what was touched between these two, and where; None where it is not known of each change.
    :param unfit: tables, by oid, with rows that do not fit the later of these two, which is that of the position.
    """

    source: str
    position: int
    at: datetime
    chain: Chain
    full: Placed
    schema: Placed
    sequences: Placed
    approximate: str = ""
    lost: tuple[str, ...] = ()
    passed: tuple[PassingTable, ...] = ()
    log_only: tuple[str, ...] = ()
    unproved_names: tuple[str, ...] = ()
    doubt: tuple[Placed, Placed] | None = None
    touches: Touches | None = None
    unfit: Mapping[int, str] = field(default_factory=dict)
    sequences_before: Placed | None = None
    next_cut: Placed | None = None

    def __str__(self) -> str:
        return f"commit:{self.commit}, lsn:{show_position(self.position)}"

    def by(self, schema: Placed) -> Moment:
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
        """Return whether the snapshot alone is enough."""
        return to_of(self.full.head) == self.position

    @property
    def commit(self) -> int:
        """Return the number of the newest block that it needs."""
        return max(self.full.number, self.schema.number, *(placed.number for placed in self.changes), 0)

    @property
    def changes(self) -> tuple[Placed, ...]:
        """Return the blocks of changes between the snapshots and the position."""
        since = min(to_of(placed.head) for placed in self._snapshots())
        return tuple(
            placed
            for placed in self.chain.changes
            if from_of(placed.head) < self.position and to_of(placed.head) > since
        )

    def blocks(self) -> tuple[Placed, ...]:
        """Return every block that a restore reads files of."""
        before = (self.sequences_before,) if self.sequences_before else ()
        used = (self.schema, self.sequences, *before, *self._snapshots(), *self.changes)
        return tuple({placed.id: placed for placed in used}.values())

    def tables(self, labels: Mapping[str, str] = _NONE) -> Mapping[str, TableParts]:
        """Return the parts of every table with rows, by table id.

        :param labels: what tables are called here, by their ids, where that is known.
        """
        changes = self.changes
        snapshots = {placed.id: placed for _, placed in self._bases().values()}
        load((*snapshots.values(), *changes))
        records = {(placed.id, record.id): record for placed in snapshots.values() for record in placed.block.tables}
        names = names_of(self.chain)
        found = [
            _Followed.since(
                placed,
                records[placed.id, table],
                (*filter(None, [labels.get(table)]), *names[table]),
                self.position,
                self.at,
            )
            for table, (_, placed) in self._bases().items()
        ]
        # A snapshot of this very position has all rows: a window of changes around it tells what became of them later.
        earlier = (each for each in found if each.start < self.position)
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
        return {table.record.id: table.parts() for table in found}

    def _bases(self) -> Mapping[str, tuple[TableRecord, Placed]]:
        """Return each existing table's newest snapshot, with its block."""
        live = Live()
        for placed in self.chain.snapshots:
            at = to_of(placed.head)
            # Behind the end of the changes there is nothing but the snapshot itself.
            if (at == self.position and not placed.begins) or at < self.position <= self.chain.end:
                live.add(placed)
        return live.tables

    def _snapshots(self) -> tuple[Placed, ...]:
        return tuple({placed.id: placed for _, placed in self._bases().values()}.values()) or (self.full,)


@dataclass
class _Followed:
    """A table followed from its snapshot on, block by block.

    :param names: under which the snapshots have it, the newest first.
    :param start: position of the snapshot.
    :param entry: of the publication, by which it was followed then; None where it was not.
    :param upto: position up to which it is followed; `as_of`: when that was reached.
    """

    record: TableRecord
    names: Collection[str]
    base: Block
    start: int
    entry: int | None
    stale: str
    upto: int
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
    """Return a block's records by table id.

    There is one record for each form of a table.
    """
    found: dict[str, list[TableRecord]] = {}
    for record in block.tables:
        found.setdefault(record.id, []).append(record)
    return found


def names_of(chain: Chain) -> Mapping[str, Collection[str]]:
    """Return the names of each table in a chain's snapshots.

    They are given by the table's id, the newest first.
    """
    found: dict[str, dict[str, None]] = {}
    for placed in reversed(chain.snapshots):
        for record in placed.head.tables:
            found.setdefault(record.id, {})[record.label] = None
    return found


def why_left(stream: Stream, names: Collection[str]) -> str:
    """Return why a table is not followed any more.

    It is the reason that the stream records. The table may have been renamed since its snapshot.

    :param names: of it, as `names_of` returns them.
    """
    told = (stream.not_followed[name] for name in names if name in stream.not_followed)
    return next(told, "it is not in the publication any more")


def why_not_followed(block: Block, record: TableRecord, names: Collection[str]) -> str:
    """Return why a block does not follow a table; "" where it does."""
    if block.stream is None:
        return "its changes are not backed up"
    if int(record.id) in block.stream.followed and record.label not in block.stream.not_followed:
        return "" if block.kind == "snapshot" else "it left the publication and was added to it again"
    return why_left(block.stream, names)
