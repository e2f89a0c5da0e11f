"""Choice between two schemas of a recovery target, of which it is not known when one became the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from holdfast.archive.history import target_resolution
from holdfast.archive.history.coverage import to_of
from holdfast.common.choices import Schema
from holdfast.common.errors import UsageError
from holdfast.common.lsn import parse_position
from holdfast.common.words import named
from holdfast.point_in_time.composed_target import ComposedTarget, ReadDump, dump_reader, with_composed_schema
from holdfast.point_in_time.table_names import changes_between
from holdfast.point_in_time.target_contents import OTHER_FORM, catalog_reader, objects_of, parts_of, proofs_of_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import TableRecord
    from holdfast.archive.format.state import State
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.archive.history.schema_history import PassingTable
    from holdfast.point_in_time.target_contents import ReadCatalog
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.logical.schema_composition import Side
    from holdfast.storage import ObjectStore


def parse_schema(text: str) -> Schema:
    """Parse the choice of a schema."""
    for each in get_args(Schema):
        if each == text:
            schema: Schema = each
            return schema
    raise UsageError(f"schema {text!r} is none of {', '.join(get_args(Schema))}")


def resolve(state: State, store: ObjectStore, source: str, at: str, schema: Schema = "auto") -> RecoveryTarget:
    """Resolve a recovery target with the schema that serves it best.

    :param at: as `holdfast.archive.history.target_resolution.resolve` takes it, which also names the errors.
    """
    return with_schema(store, target_resolution.resolve(state, store, source, at), schema)


def with_schema(store: ObjectStore, target: RecoveryTarget, schema: Schema = "auto") -> RecoveryTarget:
    """Return a recovery target with the schema that serves it best; it says what that lacks.

    Where the schema was changed between two backups, and the log says which objects were touched when, it is put
    together of both. So it is where rows of a table are of an earlier backup and do not fit what the table has become:
    the table has the definition of that backup. Where it is not known when they were touched, the best one is the one
    by which fewer values are lost that were certainly there, of rows and of columns; of two that are equal in that, the
    later one where a table was seen to be altered before the target, and else the earlier.

    :param schema: or this one, where there are two. The later one certainly has none of the tables that were made and
        dropped between both: with it, those that may have been dropped by then are left out.
    """
    read = catalog_reader(store)
    target = with_unfit(read, target)
    dropped = tuple(each for each in target.passed if schema == "later" and not each.is_certain)
    if dropped:
        target = replace(target, passed=tuple(each for each in target.passed if each not in dropped))
    if target.doubt is None:
        return _with_doubts(read, target, dropped)
    if schema == "auto" and (composed := in_parts(read, dump_reader(store), target)) is not None:
        return _with_doubts(read, composed)  # of auto, which leaves none out
    taken, other = by_both(read, target, target.doubt, schema)
    which = "later" if other.is_later else "earlier"
    lost = tuple(str(each) for each in taken.lost(other))
    first = [f"{named(lost)} lost, which --schema {which} has"] if lost else []
    words = (*first, taken.target.approximate, *_notes(taken, other, which))
    return _with_doubts(read, replace(taken.target, approximate="; ".join(words), lost=lost), dropped)


def _rows_of(passed: PassingTable) -> str:
    return f"rows of table {passed.record.label} (of {passed.record.changes:,} changes)"


def _notes_on_passed(
    read: ReadCatalog, target: RecoveryTarget, left: Sequence[PassingTable]
) -> tuple[RecoveryTarget, Sequence[str]]:
    """Return a recovery target that names the tables which only the log has, with notes on them."""
    there = {table.oid: table.label for table in objects_of(read, target).tables}
    lost = tuple(_rows_of(each) for each in target.passed if each.record.oid not in there)
    log_only = tuple(there[each.record.oid] for each in target.passed if each.record.oid in there)
    uncertain = [there[each.record.oid] for each in target.passed if each.record.oid in there and not each.is_certain]
    dropped = tuple(map(_rows_of, left))
    notes = [
        (dropped, f"{named(dropped)} left out: --schema later takes what may have been dropped by then as dropped"),
        (lost, f"{named(lost)} lost: what was made and dropped between two backups is in none"),
        (
            log_only,
            f"{named(log_only)} came and went between two backups: the rows are those that the log has since they were "
            "published, and bounds, indexes, conditions and privileges are not known",
        ),
        (uncertain, f"{named(uncertain)} may have been dropped by then: --schema later leaves that out"),
    ]
    return replace(target, lost=(*target.lost, *dropped, *lost), log_only=log_only), [
        note for some, note in notes if some
    ]


def _with_doubts(read: ReadCatalog, target: RecoveryTarget, dropped: Sequence[PassingTable] = ()) -> RecoveryTarget:
    """Return a recovery target that says which names are not proved, and which tables are in neither schema.

    :param dropped: those of the latter that are left out since they may have been dropped.
    """
    displaced = target.composed.displaced if isinstance(target, ComposedTarget) else {}
    doubtful = unproved(read, target)
    names = tuple(sorted({*doubtful.values()}))
    if not names and not target.passed and not dropped:
        return target
    target, notes = _notes_on_passed(read, target, dropped)
    words = [target.approximate, *notes]
    words += [
        f"left out is what another backup has as {label}: another table had that name" for label in displaced.values()
    ]
    if kept := sorted({label for oid, label in doubtful.items() if oid not in displaced}):
        words.append(f"it is not proved that {named(kept)} had this name then: another table may have had it")
    approximate = "; ".join(filter(None, words))
    return replace(target, approximate=approximate, unproved_names=names)


def unproved(read: ReadCatalog, target: RecoveryTarget) -> dict[int, str]:
    """Return the tables, by oid, whose names are not proved at a target with its schema, and these names."""
    proofs = proofs_of_names(read, target, objects_of(read, target).tables)
    displaced = target.composed.displaced if isinstance(target, ComposedTarget) else {}
    return {**{oid: proof.label for oid, proof in proofs.items() if not proof.is_proved}, **displaced}


def with_unfit(read: ReadCatalog, target: RecoveryTarget) -> RecoveryTarget:
    """Return a recovery target whose schema is known, in doubt where rows of a table do not fit it.

    The other schema is that of the backup up to which most of such rows are known.
    """
    if target.doubt is not None or target.is_snapshot or not any(each.stale for each in target.tables().values()):
        return target
    catalog = objects_of(read, target)
    labels = {str(table.oid): table.label for table in catalog.tables}
    _, unfit = parts_of(read, target, catalog)
    rows: dict[str, int] = {}
    cuts: dict[str, Placed] = {}
    for parts in unfit.values():
        cut = target.chain.cut_until(parts.upto)
        if cut is not None and to_of(cut.head) >= parts.since:
            cuts[cut.id] = cut
            rows[cut.id] = rows.get(cut.id, 0) + 1 + parts.base.rows + sum(each.rows for each in parts.changes)
    if not rows:
        return target
    earlier = cuts[max(rows, key=lambda each: rows[each])]
    named_rows = {int(name): labels[name] for name in sorted(unfit)}
    return replace(target, doubt=(earlier, target.schema), unfit=named_rows).by(target.schema)


def in_parts(read: ReadCatalog, read_dump: ReadDump, target: RecoveryTarget) -> ComposedTarget | None:
    """Return a target with its schema put together; None where it is not known what was touched when.

    A table of which it is not known has the definition by which fewer values are lost.
    """
    if target.doubt is None or (target.touches is None and not target.unfit):
        return None
    earlier, later = (TargetBySchema(read, target.by(placed)) for placed in target.doubt)
    lost: Mapping[Side, list[_Lost]] = {"earlier": earlier.lost(later), "later": later.lost(earlier)}
    nearest: Side = "earlier" if target.schema is target.doubt[0] else "later"

    def weigh(table: int) -> Side:
        weights = {side: _weight(each for each in losses if each.table == table) for side, losses in lost.items()}
        other: Side = "later" if nearest == "earlier" else "earlier"
        return other if weights[other] < weights[nearest] else nearest

    composed = with_composed_schema(read, read_dump, target, weigh)
    if composed is None:
        return None
    taken = composed.composed.doubtful
    given_up = tuple(
        str(each)
        for side, losses in lost.items()
        for each in losses
        if each.table in taken and taken[each.table] == side
    )
    for oid, label in composed.composed.displaced.items():
        if rows := max(each.rows_of(oid) for each in (earlier, later)):
            given_up += (str(_Lost(oid, f"rows of table {label}", rows)),)
    first = [f"{named(given_up)} lost, which --schema earlier or --schema later has"] if given_up else []
    return replace(composed, lost=given_up, approximate="; ".join(filter(None, (*first, composed.approximate))))


def by_both(
    read: ReadCatalog, target: RecoveryTarget, doubt: tuple[Placed, Placed], schema: Schema = "auto"
) -> tuple[TargetBySchema, TargetBySchema]:
    """Return a recovery target by the schema taken, and by the other."""
    earlier, later = (TargetBySchema(read, target.by(placed)) for placed in doubt)
    if schema == "auto":
        likely, other = (earlier, later) if target.schema is doubt[0] else (later, earlier)
        return (other, likely) if _weight(other.lost(likely)) < _weight(likely.lost(other)) else (likely, other)
    return (earlier, later) if schema == "earlier" else (later, earlier)


def _notes(taken: TargetBySchema, other: TargetBySchema, which: str) -> Iterator[str]:
    """Yield notes on the schema that is taken."""
    if lacking := taken.lacking(other):
        yield f"it lacks {named(lacking)}, which --schema {which} has"
    if which == "later" and (gone := other.gone(taken)):
        yield (
            f"{named(gone)} went before the next backup: what became of it before that and is not in the log, such as "
            "by ALTER TABLE, or while it was not published, is in no backup"
        )


@dataclass(frozen=True)
class _Lost:
    """Rows or values that the log certainly had at the target, without a place in one of two schemas.

    :param table: its oid.
    :param count: of rows, or of values of a column; `columns` that a row has, for the weight.
    """

    table: int
    what: str
    count: int
    columns: int = 1

    def __str__(self) -> str:
        return f"{self.what} ({self.count:,} or more)"


def _weight(lost: Iterable[_Lost]) -> int:
    return sum(each.count * each.columns for each in lost)


class TargetBySchema:
    """A recovery target by one of its possible schemas.

    :ivar catalog: its objects by that; where sequences stood is not in it.
    :ivar fit, unfit: the parts of its tables, as `parts_of` returns them.
    """

    def __init__(self, read: ReadCatalog, target: RecoveryTarget) -> None:
        self.target = target
        self.is_later = target.doubt is not None and target.schema is target.doubt[1]
        self.catalog = objects_of(read, target)
        self.fit, self.unfit = parts_of(read, target, self.catalog)
        self._tables = {table.oid: table for table in self.catalog.tables}
        changes = changes_between(target, target.doubt) if target.doubt is not None else {}
        self._forms = {oid: [record for record in records if self._is_told(record)] for oid, records in changes.items()}

    def lost(self, other: TargetBySchema) -> list[_Lost]:
        """Return the rows and values of the recovery target that only the other schema keeps."""
        losses = []
        for oid, table in other._tables.items():
            if not table.has_rows or not (rows := other.rows_of(oid)):
                continue
            mine = self._tables.get(oid)
            if mine is None:
                if other._forms.get(oid):
                    losses.append(_Lost(oid, f"rows of table {table.label}", rows, len(table.columns)))
            elif str(oid) in self.unfit and str(oid) in other.fit:
                losses.append(_Lost(oid, f"rows of table {table.label}", rows, len(table.columns)))
            else:
                losses += self._lost_of(table, mine, other)
        return losses

    def _lost_of(self, table: Table, mine: Table, other: TargetBySchema) -> Iterator[_Lost]:
        """Yield the losses of a table that both schemas have."""
        name = str(table.oid)
        if self._is_older(name) and not other._is_older(name):
            changes = sum(record.rows for record in other.fit[name].changes)
            yield _Lost(table.oid, f"changes of table {table.label}", changes, len(table.columns))
        numbers = {column.number for column in mine.columns}
        for column in table.columns:
            if column.number not in numbers and not column.generated:
                records = [record for record in other._forms.get(table.oid, ()) if _has(record, column.number)]
                if records:
                    count = sum(record.rows for record in records) if other.is_later else other.rows_of(table.oid)
                    yield _Lost(table.oid, f"values of column {table.label}.{column.name}", count)

    def _is_older(self, table: str) -> bool:
        return table in self.fit and self.fit[table].stale == OTHER_FORM

    def rows_of(self, table: int) -> int:
        """Return the number of rows that a table may have: of its snapshot, and changed since."""
        parts = self.fit.get(str(table))
        changed = sum(record.rows for record in (parts.changes if parts else self._forms.get(table, ())))
        return changed + (parts.base.rows if parts else 0)

    def _is_told(self, record: TableRecord) -> bool:
        """Return whether changes prove that data which only this schema has was there at the target.

        What only the later one has was made by then if it was changed before; what only the earlier one has was not
        dropped yet if it is changed afterwards.
        """
        if self.is_later:
            return parse_position(record.first or "") < self.target.position
        return parse_position(record.last or "") >= self.target.position

    def gone(self, other: TargetBySchema) -> list[str]:
        """Return the tables with rows that only the other schema has."""
        return [
            f"table {table.label}" for oid, table in other._tables.items() if oid not in self._tables and table.has_rows
        ]

    def lacking(self, other: TargetBySchema) -> list[str]:
        """Return the tables and columns that only the other schema has."""
        names = []
        for oid, table in other._tables.items():
            mine = self._tables.get(oid)
            if mine is None:
                names.append(f"table {table.label}")
                continue
            numbers = {column.number for column in mine.columns}
            names += [f"column {table.label}.{each.name}" for each in table.columns if each.number not in numbers]
        return names


def _has(record: TableRecord, number: int) -> bool:
    return any(each["number"] == number for each in record.columns)
