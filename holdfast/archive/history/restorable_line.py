"""The restorable-time line of a source: intervals, gaps and marks, thinned to what a picture can show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import intervals, marks_of, table_gaps, why_gap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.archive.format.state import State
    from holdfast.archive.history.restore_points import Interval

Kind = Literal["restorable", "point", "gap", "mixed"]
"""`restorable`: any moment of it. `point`: one moment. `gap`: none. `mixed`: too narrow to be told apart."""

MOST_PARTS = 5_000
"""More than any screen has pixels."""

_TABLES = 50
_MARKS_APART = 6
"""Marks are drawn so many parts apart, at least: nearer ones are counted with the one before."""


@dataclass(frozen=True)
class LinePart:
    """A stretch of the line.

    :param reason: why there is no moment in it, of a gap; "" else.
    :param points: restore points and intervals in it that are not drawn one by one.
    :param gaps: gaps in it that are not.
    :param whole: the whole source can be restored, not only chosen tables.
    :param commit: the newest one of it; None of a gap.
    """

    start: datetime
    end: datetime
    kind: Kind
    reason: str = ""
    points: int = 0
    gaps: int = 0
    whole: bool = True
    commit: int | None = None

    def describe(self) -> dict[str, Any]:
        """Return it as JSON, with times in ISO 8601."""
        return {
            "from": iso(self.start),
            "to": iso(self.end),
            "kind": self.kind,
            "reason": self.reason,
            "points": self.points,
            "gaps": self.gaps,
            "whole": self.whole,
            "commit": self.commit,
        }


@dataclass(frozen=True)
class _Piece:
    """An interval, or the gap between two of them."""

    start: datetime
    end: datetime
    interval: Interval | None
    before: Interval | None = None
    after: Interval | None = None


@dataclass
class RestorableLine:
    """The line of one source.

    It keeps what it has computed, so that it can be looked at again and again.
    """

    state: State
    source: str

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Return the restorable intervals, in order of time."""
        return intervals(self.state, self.source)

    @cached_property
    def _marks(self) -> list[dict[str, Any]]:
        found = sorted(marks_of(self.state, self.source).values(), key=lambda mark: mark.at)
        return [{"name": mark.name, "at": iso(mark.at), "position": mark.position} for mark in found]

    @cached_property
    def _table_gaps(self) -> list[dict[str, Any]]:
        return [gap for interval in self.intervals for gap in table_gaps(interval)]

    def view(self, start: datetime | None = None, end: datetime | None = None, *, parts: int = 1000) -> dict[str, Any]:
        """Return the line between two times as JSON, in about so many parts at most.

        It has `from`, `to`, `first` and `last` (of the whole line), `parts`, `marks` (with `more`: so many that stand
        too near) and `tables` (gaps of single tables, with `more_tables`).

        :param start, end: None for the ends of the whole line.
        :param parts: pixels of the picture, say. The number of parts returned is at most three times as many.
        """
        first = min(each.start for each in self.intervals)
        last = max(each.end for each in self.intervals)
        start, end = start or first, end or last
        width = max((end - start) / min(max(parts, 1), MOST_PARTS), timedelta(microseconds=1))
        tables = [gap for gap in self._table_gaps if gap["to"] >= iso(start) and gap["from"] <= iso(end)]
        return {
            "source": self.source,
            "from": iso(start),
            "to": iso(end),
            "first": iso(first),
            "last": iso(last),
            "parts": [part.describe() for part in self._thinned(_pieces(self.intervals, start, end), width)],
            "marks": list(_thinned_marks(self._marks, iso(start), iso(end), width * _MARKS_APART)),
            "tables": tables[:_TABLES],
            "more_tables": len(tables[_TABLES:]),
        }

    def _thinned(self, pieces: Iterable[_Piece], width: timedelta) -> Iterator[LinePart]:
        """Yield pieces as parts; those that are narrower than `width` are joined with narrow neighbours."""
        narrow: list[_Piece] = []
        for piece in pieces:
            is_wide = piece.end - piece.start >= width
            if narrow and (is_wide or piece.end - narrow[0].start > width):
                yield self._joined(narrow)
                narrow = []
            if is_wide:
                yield self._part(piece)
            else:
                narrow.append(piece)
        if narrow:
            yield self._joined(narrow)

    def _joined(self, pieces: Sequence[_Piece]) -> LinePart:
        points = [piece for piece in pieces if piece.interval]
        if len(pieces) == 1:
            return self._part(pieces[0])
        return LinePart(
            pieces[0].start,
            pieces[-1].end,
            "mixed",
            points=len(points),
            gaps=len(pieces) - len(points),
            commit=max((piece.interval.placed.number for piece in points if piece.interval), default=None),
        )

    def _part(self, piece: _Piece) -> LinePart:
        if piece.interval:
            kind: Kind = "point" if piece.interval.first == piece.interval.last else "restorable"
            number = piece.interval.placed.number
            return LinePart(piece.start, piece.end, kind, points=1, whole=piece.interval.whole, commit=number)
        reason = why_gap(piece.before, piece.after, self.intervals) if piece.before and piece.after else ""
        return LinePart(piece.start, piece.end, "gap", reason=reason, gaps=1)


def _pieces(found: Sequence[Interval], start: datetime, end: datetime) -> Iterator[_Piece]:
    """Yield the intervals between two times and the gaps between them; what reaches beyond is cut off."""
    before: Interval | None = None
    for interval in sorted(found, key=lambda each: each.start):
        if before is not None and interval.start > before.end and interval.start > start and before.end < end:
            yield _Piece(max(before.end, start), min(interval.start, end), None, before, interval)
        if interval.end >= start and interval.start <= end:
            yield _Piece(max(interval.start, start), min(interval.end, end), interval)
        if before is None or interval.end >= before.end:
            before = interval


def _thinned_marks(marks: Iterable[dict[str, Any]], start: str, end: str, apart: timedelta) -> Iterator[dict[str, Any]]:
    last: dict[str, Any] | None = None
    for mark in marks:
        if not start <= mark["at"] <= end:
            continue
        if last is not None and datetime.fromisoformat(mark["at"]) - datetime.fromisoformat(last["at"]) < apart:
            last["more"] += 1
            continue
        if last is not None:
            yield last
        last = {**mark, "more": 0}
    if last is not None:
        yield last
