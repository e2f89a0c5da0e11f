"""Coverage of a source: the positions that can be restored, and the blocks that each of them needs.

A chain is a run of change blocks without a hole, with the snapshots that fall into it: each of its positions from the
first full snapshot on is covered. A snapshot that no changes are joined to is a chain of its own. Tables whose changes
are here from their first row on need no snapshot: that they were empty stands for one.

A position needs the newest snapshot of each of its tables, the changes since, and the blocks that record its schema and
its sequences. `Chain` answers this both ways: which blocks a position needs, and which positions need a block.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.archive.format.block_ref import Beginning, JoinedPart, Placed
from holdfast.archive.format.document import iso
from holdfast.archive.history.table_bases import TableBases
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.state import State

_T = TypeVar("_T")

_BEHIND_ALL: Final = 1 << 64  # behind every position

Positions = tuple[int, int]  # positions from the first one up to the second, without it


def to_of(block: Block) -> int:
    return parse_position(block.covers.to_position)


def from_of(block: Block) -> int:
    return parse_position(block.covers.from_position or block.covers.to_position)


@dataclass(frozen=True)
class _Base:
    """Snapshot with the newest rows of a table, for the positions from `first` up to `end`, without it."""

    first: int
    end: int
    placed: Placed


@dataclass(frozen=True)
class Chain:
    """Snapshots and the changes that follow them, each in the order of positions."""

    start: int  # from this position on no change is missing
    snapshots: tuple[Placed, ...] = ()
    changes: tuple[Placed, ...] = ()
    gap: str = ""  # why nothing before is joined to it

    @property
    def end(self) -> int:
        """Return the position that changes reach without a hole."""
        return to_of(self.changes[-1].head) if self.changes else self.start

    @cached_property
    def full(self) -> tuple[Placed, ...]:
        """Return the snapshots that a restore can begin with: not those of tables added later."""
        return tuple(placed for placed in self.snapshots if not placed.head.supplement)

    @property
    def opened(self) -> bool:
        """Return whether a new stream began with the chain."""
        return any(placed.head.stream is not None and placed.head.stream.opened for placed in self.snapshots)

    @cached_property
    def cuts(self) -> tuple[Placed, ...]:
        """Return the blocks that record a schema, in order of position."""
        cuts = (placed for placed in (*self.snapshots, *self.changes) if placed.head.is_cut)
        return tuple(sorted(cuts, key=lambda placed: (_to(placed), placed.number)))

    def cut_until(self, position: int) -> Placed | None:
        """Return the newest cut at or before a position, or None."""
        number = bisect_right(self._cut_ends, position)
        return self.cuts[number - 1] if number else None

    def cut_after(self, position: int) -> Placed | None:
        """Return the first cut behind a position, or None."""
        return _at(self.cuts, bisect_right(self._cut_ends, position))

    def full_until(self, position: int) -> Placed:
        """Return the full snapshot that a restore of a covered position begins with."""
        return self.full[bisect_right(self.full, position, key=_to) - 1]

    def sequences_at(self, position: int) -> Placed | None:
        """Return the first block with sequence values from a position on, best one of its own end."""
        return _at(self._with_sequences, bisect_left(self._sequence_ends, position))

    def bases(self, position: int) -> Mapping[str, Placed]:
        """Return the newest snapshot of each table at a covered position, by table id."""
        bases: dict[str, Placed] = {}
        for table, some in self._bases.items():
            number = bisect_right(some, position, key=lambda base: base.first) - 1
            if number >= 0 and position < some[number].end:
                bases[table] = some[number].placed
        return bases

    def changes_between(self, start: int, position: int) -> tuple[Placed, ...]:
        """Return the changes that lead from one position to another; none where both are the same."""
        if start == position:
            return ()
        return self.changes[bisect_right(self.changes, start, key=_to) : bisect_left(self.changes, position, key=_from)]

    def needed(self, kept: Collection[tuple[int, int | None]]) -> set[str]:
        """Return the ids of the blocks that some covered positions need.

        Besides what their restore reads, these are the changes that join it: without them it would be in two chains.

        :param kept: first and last positions. Without a last one, all behind are kept, and what will be joined to them.
        """
        blocks: list[Placed] = []
        snapshots: list[Positions] = []
        changes: list[Positions] = []
        firsts = [_to(placed) + placed.begins for placed in self.snapshots]
        closed = {(low, high) for low, high in kept if high is not None}
        for low, high in closed:
            if low > self.end or not self.changes:
                snapshots.append((bisect_left(firsts, low), bisect_right(firsts, high)))
                continue
            bases = (self.full_until(low), *self.bases(low).values())
            blocks += bases
            first, end = self._joined_to(bases), bisect_right(self.changes, high, key=_to)
            if low < high or any(_to(placed) < low for placed in bases):
                snapshots.append((bisect_right(firsts, low), bisect_right(firsts, high)))
                records = [placed for placed in (self.cut_after(high - 1), self.sequences_at(high)) if placed]
                blocks += (placed for placed in records if placed.head.kind == "snapshot")
                recorded = max(high, *map(_joined_at, records)) if records else high
                end = max(end, bisect_left(self.changes, recorded, key=_from))
            changes.append((first, end))
        open_from = min((low for low, high in kept if high is None), default=None)
        if open_from is not None:
            count, live = bisect_right(firsts, open_from), TableBases()
            for placed in self.snapshots[:count]:
                live.add(placed)
            bases = (self.full_until(open_from), *live.blocks())
            blocks += (*bases, *self.snapshots[count:], *self.changes[self._joined_to(bases) :])
        for some, slices in ((self.snapshots, snapshots), (self.changes, changes)):
            blocks += (placed for first, end in union(slices) for placed in some[first:end])
        return {placed.home or placed.id for placed in blocks}

    def _joined_to(self, bases: Sequence[Placed]) -> int:
        """Return the number of the first change that snapshots are joined to.

        Backups of a quiet source begin and end at one position: they say until when nothing came.
        """
        start = min(map(_joined_at, bases))
        return min(bisect_left(self.changes, start, key=_from), bisect_right(self.changes, start, key=_to))

    def needing_rows(self, placed: Placed, table: str) -> Iterator[Positions]:
        """Yield the positions that need a table's rows, or its changes, in a block."""
        some = self._bases.get(table, ())
        if placed.head.kind == "snapshot":
            yield from ((base.first, base.end) for base in some if base.placed is placed)
            return
        first, end = _from(placed) + 1, _to(placed)
        number = bisect_left(some, end, key=lambda base: to_of(base.placed.head))
        while number and some[number - 1].end > first:
            number -= 1
            yield max(first, some[number].first), some[number].end

    def needing_schema(self, placed: Placed) -> Iterator[Positions]:
        """Yield the positions that need the schema in a block."""
        end = _to(placed)
        # A cut may tell where sequences stood before it, and is taken where the schema is approximate.
        if placed.head.is_cut:
            number = bisect_left(self._cut_ends, end)
            yield self._cut_ends[number - 1] + 1 if number else 1, self._next_cut(end)
        if placed.head.kind == "snapshot":  # its rows are read by it, also where a later schema is known
            for record in placed.head.tables:
                yield from self.needing_rows(placed, record.id)

    def needing_sequences(self, placed: Placed) -> Positions:
        """Return the positions that need a block's sequence values; a cut's are compared with the next's."""
        end = _to(placed)
        number = bisect_left(self._sequence_ends, end)
        first = self._sequence_ends[number - 1] + 1 if number else 1
        return first, self._next_cut(end) if placed.head.is_cut else end + 1

    def _next_cut(self, position: int) -> int:
        return _at(self._cut_ends, bisect_right(self._cut_ends, position)) or _BEHIND_ALL

    @cached_property
    def _bases(self) -> Mapping[str, Sequence[_Base]]:
        bases: dict[str, list[_Base]] = {}
        newest: dict[str, tuple[int, Placed]] = {}
        live = TableBases()
        behind = self.end + 1  # the positions that the snapshots so far lead to
        for placed in self.snapshots:
            position = _to(placed)
            if position >= behind:
                _end(bases, newest, newest.keys(), behind)
                live, behind = TableBases(), position + 1
            live.add(placed)
            tables = {record.id for record in placed.head.tables}
            if not placed.head.supplement:
                tables |= newest.keys()
            _end(bases, newest, tables, position + placed.begins)
            now = live.tables
            newest |= {table: (position + placed.begins, now[table][1]) for table in tables & now.keys()}
        _end(bases, newest, newest.keys(), behind)
        return bases

    @cached_property
    def _cut_ends(self) -> list[int]:
        return [*map(_to, self.cuts)]

    @cached_property
    def _sequence_ends(self) -> list[int]:
        return [*map(_to, self._with_sequences)]

    @cached_property
    def _with_sequences(self) -> tuple[Placed, ...]:
        blocks = (placed for placed in (*self.snapshots, *self.changes) if placed.head.is_cut or placed.head.sequences)
        return tuple(sorted(blocks, key=lambda placed: (to_of(placed.head), not placed.head.is_cut, placed.number)))


def _joined_at(placed: Placed) -> int:
    stream = placed.head.stream if placed.head.kind == "snapshot" else None
    return min(_to(placed), parse_position(stream.position)) if stream else _to(placed)


def _end(bases: dict[str, list[_Base]], newest: dict[str, tuple[int, Placed]], tables: Iterable[str], end: int) -> None:
    for table in [*tables]:
        first, placed = newest.pop(table, (end, None))
        if placed is not None and first < end:
            bases.setdefault(table, []).append(_Base(first, end, placed))


def _to(placed: Placed) -> int:
    return to_of(placed.head)


def _from(placed: Placed) -> int:
    return from_of(placed.head)


def _at(some: Sequence[_T], number: int) -> _T | None:
    return some[number] if number < len(some) else None


def union(ranges: Iterable[Positions]) -> Iterator[Positions]:
    """Yield ranges in order; those that overlap or touch are one."""
    now: Positions | None = None
    for first, end in sorted(ranges):
        if now is not None and first <= now[1]:
            now = now[0], max(now[1], end)
            continue
        if now is not None:
            yield now
        now = first, end
    if now is not None:
        yield now


def blocks_of(state: State, source: str) -> tuple[Placed, ...]:
    """Return a source's blocks in the order they were made; of one commit, changes first.

    A block that stands for several is given as these, each with the tables and transactions of all; a snapshot that was
    made of what was here follows the backup whose end it is.
    """
    blocks: list[tuple[int, bool, bool, Placed]] = []
    for placed in state.blocks.values():
        if placed.source != source:
            continue
        head = placed.head
        for part in head.parts:
            blocks.append((part.commit, False, False, Placed(JoinedPart(placed, part.block), part.commit, placed.id)))
        if not head.parts:
            number = placed.number if head.after is None else head.after
            blocks.append((number, head.after is not None, head.kind == "snapshot", placed))
    return tuple(placed for *_, placed in sorted(blocks, key=lambda block: block[:3]))


@dataclass
class _Growing:
    start: int
    gap: str
    snapshots: list[Placed] = field(default_factory=list)
    changes: list[Placed] = field(default_factory=list)

    @property
    def end(self) -> int:
        return to_of(self.changes[-1].head) if self.changes else self.start

    def chain(self) -> Chain:
        ordered = sorted(self.snapshots, key=lambda placed: (to_of(placed.head), placed.begins))
        return Chain(self.start, tuple(ordered), tuple(self.changes), self.gap)


def chains(state: State, source: str) -> tuple[Chain, ...]:
    """Return a source's chains, in the order they were begun."""
    growing: list[_Growing] = []
    stream: _Growing | None = None
    for placed in blocks_of(state, source):
        block = placed.head
        if block.kind == "changes":
            if stream is None or stream.end != from_of(block):
                stream = _Growing(from_of(block), block.gap)
                growing.append(stream)
            stream.changes.append(placed)
            if block.stream is not None and block.stream.born:
                stream.snapshots.append(Placed(Beginning(placed), placed.number, placed.home or placed.id))
        elif block.stream is None or not block.covers.exact:
            growing.append(_Growing(to_of(block), block.gap, [placed]))
        else:
            # Where blocks in between were removed, the changes that come next are joined to this one, and not to those:
            # these may even be of a server that this one took the place of, and of greater positions.
            position = parse_position(block.stream.position)
            if block.stream.opened or stream is None or stream.end != position:
                stream = _Growing(position, block.gap)
                growing.append(stream)
            stream.snapshots.append(placed)
    return tuple(each.chain() for each in growing)


def stream_tip(state: State, source: str) -> Placed | None:
    """Return the block that a source's next changes follow on, which has to stay: it tells in which form."""
    blocks = [placed for placed in blocks_of(state, source) if (stream := placed.head.stream)
              and (placed.head.kind == "changes" or stream.opened)]  # fmt: skip
    return max(blocks, key=lambda placed: placed.number, default=None)


@dataclass(frozen=True)
class CoveredRange:
    """Positions of a chain that can be restored, from `first` to `last`; one where both are equal."""

    chain: Chain
    first: int
    last: int
    # start, end: when they were reached
    start: datetime
    end: datetime
    placed: Placed  # the newest block in it

    def __str__(self) -> str:
        return f"{iso(self.end)} (commit:{self.placed.number})"

    @cached_property
    def whole(self) -> bool:
        """Return whether it has the whole source, not only chosen tables."""
        return any(placed.head.whole for placed in self.snapshots)

    @cached_property
    def snapshots(self) -> tuple[Placed, ...]:
        """Return its snapshots that a restore can begin with."""
        return tuple(filter(self._has_end_of, self.chain.full))

    @cached_property
    def changes(self) -> tuple[Placed, ...]:
        """Return the blocks of changes that end in it."""
        return tuple(filter(self._has_end_of, self.chain.changes))

    def _has_end_of(self, placed: Placed) -> bool:
        return self.first <= to_of(placed.head) <= self.last

    def reached_at(self, position: int) -> datetime:
        """Return the latest time when a position was reached."""
        for placed in (*self.snapshots, *self.chain.changes):
            if to_of(placed.head) == position:
                return placed.head.covers.to_time
        later = (placed.head.covers.to_time for placed in self.chain.changes if to_of(placed.head) >= position)
        return next(later, self.end)


def covered_ranges(state: State, source: str) -> tuple[CoveredRange, ...]:
    """Return what of a source can be restored, in order of time."""
    ranges = [covered for chain in chains(state, source) for covered in _covered_by(chain)]
    return tuple(sorted(ranges, key=lambda covered: (covered.end, covered.placed.number)))


def _covered_by(chain: Chain) -> Iterator[CoveredRange]:
    """Yield one range for the changes, and one for each snapshot behind them, to which none are joined yet."""
    alone = chain.full
    if chain.changes:
        joined = [placed for placed in chain.full if to_of(placed.head) <= chain.end]
        alone = chain.full[len(joined) :]
        if joined:
            first, *_, last = (*joined, chain.changes[-1])
            start, end = first.head.covers.to_time, max(last.head.covers.to_time, joined[-1].head.covers.to_time)
            newest = max(joined[-1], last, key=lambda placed: (to_of(placed.head), placed.number))
            yield CoveredRange(chain, to_of(first.head), chain.end, start, end, newest)
    for placed in alone:
        at, position = placed.head.covers.to_time, to_of(placed.head)
        yield CoveredRange(chain, position, position, at, at, placed)


def why_gap(before: CoveredRange, after: CoveredRange, ranges: Sequence[CoveredRange]) -> str:
    """Return why nothing between two neighbours among all ranges of a source can be restored."""
    if after.chain is not before.chain:
        if after.chain.gap:
            return after.chain.gap
        first = after.chain.snapshots[0].head.stream
        if first is not None and not first.opened:  # it was joined to changes when it was made
            return "the backups in between were removed"
        return "no change backup joins these two full backups"
    later = (other.chain for other in ranges if other.placed.number > after.placed.number)
    opened = next((chain for chain in later if chain is not after.chain and chain.opened), None)
    if opened is not None:
        return f"the changes since the first of them were lost before they were backed up: {opened.gap}"
    return "the changes since the first of them are not backed up yet: the next change backup closes it"
