"""The restorable-time line of a source: covered ranges, gaps and marks, thinned to what a picture can show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive.format.document import iso
from holdfast.archive.history.coverage import covered_ranges, why_gap
from holdfast.archive.history.restore_points import marks_of, table_gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import CoveredRange

Kind = Literal["restorable", "point", "gap", "mixed"]
"""`restorable`: any moment of it. `point`: one moment. `gap`: none. `mixed`: too narrow to be told apart."""

MOST_PARTS = 5_000  # more than any screen has pixels
_TABLES = 50
_MARKS_APART = 6  # marks are drawn so many parts apart, at least: nearer ones are counted with the one before


@dataclass(frozen=True)
class _Part:
    """Part of the line."""

    start: datetime
    end: datetime
    kind: Kind
    points: int = 0  # restore points and covered ranges in it; `gaps`: gaps in it
    gaps: int = 0
    whole: bool = True
    commit: int | None = None  # the newest one of it; None of a gap
    neighbours: tuple[CoveredRange, CoveredRange] | None = None  # of a gap, the ranges before and after it


@dataclass
class RestorableLine:
    """Line of one source, which keeps what it has computed."""

    state: State
    source: str

    @cached_property
    def ranges(self) -> tuple[CoveredRange, ...]:
        return covered_ranges(self.state, self.source)

    @cached_property
    def _marks(self) -> list[dict[str, Any]]:
        marks = sorted(marks_of(self.state, self.source).values(), key=lambda mark: mark.at)
        return [{"name": mark.name, "at": iso(mark.at), "position": mark.position} for mark in marks]

    @cached_property
    def _table_gaps(self) -> list[dict[str, Any]]:
        return [gap for covered in self.ranges for gap in table_gaps(covered)]

    def view(self, start: datetime | None = None, end: datetime | None = None, *, parts: int = 1000) -> dict[str, Any]:
        """Return the line between two times, by default all of it, as JSON.

        It has `from`, `to`, `first` and `last` (of the whole line), `parts`, `marks` (with `more`: so many that stand
        too near) and `tables` (gaps of single tables, with `more_tables`).

        :param parts: pixels of the picture, say. The number of parts returned is at most three times as many.
        """
        first = min(covered.start for covered in self.ranges)
        last = max(covered.end for covered in self.ranges)
        start, end = start or first, end or last
        width = max((end - start) / min(max(parts, 1), MOST_PARTS), timedelta(microseconds=1))
        tables = [gap for gap in self._table_gaps if gap["to"] >= iso(start) and gap["from"] <= iso(end)]
        return {
            "source": self.source,
            "from": iso(start),
            "to": iso(end),
            "first": iso(first),
            "last": iso(last),
            "parts": [self._describe(part) for part in _thinned(_parts(self.ranges, start, end), width)],
            "marks": list(_thinned_marks(self._marks, iso(start), iso(end), width * _MARKS_APART)),
            "tables": tables[:_TABLES],
            "more_tables": len(tables[_TABLES:]),
        }

    def _describe(self, part: _Part) -> dict[str, Any]:
        return {
            "from": iso(part.start),
            "to": iso(part.end),
            "kind": part.kind,
            "reason": why_gap(*part.neighbours, self.ranges) if part.neighbours else "",
            "points": part.points,
            "gaps": part.gaps,
            "whole": part.whole,
            "commit": part.commit,
        }


def _parts(ranges: Sequence[CoveredRange], start: datetime, end: datetime) -> Iterator[_Part]:
    """Yield the ranges between two times and the gaps between them; what reaches beyond is cut off."""
    before: CoveredRange | None = None
    for covered in sorted(ranges, key=lambda covered: covered.start):
        if before is not None and covered.start > before.end and covered.start > start and before.end < end:
            gap = max(before.end, start), min(covered.start, end)
            yield _Part(*gap, "gap", gaps=1, neighbours=(before, covered))
        if covered.end >= start and covered.start <= end:
            kind: Kind = "point" if covered.first == covered.last else "restorable"
            shown = max(covered.start, start), min(covered.end, end)
            yield _Part(*shown, kind, points=1, whole=covered.whole, commit=covered.placed.number)
        if before is None or covered.end >= before.end:
            before = covered


def _thinned(parts: Iterable[_Part], width: timedelta) -> Iterator[_Part]:
    """Yield parts; those that are narrower than `width` are joined with narrow neighbours."""
    narrow: list[_Part] = []
    for part in parts:
        is_wide = part.end - part.start >= width
        if narrow and (is_wide or part.end - narrow[0].start > width):
            yield _joined(narrow)
            narrow = []
        if is_wide:
            yield part
        else:
            narrow.append(part)
    if narrow:
        yield _joined(narrow)


def _joined(parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    points, gaps = sum(part.points for part in parts), sum(part.gaps for part in parts)
    commit = max((part.commit for part in parts if part.commit is not None), default=None)
    return _Part(parts[0].start, parts[-1].end, "mixed", points=points, gaps=gaps, commit=commit)


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
