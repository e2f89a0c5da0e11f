"""What a moment of an archive means for a database: its objects, and the parts of each of its tables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa
from pydantic import TypeAdapter

from holdfast.archive import points
from holdfast.archive.files import read_file
from holdfast.archive.history import TableHistory
from holdfast.archive.shape import Shape
from holdfast.archive.timeline import from_of, to_of
from holdfast.errors import DamagedError, RefusedError, UsageError
from holdfast.fields import field_id, numbered
from holdfast.position import parse_position
from holdfast.sources.postgresql.catalog import Catalog
from holdfast.sources.postgresql.columns import Column
from holdfast.sources.postgresql.conform import conform
from holdfast.sources.postgresql.extension_rows import of_moment
from holdfast.sources.postgresql.forms import schema_of
from holdfast.sources.postgresql.obstacles import named
from holdfast.sources.postgresql.sequences import SequenceValue, at_end, between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.model import Block, TableRecord
    from holdfast.archive.state import State
    from holdfast.archive.timeline import Moment, TableParts
    from holdfast.sources.postgresql.extension_rows import Configuration
    from holdfast.sources.postgresql.table import Table
    from holdfast.storage import ObjectStore

Schema = Literal["auto", "earlier", "later"]
"""Which one is taken where it was changed in between, and it is not known when."""

_OTHER_FORM = "its columns were altered by then so that its changes do not fit the schema that is taken"

_SEQUENCES = TypeAdapter(tuple[SequenceValue, ...])

_NOTHING = pa.record_batch([pa.nulls(1)], pa.schema([numbered("nothing", pa.null(), 0)]))
"""A row without any column that a table can have."""


def parse_schema(text: str) -> Schema:
    """Return which schema is meant.

    :raises UsageError: none.
    """
    for each in get_args(Schema):
        if each == text:
            schema: Schema = each
            return schema
    raise UsageError(f"schema {text!r} is none of {', '.join(get_args(Schema))}")


def resolve(state: State, store: ObjectStore, source: str, at: str, schema: Schema = "auto") -> Moment:
    """Find what restores a source to a moment, with the schema that serves it best, and say what that one lacks.

    Where the schema was changed between two backups, and it is not known when, that is the one by which fewer values
    are lost that were certainly there, of rows and of columns; of two that are equal in that, the later one where a
    table was seen to be altered before the moment, and else the earlier.

    :param at: as `holdfast.archive.points.resolve` takes it, which also tells the errors.
    :param schema: or this one, where there are two.
    """
    moment = points.resolve(state, store, source, at)
    if moment.doubt is None:
        return moment
    earlier, later = (_Known(store, moment.by(placed)) for placed in moment.doubt)
    if schema == "auto":
        likely, other = (earlier, later) if moment.schema is moment.doubt[0] else (later, earlier)
        taken = other if _weight(other.lost(likely)) < _weight(likely.lost(other)) else likely
    else:
        taken = earlier if schema == "earlier" else later
    which, other = ("later", later) if taken is earlier else ("earlier", earlier)
    lost = tuple(str(each) for each in taken.lost(other))
    first = [f"{named(lost)} lost, which --schema {which} has"] if lost else []
    words = (*first, taken.moment.approximate, *_notes(taken, other, which))
    return replace(taken.moment, approximate="; ".join(words), lost=lost)


def _notes(taken: _Known, other: _Known, which: str) -> Iterator[str]:
    """Yield what is to be said of the schema that is taken, besides that there is another one."""
    if lacking := taken.lacking(other):
        yield f"it lacks {named(lacking)}, which --schema {which} has"
    if which == "later" and (gone := other.gone(taken)):
        yield (
            f"{named(gone)} went before the next backup: what became of it before that and is not in the log, such as "
            "by ALTER TABLE, or while it was not published, is in no backup"
        )


@dataclass(frozen=True)
class _Lost:
    """Rows or values that the log certainly had at a moment, and that one of its schemas has no place for.

    :param count: of rows, or of values of a column; `columns` that a row has, for the weight.
    """

    what: str
    count: int
    columns: int = 1

    def __str__(self) -> str:
        return f"{self.what} ({self.count:,} or more)"


def _weight(lost: Iterable[_Lost]) -> int:
    """Return how many values are lost."""
    return sum(each.count * each.columns for each in lost)


class _Known:
    """A moment by one of the schemas that it may have had."""

    def __init__(self, store: ObjectStore, moment: Moment) -> None:
        self.moment = moment
        self._is_later = moment.doubt is not None and moment.schema is moment.doubt[1]
        catalog = catalog_of(store, moment)
        self._fit, self._unfit = parts_of(store, moment, catalog)
        self._tables = {table.oid: table for table in catalog.tables}
        self._forms = {
            oid: [record for record in records if self._is_told(record)] for oid, records in _changes(moment).items()
        }

    def lost(self, other: _Known) -> list[_Lost]:
        """Return what would not be there, though it was at the moment, and is by the other schema."""
        found = []
        for oid, table in other._tables.items():
            if not table.has_rows or not (rows := other._rows(oid)):
                continue
            mine = self._tables.get(oid)
            if mine is None:
                if other._forms.get(oid):
                    found.append(_Lost(f"rows of table {table.label}", rows, len(table.columns)))
            elif str(oid) in self._unfit and str(oid) in other._fit:
                found.append(_Lost(f"rows of table {table.label}", rows, len(table.columns)))
            else:
                found += self._lost_of(table, mine, other)
        return found

    def _lost_of(self, table: Table, mine: Table, other: _Known) -> Iterator[_Lost]:
        """Yield what is lost of a table that both have.

        :param table: as the other one has it.
        """
        name = str(table.oid)
        if self._is_older(name) and not other._is_older(name):
            changes = sum(record.rows for record in other._fit[name].changes)
            yield _Lost(f"changes of table {table.label}", changes, len(table.columns))
        numbers = {column.number for column in mine.columns}
        for column in table.columns:
            if column.number not in numbers and not column.generated:
                told = [record for record in other._forms.get(table.oid, ()) if _has(record, column.number)]
                if told:
                    count = sum(record.rows for record in told) if other._is_later else other._rows(table.oid)
                    yield _Lost(f"values of column {table.label}.{column.name}", count)

    def _is_older(self, table: str) -> bool:
        return table in self._fit and self._fit[table].stale == _OTHER_FORM

    def _rows(self, table: int) -> int:
        """Return how many rows of a table there may be: those of its snapshot, and what was changed since."""
        parts = self._fit.get(str(table))
        changed = sum(record.rows for record in (parts.changes if parts else self._forms.get(table, ())))
        return changed + (parts.base.rows if parts else 0)

    def _is_told(self, record: TableRecord) -> bool:
        """Say whether changes tell what was there at the moment of what only this schema has.

        What only the later one has was made by then if it was changed before; what only the earlier one has was not
        dropped yet if it is changed afterwards.
        """
        if self._is_later:
            return parse_position(record.first or "") < self.moment.position
        return parse_position(record.last or "") >= self.moment.position

    def gone(self, other: _Known) -> list[str]:
        """Return the tables with rows that only the other schema has."""
        return [
            f"table {table.label}" for oid, table in other._tables.items() if oid not in self._tables and table.has_rows
        ]

    def lacking(self, other: _Known) -> list[str]:
        """Return the tables and columns that only the other schema has."""
        found = []
        for oid, table in other._tables.items():
            mine = self._tables.get(oid)
            if mine is None:
                found.append(f"table {table.label}")
                continue
            numbers = {column.number for column in mine.columns}
            found += [f"column {table.label}.{each.name}" for each in table.columns if each.number not in numbers]
        return found


def _changes(moment: Moment) -> dict[int, list[TableRecord]]:
    """Return what was changed between the two schemas that a moment may have, by table."""
    found: dict[int, dict[int, TableRecord]] = {}
    if moment.doubt is None:
        return {}
    since, until = (to_of(placed.head) for placed in moment.doubt)
    for placed in moment.chain.changes:
        if since < to_of(placed.head) and from_of(placed.head) < until:
            for record in placed.block.tables:
                if record.first and record.last:
                    found.setdefault(int(record.id), {})[id(record)] = record  # as parts of one block tell the same
    return {table: [*records.values()] for table, records in found.items()}


def _has(record: TableRecord, number: int) -> bool:
    return any(each["number"] == number for each in record.columns)


def catalog_of(store: ObjectStore, moment: Moment) -> Catalog:
    """Return the record of a moment's objects, with what is known of where its sequences stood.

    :raises DamagedError: a file of it is missing or changed.
    """
    catalog = Catalog.model_validate_json(read_file(store, moment.schema.block.catalog))
    recorded = _read_sequences(store, moment.sequences.block)
    if moment.sequences_before is None:
        sequences = at_end(catalog.sequences, recorded)
    else:
        earlier = _read_sequences(store, moment.sequences_before.block)
        is_later = to_of(moment.sequences.head) >= moment.position
        sequences = between(catalog.sequences, earlier, recorded if is_later else None)
    configuration = _configuration(store, moment, catalog)
    return catalog.model_copy(update={"sequences": tuple(sequences), "configuration": tuple(configuration)})


def _configuration(store: ObjectStore, moment: Moment, catalog: Catalog) -> Iterable[Configuration]:
    """Return the rows that extensions keep, as the backup before a moment has read them."""
    if moment.sequences_before is None or not catalog.configuration:
        return catalog.configuration
    before = Catalog.model_validate_json(read_file(store, moment.sequences_before.block.catalog))
    after = None
    if moment.next_cut is not None:
        with suppress(DamagedError):  # it only tells whether they changed
            after = Catalog.model_validate_json(read_file(store, moment.next_cut.block.catalog)).configuration
    return of_moment(catalog.configuration, before.configuration, after)


def _read_sequences(store: ObjectStore, block: Block) -> tuple[SequenceValue, ...]:
    if block.sequences is not None:
        return _SEQUENCES.validate_json(read_file(store, block.sequences))
    return Catalog.model_validate_json(read_file(store, block.catalog)).sequences


def sequences_to_json(values: tuple[SequenceValue, ...]) -> bytes:
    """Return what a block keeps of where sequences stood."""
    return _SEQUENCES.dump_json(values)


def parts_of(
    store: ObjectStore, moment: Moment, catalog: Catalog
) -> tuple[dict[str, TableParts], dict[str, TableParts]]:
    """Return the parts of a moment's tables by id, and of those whose rows do not fit what the tables are there.

    Where the schema that is taken is that of before a table was altered, and changes of it since count, it has the rows
    of its snapshot.

    Rows that are older than the moment may be of another form than the table has there, and nobody knows how they
    become of this one.

    :param catalog: the moment's, as `catalog_of` returned it.
    :raises DamagedError: a file of it is missing or changed.
    """
    now = {str(table.oid): table for table in catalog.tables}
    before: dict[str, Catalog] = {}
    fit: dict[str, TableParts] = {}
    unfit: dict[str, TableParts] = {}
    for name, parts in moment.tables({name: table.label for name, table in now.items()}).items():
        if name in now and _are_of_other_form(moment, parts, now[name]):
            fit[name] = replace(parts.without_changes(), stale=_OTHER_FORM)
            continue
        if not parts.stale or name not in now:
            fit[name] = parts
            continue
        path = parts.catalog.path
        if path not in before:
            before[path] = Catalog.model_validate_json(read_file(store, parts.catalog))
        if not fits(before[path], catalog, now[name]):
            unfit[name] = parts
            continue
        key = history_of(parts, now[name]).key
        has_key = set(key) <= {column.number for column in now[name].columns}
        fit[name] = parts if has_key else parts.without_changes()
    return fit, unfit


def _are_of_other_form(moment: Moment, parts: TableParts, table: Table) -> bool:
    """Say whether changes that count came once a column had been altered, and the schema of before that is taken.

    A column that takes more than it did may have values that it did not take then; and where whole rows are told apart,
    those that lack a column are none of the snapshot's.
    """
    if moment.doubt is None or moment.schema is not moment.doubt[0]:
        return False
    since, history = to_of(moment.doubt[0].head), history_of(parts, table)
    columns = {column.number: column for column in table.columns if not column.generated}
    for record in history.relevant():
        if record.first is None or parse_position(record.first) < since:
            continue
        told = {each["number"]: Column.from_dict(each) for each in record.columns}
        if not history.key and not columns.keys() <= told.keys():
            return True
        if any(number in columns and each.takes_other_values(columns[number]) for number, each in told.items()):
            return True
    return False


def fits(before: Catalog, now: Catalog, table: Table) -> bool:
    """Say whether rows of a table, as they were written, are rows of what it is now.

    :param before: the objects when they were written.
    """
    old = next((each for each in before.tables if each.oid == table.oid), None)
    if now.types_altered(before, table):
        return False
    if old is None:  # it was made behind that, and a table's first heap has its own oid
        return table.filenode in (0, table.oid)
    return table.holds(old) and can_become(old, table)


def can_become(before: Table, now: Table) -> bool:
    """Say whether values of a table, as they are kept, can be brought to the types that its columns have now.

    Some types are stored alike by PostgreSQL and kept otherwise here: int4 as a number, oid and regclass as text.

    :param before: what it was when they were written.
    """
    if before.columns == now.columns:
        return True
    written, wanted = (
        schema_of(tuple(column for column in table.columns if not column.generated)) for table in (before, now)
    )
    try:
        Shape(written, wanted, {})
    except RefusedError:
        return False
    return True


def history_of(parts: TableParts, table: Table) -> TableHistory:
    """Return what makes up a table's rows at a moment, in the form the table has there.

    Generated columns are left out: changes do not hold them.
    """
    columns = tuple(column for column in table.columns if not column.generated)
    history = TableHistory(
        table=parts.base.id,
        label=table.label,
        base=parts.base.files,
        since=parts.since,
        changes=parts.changes,
        key=(),
        upto=parts.upto,
        wanted=schema_of(columns),
        missing=missing_values(columns),
    )
    # Of a block that stands for several, records may be of another time, when the table had another key.
    changes = history.relevant()
    return replace(history, changes=changes, key=changes[-1].key if changes else ())


def missing_values(columns: Sequence[Column]) -> Mapping[int, pa.Scalar]:
    """Return by field id what rows have that are older than a column of the table."""
    row = conform(_NOTHING, columns)
    return {field_id(field): array[0] for field, array in zip(row.schema, row.columns, strict=True)}
