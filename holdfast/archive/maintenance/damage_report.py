"""Restore points lost to damage: those that need a damaged file.

By them a person knows which are left.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.archive.files.file_index import TRANSACTIONS
from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import intervals
from holdfast.archive.history.timeline import from_of, to_of
from holdfast.common.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.files.file_index import NamedFile
    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.archive.history.restore_points import Interval

_T = TypeVar("_T")

_END: Final = 1 << 64
"""Behind every position."""

Span = tuple[int, int]
"""Positions from the first one up to the second, without it."""


@dataclass(frozen=True)
class Cost:
    """Consecutive recovery targets that cannot be restored whole.

    They are of one source.

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
    """Finder of the restore points that need a file.

    It works on one state of an archive.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._sources: dict[str, tuple[_Stretch, ...]] = {}
        self._names: dict[str, Mapping[str, Sequence[int]]] = {}

    def of(self, file: NamedFile) -> tuple[Cost, ...]:
        """Return the recovery targets that need a file to be whole."""
        numbers = self._named(file.source)
        some = {number for name in _names_of(file) for number in numbers.get(name, ())}
        found = (self._stretches(file.source)[number] for number in sorted(some))
        return _costs((stretch, stretch.spans_of_file(file)) for stretch in found)

    def of_commit(self, source: str, commit: int) -> tuple[Cost, ...]:
        """Return the recovery targets that need a commit's blocks.

        They cannot be restored whole without those of one source that the commit added.
        """
        blocks = {placed.id for placed in self._state.blocks.values() if placed.commit == commit}
        return _costs((stretch, stretch.spans_of_blocks(blocks)) for stretch in self._stretches(source))

    def behind(self, commits: Iterable[ArchiveCommit]) -> tuple[Cost, ...]:
        """Return the recovery targets in commits after damage.

        The commits are behind a state that damage cuts off: nothing of them can be restored.
        """
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

    def _stretches(self, source: str) -> Sequence[_Stretch]:
        if source not in self._sources:
            self._sources[source] = tuple(_Stretch(source, each) for each in intervals(self._state, source))
        return self._sources[source]

    def _named(self, source: str) -> Mapping[str, Sequence[int]]:
        """Return the stretches by the blocks and paths they need."""
        if source not in self._names:
            stretches = enumerate(self._stretches(source))
            self._names[source] = _grouped((name, number) for number, each in stretches for name in each.names())
        return self._names[source]


def _names_of(file: NamedFile) -> set[str]:
    """Return the names that a file may be known by.

    These are its path, its block, and the parts of its path, where the block stands that it was written for.
    """
    return {file.path, file.block, *file.path.split("/")}


def _costs(found: Iterable[tuple[_Stretch, Iterable[Span]]]) -> tuple[Cost, ...]:
    return tuple(cost for stretch, spans in found if (cost := stretch.cost(spans)))


class _Stretch:
    """One restorable interval, with the files that its positions need.

    Where all of an archive's files are lost, each of them is asked for: what is looked up is put in order once.
    """

    def __init__(self, source: str, interval: Interval) -> None:
        self._source = source
        self._interval = interval
        self._chain = interval.chain

    @cached_property
    def _blocks(self) -> tuple[Placed, ...]:
        """Return the blocks that files are read of.

        Behind the end of the changes there is nothing but the snapshot itself.
        """
        interval, chain = self._interval, self._chain
        if interval.first == interval.last and (not chain.changes or interval.first > chain.end):
            return tuple(placed for placed in chain.snapshots if to_of(placed.head) == interval.first)
        return (*(placed for placed in chain.snapshots if not placed.begins), *chain.changes)

    @cached_property
    def _cuts(self) -> list[int]:
        """Return the positions with a recorded schema, in order."""
        return sorted({to_of(placed.head) for placed in self._blocks if placed.head.is_cut})

    @cached_property
    def _telling(self) -> list[int]:
        """Return the positions with recorded sequence values, in order."""
        telling = (placed.head for placed in self._blocks if placed.head.is_cut or placed.head.sequences)
        return sorted(set(map(to_of, telling)))

    @cached_property
    def _points(self) -> list[tuple[int, int, datetime, datetime]]:
        """Return its restore points, in order.

        Each has its position, its number, and the times between which it was reached.
        """
        return sorted(
            (to_of(placed.head), placed.number, placed.head.covers.from_time, placed.head.covers.to_time)
            for placed in self._blocks
            if not placed.head.supplement
        )

    @cached_property
    def _by_home(self) -> Mapping[str, Sequence[Placed]]:
        """Return the blocks, by the one with their files in its folder."""
        return _grouped((placed.home or placed.id, placed) for placed in self._blocks)

    @cached_property
    def _lists(self) -> Mapping[str, Sequence[Placed]]:
        """Return the blocks, by the path of their list of transactions."""
        listed = ((placed.head.transactions, placed) for placed in self._blocks)
        return _grouped((each.file.path, placed) for each, placed in listed if each is not None)

    @cached_property
    def _descriptions(self) -> Mapping[str, Sequence[Placed]]:
        """Return the blocks, by the paths of their schema's files."""
        return _grouped((path, placed) for placed in self._blocks for path in _described_in(placed.head))

    @cached_property
    def _borrowed(self) -> Mapping[str, Sequence[tuple[Placed, str]]]:
        """Return the blocks made of others, by the files of their rows.

        Each comes with its table that has rows in the file.
        """
        made = (placed for placed in self._blocks if placed.head.after is not None)
        return _grouped((key, (placed, table)) for placed in made for key, table in _read_by(placed))

    @cached_property
    def _snapshots_of(self) -> Mapping[str, Sequence[int]]:
        """Return the positions of each table's snapshots, in order.

        They are given by the table's id.
        """
        found = ((placed, to_of(placed.head)) for placed in self._chain.snapshots)  # in order of positions
        return _grouped((record.id, at) for placed, at in found for record in placed.head.tables)

    def names(self) -> set[str]:
        """Return the names of the files that it needs."""
        return {*self._by_home, *self._lists, *self._descriptions, *self._borrowed}

    def spans_of_file(self, file: NamedFile) -> Iterator[Span]:
        if file.holds == TRANSACTIONS:
            for placed in self._lists.get(file.path, ()):  # needed where only a time leads to
                yield from_of(placed.head) + 1, to_of(placed.head)
        elif file.tables:
            yield from self._rows(file)
        else:
            for placed in self._descriptions.get(file.path, ()):
                yield from self._schema(placed, file.path)

    def _rows(self, file: NamedFile) -> Iterator[Span]:
        """Yield the positions that need a data file.

        They need it by its own block, or by those made of that.
        """
        homes = _names_of(file)
        for home in homes & self._by_home.keys():
            for placed in self._by_home[home]:
                yield from (self._data(placed, table) for table in file.tables)
        for placed, table in self._borrowed.get(file.path, ()):
            if (placed.home or placed.id) not in homes:
                yield self._data(placed, table)

    def spans_of_blocks(self, ids: set[str]) -> Iterator[Span]:
        for placed in self._blocks:
            if (placed.home or placed.id) in ids:
                for table in {record.id for record in placed.head.tables} or {""}:
                    yield self._data(placed, table)

    def _data(self, placed: Placed, table: str) -> Span:
        """Return the positions that need a table's rows in a block.

        In a block of changes these are its changes; the table "" stands for those of none.
        """
        end = to_of(placed.head)
        if placed.head.kind == "snapshot":
            return end, self._next_snapshot(table, end + 1)
        return from_of(placed.head) + 1, self._next_snapshot(table, end) if table else end + 1

    def _next_snapshot(self, table: str, position: int) -> int:
        """Return the position of a table's next snapshot.

        It may be at the given position itself.
        """
        return _next(self._snapshots_of.get(table, ()), position)

    def _schema(self, placed: Placed, path: str) -> Iterator[Span]:
        """Yield the positions that need a schema file of a block."""
        head, end = placed.head, to_of(placed.head)
        if path in {file.path for file in (head.catalog, head.schema_dump) if file}:
            if head.is_cut:  # it may tell where sequences stood before it, and is taken where the schema is approximate
                yield _before(self._cuts, end) + 1, _next(self._cuts, end + 1)
            if head.kind == "snapshot":  # its rows are read by it, also where a later schema is known
                yield end, max((self._next_snapshot(each.id, end + 1) for each in head.tables), default=end + 1)
        if head.sequences is not None and path == head.sequences.path:
            # What a cut tells is compared with what the next one does.
            yield _before(self._telling, end) + 1, _next(self._cuts, end + 1) if head.is_cut else end + 1

    def cost(self, spans: Iterable[Span]) -> Cost | None:
        interval = self._interval
        clipped = [
            (max(first, interval.first), min(end - 1, interval.last))
            for first, end in spans
            if first <= interval.last and end > interval.first
        ]
        if not clipped:
            return None
        places = [(self._place(first), self._place(last + 1)) for first, last in _apart(clipped)]
        some = [(begin, behind) for begin, behind in places if begin < behind]
        begin, last = min(clipped)[0], max(map(_LAST, clipped))
        if some:
            at, first, began, reached = self._points[some[0][0]]
            start = reached if begin == at else max(began, interval.start)
            end = max(self._latest(*each) for each in some)
            numbers = set(chain.from_iterable(self._numbers[slice(*each)] for each in some))
            return Cost(self._source, start, end, first, self._numbers[some[-1][1] - 1], len(numbers))
        since = max(map(_UNTIL, self._points[: self._place(begin)]), default=interval.start)
        until = min(map(_UNTIL, self._points[self._place(last + 1) :]), default=interval.end)
        return Cost(self._source, since, until, 0, 0, points=0)

    @cached_property
    def _numbers(self) -> list[int]:
        return [number for _, number, *_ in self._points]

    @cached_property
    def _latest_so_far(self) -> list[datetime]:
        return list(accumulate((until for *_, until in self._points), max))

    def _latest(self, begin: int, behind: int) -> datetime:
        """Return the latest time of some neighbouring restore points.

        Nearly always it is that of the last one.
        """
        so_far = self._latest_so_far
        if begin == 0 or so_far[behind - 1] > so_far[begin - 1]:
            return so_far[behind - 1]
        return max(until for *_, until in self._points[begin:behind])

    def _place(self, position: int) -> int:
        """Return how many restore points are before a position."""
        return bisect_left(self._points, (position,))


_UNTIL, _LAST = itemgetter(3), itemgetter(1)


def _described_in(block: Block) -> set[str]:
    """Return the paths of the files that describe a block's schema."""
    return {file.path for file in (block.catalog, block.schema_dump, block.sequences) if file is not None}


def _read_by(placed: Placed) -> Iterator[tuple[str, str]]:
    """Yield a block's data files and tables, in pairs.

    A file is given by its key, once with each table that has rows there. There are none where the block is damaged.
    """
    with suppress(DamagedError):
        for table in placed.block.tables:
            for key in {file.key for file in table.files}:
                yield key, table.id


def _grouped(pairs: Iterable[tuple[str, _T]]) -> Mapping[str, Sequence[_T]]:
    found: dict[str, list[_T]] = {}
    for name, each in pairs:
        found.setdefault(name, []).append(each)
    return found


def _before(positions: Sequence[int], end: int) -> int:
    """Return the last of ordered positions before another, or 0."""
    place = bisect_left(positions, end)
    return positions[place - 1] if place else 0


def _next(positions: Sequence[int], start: int) -> int:
    """Return the first of ordered positions from another one on.

    Where there is none, it is the end of all positions.
    """
    place = bisect_left(positions, start)
    return positions[place] if place < len(positions) else _END


def _apart(spans: Iterable[Span]) -> Iterator[Span]:
    """Join overlapping spans, and yield them in order.

    The ends of these spans are in them.
    """
    now: Span | None = None
    for first, last in sorted(spans):
        if now is not None and first <= now[1]:
            now = now[0], max(now[1], last)
            continue
        if now is not None:
            yield now
        now = first, last
    if now is not None:
        yield now
