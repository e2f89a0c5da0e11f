"""Blocks reachable from a set of restore points.

All others can go. A position needs the newest full snapshot before it, the newest snapshot of each of its tables, the
changes from the oldest of these on, and the blocks that tell its schema and where its sequences stood. What was asked
for is marked as ranges of snapshots and of changes, which are put together in one pass at the end: thousands of
positions cost no more than a few look-ups each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from holdfast.archive.history.table_bases import Live
from holdfast.archive.history.timeline import from_of, to_of
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.history.timeline import Chain


@dataclass(frozen=True)
class _Bases:
    """The snapshots that a position begins with.

    :param start: from here on changes are needed, for the rows and for one position to lead to the next.
    :param alone: all of them are at the position of the newest, which needs no changes.
    """

    snapshots: tuple[Placed, ...]
    start: int
    alone: bool


class _Telling:
    """Blocks that record something of their end, in order of position."""

    def __init__(self, blocks: Iterable[Placed]) -> None:
        self._blocks = sorted(blocks, key=lambda placed: (to_of(placed.head), placed.number))
        self._ends = [to_of(placed.head) for placed in self._blocks]

    def behind(self, position: int) -> Placed | None:
        """Return the first block at or after a position."""
        number = bisect_left(self._ends, position)
        return self._blocks[number] if number < len(self._blocks) else None


class _Marks:
    """Ranges of a sequence that were marked, put together at the end."""

    def __init__(self, length: int) -> None:
        self._steps = [0] * (length + 1)

    def add(self, first: int, end: int) -> None:
        if first < end:
            self._steps[first] += 1
            self._steps[end] -= 1

    def of(self, blocks: Sequence[Placed]) -> Iterator[Placed]:
        return (placed for placed, depth in zip(blocks, accumulate(self._steps), strict=False) if depth)


class Needs:
    """Blocks of one chain that are reachable from kept positions."""

    def __init__(self, chain: Chain) -> None:
        blocks = (*chain.snapshots, *chain.changes)
        self._chain = chain
        self._end = chain.end if chain.changes else -1
        self._snapshots = [to_of(placed.head) + placed.begins for placed in chain.snapshots]
        self._changes_from = [from_of(placed.head) for placed in chain.changes]
        self._changes_to = [to_of(placed.head) for placed in chain.changes]
        self._bases = list(_bases(chain.snapshots))
        self._cuts = _Telling(placed for placed in blocks if placed.head.is_cut)
        self._sequences = _Telling(placed for placed in blocks if placed.head.is_cut or placed.head.sequences)
        self._marked_snapshots = _Marks(len(chain.snapshots))
        self._marked_changes = _Marks(len(chain.changes))
        self._begun: set[int] = set()
        self._single: list[Placed] = []

    def keep(self, low: int, high: int | None) -> None:
        """Keep the positions from `low` to `high`.

        Without an end, all behind are kept, and what will be joined to them.

        :param low: a position that can be restored.
        """
        newest = bisect_right(self._snapshots, low)
        if high is not None and low > self._end:
            # Behind the end of the changes there is nothing but the snapshot itself.
            self._marked_snapshots.add(bisect_left(self._snapshots, low), bisect_right(self._snapshots, high))
            return
        self._begun.add(newest - 1)
        bases = self._bases[newest - 1]
        # Backups of a quiet source begin and end at one position: they say until when nothing came.
        first = min(bisect_left(self._changes_from, bases.start), bisect_right(self._changes_to, bases.start))
        if low == high == self._snapshots[newest - 1] and bases.alone:
            self._marked_changes.add(first, bisect_right(self._changes_to, high))
            return
        upto = len(self._snapshots) if high is None else bisect_right(self._snapshots, high)
        self._marked_snapshots.add(newest, upto)
        end = len(self._changes_from)
        if high is not None:
            end = max(bisect_left(self._changes_from, self._told(high)), bisect_right(self._changes_to, high))
        self._marked_changes.add(first, end)

    def _told(self, high: int) -> int:
        """Return the end of the changes that a position needs.

        Up to there they are needed to record its schema and sequences.
        """
        end = high
        for placed in (self._cuts.behind(high), self._sequences.behind(high)):
            if placed is not None and placed.head.kind == "snapshot":
                self._single.append(placed)
                end = max(end, _joined_from(placed.head))
            elif placed is not None:
                end = max(end, to_of(placed.head))
        return end

    def ids(self) -> set[str]:
        """Return the ids of the reachable blocks."""
        needed = [placed for number in self._begun for placed in self._bases[number].snapshots]
        needed += self._single
        needed += self._marked_snapshots.of(self._chain.snapshots)
        needed += self._marked_changes.of(self._chain.changes)
        return {placed.home or placed.id for placed in needed}


def _bases(snapshots: Sequence[Placed]) -> Iterator[_Bases]:
    """Yield each snapshot's bases for a position right after it."""
    live = Live()
    full: Placed | None = None
    for placed in snapshots:
        live.add(placed)
        full = full if placed.head.supplement else placed
        found = {each.id: each for each in (*live.blocks(), *((full,) if full else ()))}
        heads = [each.head for each in found.values()]
        yield _Bases(
            snapshots=tuple(found.values()),
            start=min((_joined_from(head) for head in heads), default=to_of(placed.head)),
            alone=not placed.begins and all(to_of(head) == to_of(placed.head) for head in heads),
        )


def _joined_from(block: Block) -> int:
    """Return the start of the changes joined to a snapshot.

    Some of them may end before its own position.
    """
    position = to_of(block)
    return min(position, parse_position(block.stream.position)) if block.stream else position
