"""Stretches of restorable positions, table by table.

They say where a restore gives exact rows, older ones, or none. Nothing is estimated: one moment of each stretch is put
together as a restore does it. Where one stretch ends and the next begins is known from the blocks alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points, schema_history, target_resolution
from holdfast.archive.history.timeline import from_of, names_of, to_of
from holdfast.common.errors import DamagedError
from holdfast.common.lsn import show_position
from holdfast.point_in_time.composed_moment import ComposedMoment, dump_reader
from holdfast.point_in_time.recovery_target import catalog_reader, older_rows
from holdfast.point_in_time.schema_choice import MomentBySchema, by_both, in_parts, unproved, with_unfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.state import State
    from holdfast.archive.history.restore_points import Interval
    from holdfast.archive.history.timeline import Moment
    from holdfast.point_in_time.composed_moment import ReadDump
    from holdfast.point_in_time.recovery_target import OlderRows, ReadCatalog
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.columns import Column
    from holdfast.storage import ObjectStore

_PASSED: Final = "it was made and dropped between two backups, and is in none"

Rows = Literal["exact", "older", "missing"]
"""`exact`: those of the moment. `older`: those that the table had before. `missing`: the table comes back empty."""


@dataclass(frozen=True)
class Outcome:
    """One table as a restore gives it.

    :param as_of: when its rows were those that it gets, where they are older.
    :param reason: why they are not exact; "" where they are.
    :param is_schema_known: its columns are certainly those of the moment; `is_name_proved`: its name certainly is.
    """

    rows: Rows
    as_of: datetime | None = None
    reason: str = ""
    is_schema_known: bool = True
    is_name_proved: bool = True


@dataclass(frozen=True)
class Stretch:
    """Consecutive recovery targets with the same outcome for a table.

    :param first, last: positions of the source's log.
    :param start: when the first was reached, at the earliest; `end`: when the last was, at the latest. Where a stretch
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
class TableStretches:
    """The stretches of one table of a source.

    :param label: what it was called last.
    :param stretches: in order; there is none where the table was not.
    """

    label: str
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def exact_to(self) -> datetime | None:
        """Return the newest time with exact rows, or None."""
        return max((each.end for each in self.stretches if each.outcome.rows == "exact"), default=None)

    @property
    def is_exact(self) -> bool:
        """Return whether each stretch gives the table as it was."""
        return all(each.outcome == Outcome("exact") for each in self.stretches)

    def describe(self) -> dict[str, Any]:
        """Return it as `points --json` prints it."""
        return {
            "table": self.label,
            "exact_to": iso(self.exact_to) if self.exact_to else None,
            "stretches": [each.describe() for each in self.stretches],
        }


@dataclass(frozen=True)
class Unread:
    """A stretch that cannot be judged.

    A file that a restore needs is missing or changed.
    """

    start: datetime
    end: datetime
    reason: str

    def describe(self) -> dict[str, Any]:
        """Return it as `points --json` prints it."""
        return {"from": iso(self.start), "to": iso(self.end), "reason": self.reason}


@dataclass(frozen=True)
class TableReport:
    """The stretches of a source's tables.

    :param tables: by name.
    :param unread: stretches that cannot be told of.
    """

    tables: tuple[TableStretches, ...]
    unread: tuple[Unread, ...]

    def describe(self, globs: Sequence[str] = ()) -> dict[str, Any]:
        """Return the report as `points --json` prints it.

        It has the tables that match a glob, or else those that are not always exact.
        """
        shown = [each for each in self.tables if (_matches(each, globs) if globs else not each.is_exact)]
        return {
            "tables": [each.describe() for each in shown],
            "tables_exact": sum(each.is_exact for each in self.tables) - sum(each.is_exact for each in shown),
            "unread": [each.describe() for each in self.unread],
        }


def _matches(table: TableStretches, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(table.label, glob) for glob in globs)


def table_report(state: State, store: ObjectStore, source: str) -> TableReport:
    """Return the stretches of each table of a source.

    They are over all intervals that can be restored.
    """
    read = _Reader(catalog_reader(store), dump_reader(store))
    tables: dict[int, TableStretches] = {}
    unread: list[Unread] = []
    for interval in restore_points.intervals(state, source):
        open_ended: Mapping[int, Stretch] = {}
        for look in _looks(interval):
            try:
                found = look.given(read, source)
            except DamagedError as error:
                unread.append(Unread(look.start, look.end, str(error)))
                found = {}
            open_ended = _grown(tables, open_ended, look, found)
    return TableReport(tuple(sorted(tables.values(), key=lambda each: each.label)), tuple(unread))


def _grown(
    tables: dict[int, TableStretches],
    before: Mapping[int, Stretch],
    look: _Look,
    found: Mapping[int, tuple[str, Outcome]],
) -> Mapping[int, Stretch]:
    """Add the outcomes of a look to the tables.

    They extend the last stretch of each table where that is the same, else they make one more.
    """
    now: dict[int, Stretch] = {}
    for oid, (label, outcome) in found.items():
        table = tables.setdefault(oid, TableStretches(label))
        table.label = label
        last = before.get(oid)
        if last is not None and last.outcome == outcome:
            now[oid] = replace(last, last=look.last, end=look.end)
            table.stretches[-1] = now[oid]
        else:
            now[oid] = Stretch(look.first, look.last, look.start, look.end, outcome)
            table.stretches.append(now[oid])
    return now


class _Reader(NamedTuple):
    """Readers of what blocks tell of a schema."""

    catalog: ReadCatalog
    dump: ReadDump


@dataclass(frozen=True)
class _Look:
    """Positions of an interval with the same outcome for every table."""

    interval: Interval
    first: int
    last: int
    start: datetime
    end: datetime

    def given(self, read: _Reader, source: str) -> Mapping[int, tuple[str, Outcome]]:
        """Return the name and outcome of each table, by oid.

        Where it is not known when the schema was changed, the one that a restore takes may differ between the ends.

        :raises DamagedError: a file that it needs is missing or changed.
        """
        moment = target_resolution.moment_of(self.interval, source, self.first, self.end)
        found = _given(read, moment, self.interval)
        if moment.doubt is None or self.first == self.last:
            return found
        later = _given(read, target_resolution.moment_of(self.interval, source, self.last, self.end), self.interval)
        return {**later, **found, **{oid: _lesser(found[oid], later[oid]) for oid in found.keys() & later.keys()}}


def _lesser(one: tuple[str, Outcome], other: tuple[str, Outcome]) -> tuple[str, Outcome]:
    order: Sequence[Rows] = ("exact", "older", "missing")
    return max(one, other, key=lambda each: order.index(each[1].rows))


def _looks(interval: Interval) -> Iterator[_Look]:
    """Yield the looks at an interval, in order.

    There is one at each position where something may begin or end, and one for what lies between two of them.
    """
    bounds = sorted(each for each in _bounds(interval) if interval.first <= each <= interval.last)
    ends = {bound: target_resolution.reached_at(interval, bound) for bound in bounds}
    known = {to_of(placed.head) for placed in (*interval.chain.snapshots, *interval.chain.changes)}
    start = interval.start
    for before, after in pairwise(bounds):
        start = ends[before] if before in known else start
        yield _Look(interval, before, before, start, ends[before])
        if after - before > 1:
            yield _Look(interval, before + 1, after - 1, start, ends[after])
    yield _Look(interval, interval.last, interval.last, interval.end, interval.end)


def _bounds(interval: Interval) -> set[int]:
    """Return the positions where an outcome may change.

    A snapshot was taken there, other tables are followed than before, or definitions may have changed; also the ends of
    the interval.
    """
    found = {interval.first, interval.last}
    found.update(to_of(placed.head) for placed in interval.chain.snapshots)
    for placed in restore_points.telling(interval.chain.changes):
        found.update((from_of(placed.head), to_of(placed.head)))
    for between in schema_history.stretches(interval.chain):
        if between.differ or between.seen:
            found.update((to_of(between.before.head), to_of(between.after.head), *(between.told or between.seen)))
    return found


def _given(read: _Reader, moment: Moment, interval: Interval) -> dict[int, tuple[str, Outcome]]:
    if moment.is_snapshot:
        return {int(record.id): (record.label, Outcome("exact")) for record in moment.full.head.tables}
    moment = with_unfit(read.catalog, moment)
    moment = in_parts(read.catalog, read.dump, moment) or moment
    if moment.doubt is None:
        altered = set(moment.composed.doubtful) if isinstance(moment, ComposedMoment) else set[int]()
        taken = MomentBySchema(read.catalog, moment)
    else:
        taken, other = by_both(read.catalog, moment, moment.doubt)
        altered = _altered(taken.catalog, other.catalog)
    # A backup that was ended before it had read the schema: nobody knows what became of it since the one before.
    is_schema_known = not moment.approximate or moment.doubt is not None or moment.next_cut is not None
    unnamed = unproved(read.catalog, taken.moment)
    names = names_of(moment.chain)
    passed_oids = {each.record.oid for each in moment.passed}
    altered |= passed_oids
    tables = [
        table
        for table in taken.catalog.with_rows()
        if interval.whole or str(table.oid) in names or table.oid in passed_oids
    ]
    lacking = {each.table: each for each in older_rows(taken.moment, tables, taken.fit, taken.unfit)}
    passed = {each.record.oid: (each.record.label, Outcome("missing", reason=_PASSED)) for each in moment.passed}
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
    """Return the oids of the tables that differ between two schemas.

    One of these may not have the table at all.
    """
    here, there = _forms(taken), _forms(other)
    return {oid for oid in here.keys() | there.keys() if here.get(oid) != there.get(oid)}


def _forms(catalog: Catalog) -> Mapping[int, tuple[str, Sequence[Column]]]:
    return {table.oid: (table.label, table.columns) for table in catalog.with_rows()}
