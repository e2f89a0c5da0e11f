"""Damage report: the restore points that need a damaged file."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from holdfast.archive.files.file_index import TRANSACTIONS
from holdfast.archive.format.document import iso
from holdfast.archive.history.coverage import covered_ranges, from_of, to_of, union
from holdfast.common.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from holdfast.archive.files.file_index import NamedFile
    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import Chain, CoveredRange, Positions

_UNTIL: Callable[[tuple[int, int, datetime, datetime]], datetime] = itemgetter(3)


@dataclass(frozen=True)
class LostRange:
    """Consecutive recovery targets of one source that cannot be restored whole."""

    source: str
    # start, end: the first and the last of them, or what they lie between, where none is a restore point
    start: datetime
    end: datetime
    # first, last: commits of the first and the last restore point among them, 0 where there is none; `points`: how many
    # there are
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
        return {
            "source": self.source,
            "from": iso(self.start),
            "to": iso(self.end),
            "first": f"commit:{self.first}" if self.points else None,
            "last": f"commit:{self.last}" if self.points else None,
            "points": self.points,
        }


class DamageReport:
    """Finder of the recovery targets that need a file, in one state of an archive."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sources: dict[str, _Source] = {}

    def of(self, file: NamedFile) -> tuple[LostRange, ...]:
        return self._source(file.source).without_file(file)

    def of_commit(self, source: str, commit: int) -> tuple[LostRange, ...]:
        """Return the recovery targets that need one source's blocks of a commit."""
        blocks = [placed.id for placed in self._state.blocks.values() if placed.commit == commit]
        return self._source(source).without_blocks(blocks)

    def behind(self, commits: Iterable[ArchiveCommit]) -> tuple[LostRange, ...]:
        """Return the recovery targets in commits behind a state that damage cuts off: all of them."""
        blocks: dict[str, list[tuple[int, Block]]] = {}
        for commit in commits:
            for block in commit.add:
                if not block.parts and block.after is None:
                    blocks.setdefault(block.source.name, []).append((commit.sequence, block))
        return tuple(self._since(source, some) for source, some in sorted(blocks.items()))

    def _since(self, source: str, blocks: Sequence[tuple[int, Block]]) -> LostRange:
        numbers, times = [number for number, _ in blocks], [block.covers.to_time for _, block in blocks]
        newest = max((covered.end for covered in covered_ranges(self._state, source)), default=min(times))
        return LostRange(source, newest, max(times), numbers[0], numbers[-1], len(blocks))

    def _source(self, name: str) -> _Source:
        return self._sources.get(name) or self._sources.setdefault(name, _Source(self._state, name))


class _Source:
    """Blocks of a source by the files that they name, put in order once for any number of files."""

    def __init__(self, state: State, name: str) -> None:
        self._ranges = [_Range(name, covered) for covered in covered_ranges(state, name)]
        self._by_chain: dict[int, list[int]] = {}
        self._by_home: dict[str, list[tuple[Chain, Placed]]] = {}
        self._by_path: dict[str, list[tuple[Chain, Placed]]] = {}
        self._borrowed: dict[str, list[tuple[Chain, Placed, str]]] = {}
        chains = {id(each.covered.chain): each.covered.chain for each in self._ranges}
        for number in sorted(range(len(self._ranges)), key=lambda number: self._ranges[number].covered.first):
            self._by_chain.setdefault(id(self._ranges[number].covered.chain), []).append(number)
        for each in chains.values():
            for placed in (*each.snapshots, *each.changes):
                if not placed.begins:
                    self._add(each, placed)

    def _add(self, chain: Chain, placed: Placed) -> None:
        head = placed.head
        self._by_home.setdefault(placed.home or placed.id, []).append((chain, placed))
        times = head.transactions.file if head.transactions else None
        files = (head.catalog, head.schema_dump, head.sequences, times)
        for path in {file.path for file in files if file is not None}:
            self._by_path.setdefault(path, []).append((chain, placed))
        if head.after is not None:  # made of others: rows that have not changed lie in their files
            with suppress(DamagedError):
                for table in placed.block.tables:
                    for key in {file.key for file in table.files}:
                        self._borrowed.setdefault(key, []).append((chain, placed, table.id))

    def without_file(self, file: NamedFile) -> tuple[LostRange, ...]:
        return self._lost(self._needing_rows(file) if file.tables else self._needing_path(file))

    def without_blocks(self, ids: Iterable[str]) -> tuple[LostRange, ...]:
        return self._lost(
            (chain, positions)
            for identity in ids
            for chain, placed in self._by_home.get(identity, ())
            for positions in _needing_block(chain, placed)
        )

    def _needing_rows(self, file: NamedFile) -> Iterator[tuple[Chain, Positions]]:
        """Yield the positions that need a data file, by its own block or by those made of that."""
        # The block stands in the path, where another one was made of it.
        homes = {file.path, file.block, *file.path.split("/")}
        blocks = [(*each, table) for home in homes for each in self._by_home.get(home, ()) for table in file.tables]
        blocks += (each for each in self._borrowed.get(file.path, ()) if (each[1].home or each[1].id) not in homes)
        for chain, placed, table in blocks:
            yield from ((chain, positions) for positions in chain.needing_rows(placed, table))

    def _needing_path(self, file: NamedFile) -> Iterator[tuple[Chain, Positions]]:
        """Yield the positions that need a file with a schema, sequence values or times of transactions."""
        for chain, placed in self._by_path.get(file.path, ()):
            head = placed.head
            if file.holds == TRANSACTIONS:  # needed where only a time leads to
                yield chain, (from_of(head) + 1, to_of(head))
                continue
            if file.path in {each.path for each in (head.catalog, head.schema_dump) if each}:
                yield from ((chain, positions) for positions in chain.needing_schema(placed))
            if head.sequences is not None and file.path == head.sequences.path:
                yield chain, chain.needing_sequences(placed)

    def _lost(self, needing: Iterable[tuple[Chain, Positions]]) -> tuple[LostRange, ...]:
        by_chain: dict[int, list[Positions]] = {}
        for chain, positions in needing:
            by_chain.setdefault(id(chain), []).append(positions)
        lost: dict[int, list[Positions]] = {}
        for identity, some in by_chain.items():
            numbers = self._by_chain[identity]
            for first, end in union(some):
                start = bisect_left(numbers, first, key=lambda number: self._ranges[number].covered.last)
                for number in numbers[start:]:
                    covered = self._ranges[number].covered
                    if covered.first >= end:
                        break
                    lost.setdefault(number, []).append((max(first, covered.first), min(end, covered.last + 1)))
        return tuple(self._ranges[number].lost(some) for number, some in sorted(lost.items()))


def _needing_block(chain: Chain, placed: Placed) -> Iterator[Positions]:
    end = to_of(placed.head)
    if placed.head.kind == "changes":
        yield from_of(placed.head) + 1, end + 1
    elif not placed.head.supplement:  # restores begin with it, also where it has no table
        later = (to_of(full.head) for full in chain.full if to_of(full.head) > end)
        yield end, next(later, max(end, chain.end) + 1)
    for record in placed.head.tables:
        yield from chain.needing_rows(placed, record.id)


class _Range:
    def __init__(self, source: str, covered: CoveredRange) -> None:
        self._source = source
        self.covered = covered

    @cached_property
    def _points(self) -> list[tuple[int, int, datetime, datetime]]:
        """Return its restore points, in order: position, number, and the times between which it was reached."""
        blocks = (*self.covered.snapshots, *self.covered.changes)
        return sorted(
            (to_of(placed.head), placed.number, placed.head.covers.from_time, placed.head.covers.to_time)
            for placed in blocks
        )

    @cached_property
    def _numbers(self) -> list[int]:
        return [number for _, number, *_ in self._points]

    @cached_property
    def _latest_so_far(self) -> list[datetime]:
        return list(itertools.accumulate(map(_UNTIL, self._points), max))

    def lost(self, positions: Sequence[Positions]) -> LostRange:
        """Return what is lost with some positions, which are in order and apart."""
        slices = [(self._place(first), self._place(end)) for first, end in positions]
        some = [(first, end) for first, end in slices if first < end]
        begin, end = positions[0][0], positions[-1][1]
        if some:
            at, number, began, reached = self._points[some[0][0]]
            start = reached if begin == at else max(began, self.covered.start)
            until = max(self._latest(*each) for each in some)
            numbers = set(itertools.chain.from_iterable(self._numbers[slice(*each)] for each in some))
            return LostRange(self._source, start, until, number, self._numbers[some[-1][1] - 1], len(numbers))
        since = max(map(_UNTIL, self._points[: self._place(begin)]), default=self.covered.start)
        until = min(map(_UNTIL, self._points[self._place(end) :]), default=self.covered.end)
        return LostRange(self._source, since, until, 0, 0, points=0)

    def _latest(self, first: int, end: int) -> datetime:
        """Return the latest time of some neighbouring restore points, nearly always the last one's."""
        so_far = self._latest_so_far
        if first == 0 or so_far[end - 1] > so_far[first - 1]:
            return so_far[end - 1]
        return max(map(_UNTIL, self._points[first:end]))

    def _place(self, position: int) -> int:
        return bisect_left(self._points, (position,))
