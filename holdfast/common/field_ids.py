"""Field ids of the columns in data files, which identify columns under any name.

A table's column has its number; other fields have ids that no column number reaches.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

FIELD_ID: Final = b"PARQUET:field_id"
"""Key of a field's metadata."""

EXACT_FIELD_IDS: Final = 100_000
"""Added to a column's number, the id of its sidecar: text of the values that its type cannot hold."""

EXACT_OF: Final = b"holdfast:exact_of"
"""Field metadata of a sidecar: the number of the column whose exceptional values it keeps."""

LSN: Final = 200_001
"""In files of changes: the position of the commit, as an integer."""
SEQ: Final = 200_002
"""In files of changes: the order inside the transaction."""
OP: Final = 200_003
"""In files of changes: I(nsert), U(pdate), D(elete) or T(runcate)."""
UNCHANGED: Final = 200_004
"""In files of changes: the numbers of the columns whose value did not change and is not in the row."""
COUNT: Final = 200_005
"""In net changes of a table without a key: how many times the row was added or taken away."""


def numbered(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    """Return a field with an id."""
    return pa.field(name, kind, nullable, {FIELD_ID: str(number).encode()})


def field_id(field: pa.Field) -> int:
    """Return a field's id; -1 where it has none."""
    return int((field.metadata or {}).get(FIELD_ID, b"-1"))


def number_of(field_id: int) -> int:
    """Return the number of the column whose value or sidecar a field is."""
    return field_id - EXACT_FIELD_IDS if EXACT_FIELD_IDS < field_id < LSN else field_id


def can_convert(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values that were written as one type can be read as another.

    Source: what ALTER TABLE changes without rewriting rows (PostgreSQL manual, 'SET DATA TYPE').
    """
    if kind == wanted:
        return True
    if pa.types.is_decimal(kind):
        wider = pa.types.is_decimal(wanted) and kind.scale == wanted.scale and kind.precision <= wanted.precision
        return wider or bool(pa.types.is_string(wanted))
    return bool(pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted) and kind.unit == wanted.unit)


def with_extra(schema: pa.Schema, *extra: pa.Field) -> pa.Schema:
    """Return a schema with fields appended; underscores make their names unique."""
    for field in extra:
        name = field.name
        while name in schema.names:
            name += "_"
        schema = schema.append(field.with_name(name))
    return schema
