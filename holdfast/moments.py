"""What a moment of an archive means for a database: its objects, and the parts of each of its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import TypeAdapter

from holdfast.archive.blocks import read_file
from holdfast.archive.history import TableHistory
from holdfast.fields import field_id, numbered
from holdfast.sources.postgresql.catalog import Catalog, SequenceValue
from holdfast.sources.postgresql.conform import conform
from holdfast.sources.postgresql.forms import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.archive.model import Block
    from holdfast.archive.timeline import Moment, TableParts
    from holdfast.sources.postgresql.catalog import Table
    from holdfast.sources.postgresql.columns import Column
    from holdfast.storage import ObjectStore

_SEQUENCES = TypeAdapter(tuple[SequenceValue, ...])

_NOTHING = pa.record_batch([pa.nulls(1)], pa.schema([numbered("nothing", pa.null(), 0)]))
"""A row without any column that a table can have."""


def catalog_of(store: ObjectStore, moment: Moment) -> Catalog:
    """Return the record of a moment's objects, with sequences that stand no earlier than its rows.

    :raises DamagedError: a file of it is missing or changed.
    """
    catalog = Catalog.model_validate_json(read_file(store, moment.schema.block.catalog))
    known = {(value.sequence_schema, value.name): value for value in _read_sequences(store, moment.sequences.block)}
    sequences = (known.get((value.sequence_schema, value.name), value) for value in catalog.sequences)
    return catalog.model_copy(update={"sequences": tuple(sequences)})


def _read_sequences(store: ObjectStore, block: Block) -> Iterable[SequenceValue]:
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

    Rows that are older than the moment may be of another form than the table has there, and nobody knows how they
    become of this one.

    :param catalog: the moment's, as `catalog_of` returned it.
    :raises DamagedError: a file of it is missing or changed.
    """
    now = {str(table.oid): table for table in catalog.tables}
    before: dict[str, Catalog] = {}
    fit: dict[str, TableParts] = {}
    unfit: dict[str, TableParts] = {}
    for name, parts in moment.tables().items():
        fits = True
        if parts.stale and name in now:
            path = parts.catalog.path
            if path not in before:
                before[path] = Catalog.model_validate_json(read_file(store, parts.catalog))
            fits = _fits(before[path], catalog, now[name])
        (fit if fits else unfit)[name] = parts
    return fit, unfit


def _fits(before: Catalog, now: Catalog, table: Table) -> bool:
    old = next((each for each in before.tables if each.oid == table.oid), table)
    if table.has_own_types and now.types_altered(before):
        return False
    return not table.is_rewritten(old) or old.columns == table.columns


def history_of(moment: Moment, parts: TableParts, table: Table) -> TableHistory:
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
        upto=moment.position,
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
