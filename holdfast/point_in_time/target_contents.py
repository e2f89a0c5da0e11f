"""Recovery target of a database: its objects and its tables' parts.

A file of the archive that is missing or changed is a DamagedError.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from holdfast.archive.files.data_files import read_file
from holdfast.archive.history.coverage import to_of
from holdfast.archive.scan.table_history import TableHistory
from holdfast.common.errors import DamagedError
from holdfast.common.field_ids import field_id, numbered
from holdfast.common.lsn import parse_position
from holdfast.point_in_time.composed_target import ComposedTarget
from holdfast.point_in_time.passed_tables import passed_parts, with_passed
from holdfast.point_in_time.table_names import name_proofs, with_announced_names
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.extension_rows import of_moment
from holdfast.postgresql.catalog.record import damaged_record
from holdfast.postgresql.catalog.sequences import SequenceValue, at_end, between
from holdfast.postgresql.logical.ddl_effects import can_become
from holdfast.postgresql.values.schema_evolution import conform
from holdfast.postgresql.values.stored_columns import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord, TableRecord
    from holdfast.archive.history.recovery_target import RecoveryTarget, TableParts
    from holdfast.point_in_time.table_names import NameProof
    from holdfast.postgresql.catalog.extension_rows import Configuration
    from holdfast.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore

OTHER_FORM = "its columns were altered by then so that its changes do not fit the schema that is taken"

_SEQUENCES = TypeAdapter(tuple[SequenceValue, ...])

_NOTHING = pa.record_batch([pa.nulls(1)], pa.schema([numbered("nothing", pa.null(), 0)]))
"""A row without any column that a table can have."""


ReadCatalog = Callable[["FileRecord"], Catalog]
"""Returns the record of the objects that a file holds."""

_KEPT = 4
"""Records that a reader keeps: those of the schemas around a target."""


def catalog_reader(store: ObjectStore) -> ReadCatalog:
    """Return a reader of catalogs that keeps the last few: of thousands of tables one takes a while."""
    return lru_cache(_KEPT)(partial(_read_catalog, store))


def _read_catalog(store: ObjectStore, file: FileRecord) -> Catalog:
    return Catalog.from_bytes(read_file(store, file), file.path)


def catalog_of(store: ObjectStore, target: RecoveryTarget) -> Catalog:
    """Return the catalog of a recovery target, with sequence values as far as they are known."""
    catalog = objects_of(catalog_reader(store), target)
    recorded = _read_sequences(store, target.sequences.block)
    if target.sequences_before is None:
        sequences = at_end(catalog.sequences, recorded)
    else:
        earlier = _read_sequences(store, target.sequences_before.block)
        is_later = to_of(target.sequences.head) >= target.position
        sequences = between(catalog.sequences, earlier, recorded if is_later else None)
    configuration = _configuration(store, target, catalog)
    return catalog.model_copy(update={"sequences": tuple(sequences), "configuration": tuple(configuration)})


def objects_of(read: ReadCatalog, target: RecoveryTarget) -> Catalog:
    """Return the catalog of a recovery target, without the values of sequences."""
    taken = named = taken_catalog(read, target)
    with suppress(DamagedError):  # the catalog that is not taken tells of names, and of nothing else
        named = with_announced_names(taken, proofs_of_names(read, target, taken.tables))
    return with_passed(target, named)


def taken_catalog(read: ReadCatalog, target: RecoveryTarget) -> Catalog:
    """Return the catalog of the schema that is taken, with the names that it has there."""
    return target.composed.catalog if isinstance(target, ComposedTarget) else read(target.schema.block.catalog)


def proofs_of_names(read: ReadCatalog, target: RecoveryTarget, tables: Iterable[Table]) -> Mapping[int, NameProof]:
    """Return what is proved of the names of tables that may have had others at a recovery target, by oid.

    :param target: with the schema that is taken.
    """
    pair = target.pair if isinstance(target, ComposedTarget) else target.doubt
    if pair is None or (target.unfit and target.schema is pair[1] and not isinstance(target, ComposedTarget)):
        return {}
    if isinstance(target, ComposedTarget):
        unsure = {*target.composed.doubtful, *(each.record.oid for each in target.passed)}
        tables = [table for table in tables if table.oid in unsure]
    earlier, later = (read(placed.block.catalog) for placed in pair)
    return name_proofs(target, pair, (earlier, later), tables)


def _configuration(store: ObjectStore, target: RecoveryTarget, catalog: Catalog) -> Iterable[Configuration]:
    """Return the rows that extensions keep at a recovery target, as the backup before has read them."""
    if target.sequences_before is None or not catalog.configuration:
        return catalog.configuration
    before = _read_catalog(store, target.sequences_before.block.catalog)
    after = None
    if target.next_cut is not None:
        with suppress(DamagedError):  # it only tells whether they changed
            after = _read_catalog(store, target.next_cut.block.catalog).configuration
    return of_moment(catalog.configuration, before.configuration, after)


def _read_sequences(store: ObjectStore, block: Block) -> tuple[SequenceValue, ...]:
    if block.sequences is not None:
        try:
            return _SEQUENCES.validate_json(read_file(store, block.sequences))
        except ValidationError as error:
            raise damaged_record(block.sequences.path, error) from error
    return _read_catalog(store, block.catalog).sequences


def sequences_to_json(values: tuple[SequenceValue, ...]) -> bytes:
    """Serialize sequence values for a block."""
    return _SEQUENCES.dump_json(values)


def parts_of(
    read: ReadCatalog, target: RecoveryTarget, catalog: Catalog
) -> tuple[dict[str, TableParts], dict[str, TableParts]]:
    """Return the parts of a recovery target's tables, by table id; second, those that do not fit.

    Where the schema that is taken is that of before a table was altered, and changes of it since count, it has the rows
    of its snapshot. Rows that are older than the target may be of another form than the table has there, and it is not
    known how they become of this one.
    """
    now = {str(table.oid): table for table in catalog.tables}
    fit: dict[str, TableParts] = {}
    unfit: dict[str, TableParts] = {}
    for name, parts in target.tables({name: table.label for name, table in now.items()}).items():
        if name in now and _are_of_other_form(target, parts, now[name]):
            fit[name] = replace(parts.without_changes(), stale=OTHER_FORM)
            continue
        if not parts.stale or name not in now:
            fit[name] = parts
            continue
        written = [read(parts.catalog)]
        if (last := target.chain.cut_until(parts.upto)) is not None and to_of(last.head) > parts.since:
            written.append(read(last.block.catalog))  # changes may have labels that the snapshot's catalog lacks
        if not all(fits(each, catalog, now[name]) for each in written):
            unfit[name] = parts
            continue
        key = history_of(parts, now[name]).key
        has_key = set(key) <= {column.number for column in now[name].columns}
        fit[name] = parts if has_key else parts.without_changes()
    return {**fit, **passed_parts(target, catalog.tables)}, unfit


@dataclass(frozen=True)
class OlderRows:
    """A table's older rows, or none, at a recovery target.

    :param table: its oid.
    :param as_of: when its rows were those that it has; None: it has none.
    :param again: the snapshot at which its rows are exact again; None: there is none yet.
    """

    table: int
    label: str
    as_of: datetime | None
    reason: str
    again: Placed | None = None


def older_rows(
    target: RecoveryTarget, tables: Iterable[Table], fit: Mapping[str, TableParts], unfit: Mapping[str, TableParts]
) -> list[OlderRows]:
    """Return the tables without their exact rows at a target, first those that have older ones.

    :param tables: of the target's catalog; `fit` and `unfit`: as `parts_of` returned them for it.
    """
    older, without = [], []
    again = _next_snapshots(target)
    for table in tables:
        name = str(table.oid)
        if (parts := fit.get(name)) is not None:
            if parts.stale:
                older.append(OlderRows(table.oid, table.label, parts.as_of, parts.stale, again.get(name)))
        elif table.has_rows and not target.is_snapshot:
            why = unfit[name].why_unfit if name in unfit else "there was no snapshot of it yet"
            without.append(OlderRows(table.oid, table.label, None, why, again.get(name)))
    return [*older, *without]


def _next_snapshots(target: RecoveryTarget) -> Mapping[str, Placed]:
    snapshots: dict[str, Placed] = {}
    for placed in target.chain.snapshots:
        if to_of(placed.head) > target.position and not placed.begins:
            for record in placed.head.tables:
                snapshots.setdefault(record.id, placed)
    return snapshots


def _are_of_other_form(target: RecoveryTarget, parts: TableParts, table: Table) -> bool:
    """Return whether changes that count came once a column of the earlier schema in use was altered.

    A column that takes more than it did may have values that it did not take then; and where whole rows are told apart,
    those that lack a column are none of the snapshot's.
    """
    if (since := _earlier_schema(target, table)) is None:
        return False
    if not any(_is_since(record, since) for record in parts.changes):
        return False
    history = history_of(parts, table)
    columns = {column.number: column for column in table.columns if not column.generated}
    for record in history.relevant():
        if not _is_since(record, since):
            continue
        columns_by_number = {each["number"]: Column.from_dict(each) for each in record.columns}
        if not history.key and not columns.keys() <= columns_by_number.keys():
            return True
        if any(
            number in columns and each.takes_other_values(columns[number]) for number, each in columns_by_number.items()
        ):
            return True
    return False


def _earlier_schema(target: RecoveryTarget, table: Table) -> int | None:
    """Return the position of a table's schema, where it is taken though the table may have been altered since."""
    if isinstance(target, ComposedTarget):
        return to_of(target.pair[0].head) if target.composed.doubtful.get(table.oid) == "earlier" else None
    if target.doubt is None or target.schema is not target.doubt[0]:
        return None
    return to_of(target.doubt[0].head)


def _is_since(record: TableRecord, position: int) -> bool:
    return record.first is not None and parse_position(record.first) >= position


def fits(before: Catalog, now: Catalog, table: Table) -> bool:
    """Return whether rows written earlier fit a table's current definition.

    :param before: the objects when they were written.
    """
    old = next((each for each in before.tables if each.oid == table.oid), None)
    if now.types_altered(before, table):
        return False
    if old is None:  # it was made behind that, and a table's first heap has its own oid
        return table.filenode in (0, table.oid)
    return table.holds(old) and can_become(old, table)


def history_of(parts: TableParts, table: Table) -> TableHistory:
    """Return a table's history, in its form at a target, without generated columns: changes lack them."""
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
    """Return each column's value in rows older than the column, by field id."""
    row = conform(_NOTHING, columns)
    return {field_id(field): array[0] for field, array in zip(row.schema, row.columns, strict=True)}
