"""Coverage of single tables: where a restore gives exact rows, older ones, or none.

Nothing is estimated: one position of each range is put together as a restore does it. Where one range ends and the next
begins is known from the blocks alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points, schema_history
from holdfast.archive.history.coverage import covered_ranges, from_of, to_of
from holdfast.archive.history.recovery_target import names_of, target_at
from holdfast.common.errors import DamagedError
from holdfast.common.lsn import show_position
from holdfast.point_in_time.composed_target import ComposedTarget, dump_reader
from holdfast.point_in_time.schema_choice import TargetBySchema, by_both, in_parts, unproved, with_unfit
from holdfast.point_in_time.target_contents import catalog_reader, older_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import CoveredRange
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.point_in_time.composed_target import ReadDump
    from holdfast.point_in_time.target_contents import OlderRows, ReadCatalog
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.storage import ObjectStore

_PASSED: Final = "it was made and dropped between two backups, and is in none"

Rows = Literal["exact", "older", "missing"]
"""`exact`: those of the target. `older`: those that the table had before. `missing`: the table comes back empty."""


@dataclass(frozen=True)
class Outcome:
    """One table as a restore gives it.

    :param as_of: when its rows were those that it gets, where they are older.
    :param reason: why they are not exact; "" where they are.
    :param is_schema_known: its columns are certainly those of then; `is_name_proved`: its name certainly is.
    """

    rows: Rows
    as_of: datetime | None = None
    reason: str = ""
    is_schema_known: bool = True
    is_name_proved: bool = True


@dataclass(frozen=True)
class TableRange:
    """Consecutive recovery targets with the same outcome for a table.

    :param first, last: positions of the source's log.
    :param start: when the first was reached, at the earliest; `end`: when the last was, at the latest. Where a range
        begins between two backups, its end and the next one's start overlap: only the positions are known.
    """

    first: int
    last: int
    start: datetime
    end: datetime
    outcome: Outcome

    def describe(self) -> dict[str, Any]:
        """Return it as `points --json` prints it."""
        return {
            "from": iso(self.start),
            "to": iso(self.end),
            "first": show_position(self.first),
            "last": show_position(self.last),
            "rows": self.outcome.rows,
            "as_of": iso(self.outcome.as_of) if self.outcome.as_of else None,
            "reason": self.outcome.reason,
            "schema": "known" if self.outcome.is_schema_known else "approximate",
            "name": "known" if self.outcome.is_name_proved else "not proved",
        }


@dataclass
class TableCoverage:
    """The ranges of one table of a source, in order, and the label that it had last."""

    label: str
    ranges: list[TableRange] = field(default_factory=list)

    @property
    def exact_to(self) -> datetime | None:
        """Return the newest time with exact rows, or None."""
        return max((each.end for each in self.ranges if each.outcome.rows == "exact"), default=None)

    @property
    def is_exact(self) -> bool:
        """Return whether each range gives the table as it was."""
        return all(each.outcome == Outcome("exact") for each in self.ranges)

    def describe(self) -> dict[str, Any]:
        return {
            "table": self.label,
            "exact_to": iso(self.exact_to) if self.exact_to else None,
            "stretches": [each.describe() for each in self.ranges],
        }


@dataclass(frozen=True)
class UnreadRange:
    """A range that cannot be judged: a file that a restore needs is missing or changed."""

    start: datetime
    end: datetime
    reason: str

    def describe(self) -> dict[str, Any]:
        return {"from": iso(self.start), "to": iso(self.end), "reason": self.reason}


@dataclass(frozen=True)
class TableReport:
    """The coverage of a source's tables, by name, and the ranges that cannot be judged."""

    tables: tuple[TableCoverage, ...]
    unread: tuple[UnreadRange, ...]

    def describe(self, globs: Sequence[str] = ()) -> dict[str, Any]:
        """Return, as `points --json` prints it, the tables that match, or that are not always exact."""
        shown = [each for each in self.tables if (_matches(each, globs) if globs else not each.is_exact)]
        return {
            "tables": [each.describe() for each in shown],
            "tables_exact": sum(each.is_exact for each in self.tables) - sum(each.is_exact for each in shown),
            "unread": [each.describe() for each in self.unread],
        }


def _matches(table: TableCoverage, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(table.label, glob) for glob in globs)


def table_report(state: State, store: ObjectStore, source: str) -> TableReport:
    """Return what a restore gives of each table of a source, over all that can be restored."""
    read = _Reader(catalog_reader(store), dump_reader(store))
    tables: dict[int, TableCoverage] = {}
    unread: list[UnreadRange] = []
    for covered in covered_ranges(state, source):
        open_ended: Mapping[int, TableRange] = {}
        for part in _parts(covered):
            try:
                outcomes = _outcomes(read, source, part, whole=covered.whole)
            except DamagedError as error:
                unread.append(UnreadRange(part.start, part.end, str(error)))
                outcomes = {}
            open_ended = _grown(tables, open_ended, part, outcomes)
    return TableReport(tuple(sorted(tables.values(), key=lambda table: table.label)), tuple(unread))


def _grown(
    tables: dict[int, TableCoverage],
    before: Mapping[int, TableRange],
    part: CoveredRange,
    outcomes: Mapping[int, tuple[str, Outcome]],
) -> Mapping[int, TableRange]:
    """Add the outcomes of a part to the tables, whose last ranges they extend where these are the same."""
    now: dict[int, TableRange] = {}
    for oid, (label, outcome) in outcomes.items():
        table = tables.setdefault(oid, TableCoverage(label))
        table.label = label
        last = before.get(oid)
        if last is not None and last.outcome == outcome:
            now[oid] = replace(last, last=part.last, end=part.end)
            table.ranges[-1] = now[oid]
        else:
            now[oid] = TableRange(part.first, part.last, part.start, part.end, outcome)
            table.ranges.append(now[oid])
    return now


class _Reader(NamedTuple):
    catalog: ReadCatalog
    dump: ReadDump


def _outcomes(read: _Reader, source: str, part: CoveredRange, *, whole: bool) -> Mapping[int, tuple[str, Outcome]]:
    """Return the name and outcome of each table in a part of a covered range, by oid.

    Where it is not known when the schema was changed, the one that a restore takes may differ between the ends.
    """
    target = target_at(part, source, part.first, part.end)
    first = _outcomes_at(read, target, whole=whole)
    if target.doubt is None or part.first == part.last:
        return first
    last = _outcomes_at(read, target_at(part, source, part.last, part.end), whole=whole)
    return {**last, **first, **{oid: _lesser(first[oid], last[oid]) for oid in first.keys() & last.keys()}}


def _lesser(one: tuple[str, Outcome], other: tuple[str, Outcome]) -> tuple[str, Outcome]:
    order: Sequence[Rows] = ("exact", "older", "missing")
    return max(one, other, key=lambda each: order.index(each[1].rows))


def _parts(covered: CoveredRange) -> Iterator[CoveredRange]:
    """Yield the parts of a range with the same outcome for every table, in order.

    There is one at each position where something may begin or end, and one for what lies between two of them.
    """
    bounds = sorted(position for position in _bounds(covered) if covered.first <= position <= covered.last)
    ends = {bound: covered.reached_at(bound) for bound in bounds}
    recorded = {to_of(placed.head) for placed in (*covered.chain.snapshots, *covered.chain.changes)}
    start = covered.start
    for before, after in pairwise(bounds):
        start = ends[before] if before in recorded else start
        yield replace(covered, first=before, last=before, start=start, end=ends[before])
        if after - before > 1:
            yield replace(covered, first=before + 1, last=after - 1, start=start, end=ends[after])
    yield replace(covered, first=covered.last, start=covered.end)


def _bounds(covered: CoveredRange) -> set[int]:
    """Return the positions where an outcome may change, and the ends of the range."""
    positions = {covered.first, covered.last}
    positions.update(to_of(placed.head) for placed in covered.chain.snapshots)
    for placed in restore_points.telling(covered.chain.changes):
        positions.update((from_of(placed.head), to_of(placed.head)))
    for between in schema_history.schema_changes(covered.chain):
        if between.differ or between.seen:
            positions.update(
                (to_of(between.before.head), to_of(between.after.head), *(between.changed_at or between.seen))
            )
    return positions


def _outcomes_at(read: _Reader, target: RecoveryTarget, *, whole: bool) -> dict[int, tuple[str, Outcome]]:
    if target.is_snapshot:
        return {int(record.id): (record.label, Outcome("exact")) for record in target.full.head.tables}
    target = with_unfit(read.catalog, target)
    target = in_parts(read.catalog, read.dump, target) or target
    if target.doubt is None:
        altered = set(target.composed.doubtful) if isinstance(target, ComposedTarget) else set[int]()
        taken = TargetBySchema(read.catalog, target)
    else:
        taken, other = by_both(read.catalog, target, target.doubt)
        altered = _altered(taken.catalog, other.catalog)
    # A backup that was ended before it had read the schema: nobody knows what became of it since the one before.
    is_schema_known = not target.approximate or target.doubt is not None or target.next_cut is not None
    unnamed = unproved(read.catalog, taken.target)
    names = names_of(target.chain)
    passed_oids = {each.record.oid for each in target.passed}
    altered |= passed_oids
    tables = [
        table for table in taken.catalog.with_rows() if whole or str(table.oid) in names or table.oid in passed_oids
    ]
    lacking = {each.table: each for each in older_rows(taken.target, tables, taken.fit, taken.unfit)}
    passed = {each.record.oid: (each.record.label, Outcome("missing", reason=_PASSED)) for each in target.passed}
    return passed | {
        table.oid: (
            table.label,
            replace(
                _outcome(lacking.get(table.oid), is_schema_known and table.oid not in altered),
                is_name_proved=table.oid not in unnamed,
            ),
        )
        for table in tables
    }


def _outcome(lack: OlderRows | None, is_schema_known: bool) -> Outcome:
    if lack is None:
        return Outcome("exact", is_schema_known=is_schema_known)
    return Outcome("older" if lack.as_of else "missing", lack.as_of, lack.reason, is_schema_known)


def _altered(taken: Catalog, other: Catalog) -> set[int]:
    one, two = ({table.oid: (table.label, table.columns) for table in each.with_rows()} for each in (taken, other))
    return {oid for oid in one.keys() | two.keys() if one.get(oid) != two.get(oid)}
