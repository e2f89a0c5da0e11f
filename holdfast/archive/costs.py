"""What damage costs: the restore points that need a file, so that a person knows which are left."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.model import iso
from holdfast.archive.named import TRANSACTIONS
from holdfast.archive.points import intervals
from holdfast.archive.timeline import from_of, to_of
from holdfast.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from holdfast.archive.model import Block, Commit
    from holdfast.archive.named import NamedFile
    from holdfast.archive.placed import Placed
    from holdfast.archive.points import Interval
    from holdfast.archive.state import State

_END: Final = 1 << 64
"""Behind every position."""

Span = tuple[int, int]
"""Positions from the first one up to the second, without it."""


@dataclass(frozen=True)
class Cost:
    """Moments of a source that cannot be restored whole, one after the other.

    :param start, end: the first and the last of them, or what they lie between, where none is a restore point.
    :param first, last: commits of the first and the last restore point among them, 0 where there is none; `points`: how
        many there are.
    """

    source: str
    start: datetime
    end: datetime
    first: int
    last: int
    points: int

    def __str__(self) -> str:
        if not self.points:
            return f"{self.source} between {iso(self.start)} and {iso(self.end)}, but no end of a backup"
        if self.start == self.end:
            return f"{self.source} at {iso(self.end)} (commit:{self.last})"
        commits = f"commit:{self.first}" + (f" to commit:{self.last}" if self.first != self.last else "")
        return f"{self.source} from {iso(self.start)} to {iso(self.end)} ({commits})"

    def describe(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {
            "source": self.source,
            "from": iso(self.start),
            "to": iso(self.end),
            "first": f"commit:{self.first}" if self.points else None,
            "last": f"commit:{self.last}" if self.points else None,
            "points": self.points,
        }


class Costs:
    """Finds what needs a file, in one state of an archive."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sources: dict[str, tuple[_Stretch, ...]] = {}

    def of(self, file: NamedFile) -> tuple[Cost, ...]:
        """Return what cannot be restored whole without a file."""
        return self._over(file.source, lambda stretch: stretch.spans_of_file(file))

    def of_commit(self, source: str, commit: int) -> tuple[Cost, ...]:
        """Return what cannot be restored whole without the blocks of one source that a commit added."""
        blocks = {placed.id for placed in self._state.blocks.values() if placed.commit == commit}
        return self._over(source, lambda stretch: stretch.spans_of_blocks(blocks))

    def behind(self, commits: Iterable[Commit]) -> tuple[Cost, ...]:
        """Return what was backed up in commits behind a state that damage cuts off: nothing of it can be restored."""
        blocks: dict[str, list[tuple[int, Block]]] = {}
        for commit in commits:
            for block in commit.add:
                if not block.parts and block.after is None:
                    blocks.setdefault(block.source.name, []).append((commit.sequence, block))
        return tuple(self._since(source, found) for source, found in sorted(blocks.items()))

    def _since(self, source: str, blocks: Sequence[tuple[int, Block]]) -> Cost:
        numbers, times = [number for number, _ in blocks], [block.covers.to_time for _, block in blocks]
        here = [each.end for each in intervals(self._state, source)]
        return Cost(source, max(here, default=min(times)), max(times), numbers[0], numbers[-1], len(blocks))

    def _over(self, source: str, spans_in: Callable[[_Stretch], Iterable[Span]]) -> tuple[Cost, ...]:
        if source not in self._sources:
            self._sources[source] = tuple(_Stretch(source, each) for each in intervals(self._state, source))
        found = (stretch.cost(spans_in(stretch)) for stretch in self._sources[source])
        return tuple(cost for cost in found if cost)


def _before(positions: Sequence[int], end: int) -> int:
    """Return the last of some positions that is before another one; 0 where there is none."""
    return max((each for each in positions if each < end), default=0)


def _tables_in(placed: Placed, file: NamedFile) -> tuple[str, ...]:
    """Return the ids of a block's tables that have rows in a file.

    It is the block's own, or, where that was made of others, one of theirs.
    """
    home = placed.home or placed.id
    if home == file.block or home in file.path.split("/"):
        return file.tables
    if placed.head.after is None:
        return ()
    with suppress(DamagedError):
        return tuple(table.id for table in placed.block.tables if any(each.key == file.path for each in table.files))
    return ()


class _Stretch:
    """One restorable interval, and what of its chain is needed for which of its positions."""

    def __init__(self, source: str, interval: Interval) -> None:
        self._source = source
        self._interval = interval
        self._chain = interval.chain

    @cached_property
    def _blocks(self) -> tuple[Placed, ...]:
        """Those that files are read of. Behind the end of the changes there is nothing but the snapshot itself."""
        interval, chain = self._interval, self._chain
        if interval.first == interval.last and (not chain.changes or interval.first > chain.end):
            return tuple(placed for placed in chain.snapshots if to_of(placed.head) == interval.first)
        return (*(placed for placed in chain.snapshots if not placed.begins), *chain.changes)

    @cached_property
    def _cuts(self) -> list[int]:
        """Positions whose schema is told, in order."""
        return sorted({to_of(placed.head) for placed in self._blocks if placed.head.is_cut})

    @cached_property
    def _telling(self) -> list[int]:
        """Positions where it is told how far sequences were, in order."""
        telling = (placed.head for placed in self._blocks if placed.head.is_cut or placed.head.sequences)
        return sorted(set(map(to_of, telling)))

    def spans_of_file(self, file: NamedFile) -> Iterator[Span]:
        for placed in self._blocks:
            if file.holds == TRANSACTIONS:
                yield from self._times(placed, file.path)
            elif file.tables:
                yield from (self._data(placed, table) for table in _tables_in(placed, file))
            else:
                yield from self._schema(placed, file.path)

    def spans_of_blocks(self, ids: set[str]) -> Iterator[Span]:
        for placed in self._blocks:
            if (placed.home or placed.id) in ids:
                for table in {record.id for record in placed.head.tables} or {""}:
                    yield self._data(placed, table)

    def _data(self, placed: Placed, table: str) -> Span:
        """Return for which positions the rows or changes of a table in a block are needed; "" for those of none."""
        end = to_of(placed.head)
        if placed.head.kind == "snapshot":
            return end, self._next_snapshot(table, end + 1)
        return from_of(placed.head) + 1, self._next_snapshot(table, end) if table else end + 1

    @staticmethod
    def _times(placed: Placed, path: str) -> Iterator[Span]:
        """Yield for which positions a list of transactions is needed: those that only a time leads to."""
        listed = placed.head.transactions
        if listed is not None and listed.file.path == path:
            yield from_of(placed.head) + 1, to_of(placed.head)

    def _next_snapshot(self, table: str, position: int) -> int:
        """Return where the first snapshot of a table is, from a position on."""
        for placed in self._chain.snapshots:  # in order of positions
            if to_of(placed.head) >= position and any(record.id == table for record in placed.head.tables):
                return to_of(placed.head)
        return _END

    def _schema(self, placed: Placed, path: str) -> Iterator[Span]:
        """Yield for which positions a file that describes the schema is needed, as this block names it."""
        head, end = placed.head, to_of(placed.head)
        if path in {file.path for file in (head.catalog, head.schema_dump) if file}:
            if head.is_cut:  # it may tell where sequences stood before it, and is taken where the schema is approximate
                yield _before(self._cuts, end) + 1, next((cut for cut in self._cuts if cut > end), _END)
            if head.kind == "snapshot":  # its rows are read by it, also where a later schema is known
                yield end, max((self._next_snapshot(each.id, end + 1) for each in head.tables), default=end + 1)
        if head.sequences is not None and path == head.sequences.path:
            yield _before(self._telling, end) + 1, end + 1
            if head.is_cut and end == self._cuts[-1]:  # behind all that tells of sequences, the last cut has to do
                yield self._telling[-1] + 1, _END

    def cost(self, spans: Iterable[Span]) -> Cost | None:
        interval = self._interval
        clipped = [
            (max(first, interval.first), min(end - 1, interval.last))
            for first, end in spans
            if first <= interval.last and end > interval.first
        ]
        if not clipped:
            return None
        every = sorted(
            (to_of(placed.head), placed.number, placed.head.covers.from_time, placed.head.covers.to_time)
            for placed in self._blocks
            if not placed.head.supplement
        )
        points = [point for point in every if any(first <= point[0] <= last for first, last in clipped)]
        begin, last = min(first for first, _ in clipped), max(last for _, last in clipped)
        if not points:
            before = max((when for position, *_, when in every if position < begin), default=interval.start)
            after = min((when for position, *_, when in every if position > last), default=interval.end)
            return Cost(self._source, before, after, 0, 0, points=0)
        start = points[0][3] if begin == points[0][0] else max(points[0][2], interval.start)
        end = max(when for *_, when in points)
        return Cost(self._source, start, end, points[0][1], points[-1][1], len({commit for _, commit, *_ in points}))
