"""Schema evolution: rows of a data file in the table's present schema.

Columns are known by their numbers, which a table's files keep as Parquet field ids, so that renames do not matter. A
column that came later has in older rows what the catalog says of them, one that was dropped falls away, and a type
that PostgreSQL changes without a rewrite of the rows (ALTER TABLE, 'SET DATA TYPE') is converted here. What makes
PostgreSQL rewrite them comes with a snapshot of the new form.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import DamagedError, RefusedError
from holdfast.common.field_ids import EXACT_FIELD_IDS, field_id
from holdfast.postgresql.values.date_text import time_number
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.catalog.columns import Column

_Values = tuple[pa.Array, pa.Array | None]
"""The values of a column, and their sidecar where its form has one."""

_BOOLS: Final = {"t": True, "f": False}


def is_same_schema(file_schema: pa.Schema, columns: Sequence[Column]) -> bool:
    """Return whether a file's columns are these, regardless of their names.

    Its rows and content hashes can then be taken over.
    """
    return _fields(file_schema) == _fields_of(tuple(columns))


def conform(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return a batch of a data file in the Parquet schema of a table's columns.

    Stored generated columns that the file lacks are NULL: the target computes them.

    :raises RefusedError: values of one type cannot be brought to another.
    """
    schema = schema_of(columns)
    if batch.schema is schema or batch.schema.equals(schema, check_metadata=True):
        return batch
    if is_same_schema(batch.schema, columns):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    found = {_number(field): array for field, array in zip(batch.schema, batch.columns, strict=True)}
    stored = layout(tuple(columns))
    if not stored:
        return pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(True), batch.num_rows)], schema=schema)
    parts = [_values(each, found, batch.num_rows) for each in stored]
    sidecars = [exact for _, exact in parts if exact is not None]
    return pa.RecordBatch.from_arrays([*(values for values, _ in parts), *sidecars], schema=schema)


def _number(field: pa.Field) -> int:
    number = field_id(field)
    if number < 0:
        raise DamagedError(f'a data file does not say which column of the table "{field.name}" is')
    return number


def _fields(schema: pa.Schema) -> list[tuple[int, pa.DataType]]:
    return [(_number(field), field.type) for field in schema]


@lru_cache(maxsize=1024)
def _fields_of(columns: tuple[Column, ...]) -> list[tuple[int, pa.DataType]]:
    return _fields(schema_of(columns))


def _values(each: StoredColumn, found: dict[int, pa.Array], rows: int) -> _Values:
    values = found.get(each.column.number)
    if values is None:
        value, exact_text = _missing(each)
        exact = pa.array([exact_text], pa.string())
        return _repeated(value, rows), None if each.exact is None else _repeated(exact, rows)
    exact = found.get(EXACT_FIELD_IDS + each.column.number)
    if exact is None:
        exact = pa.nulls(rows, pa.string())
    if values.type != each.type:
        values, exact = _converted(each, values, exact)
    return values, None if each.exact is None else exact


def _repeated(one: pa.Array, rows: int) -> pa.Array:
    return pa.repeat(one[0], rows) if one.null_count == 0 else pa.nulls(rows, one.type)


def _missing(each: StoredColumn) -> tuple[pa.Array, str | None]:
    """Return a column's value in rows older than the column.

    It is an array of one, with the exact text of the value where that is needed.
    """
    text = each.column.missing
    if text is None:
        return pa.nulls(1, each.type), None
    try:
        return _parsed(each, text), None
    except pa.ArrowInvalid:
        if each.exact is None:
            raise
        return pa.nulls(1, each.type), text


def _parsed(each: StoredColumn, text: str) -> pa.Array:
    if each.form is Form.BOOL:
        return pa.array([_BOOLS[text]])
    if each.form is Form.BYTES:
        return pa.array([bytes.fromhex(text.removeprefix("\\x"))], each.type)
    if each.form is Form.TIME:
        value = pa.array([time_number(text)], pa.int64()).cast(each.type)
        value.validate(full=True)  # 24:00:00 is no time of Arrow's
        return value
    return pa.array([text], pa.string()).cast(each.type)


def _converted(each: StoredColumn, values: pa.Array, exact: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return values of another type, and those that it cannot hold."""
    old, new, base = values.type, each.type, (each.column.base_schema, each.column.base)
    if pa.types.is_decimal(old):
        if pa.types.is_decimal(new) and old.scale == new.scale and old.precision <= new.precision:
            return values.cast(new), exact
        if base == ("pg_catalog", "numeric") and each.form is Form.OUTPUT:
            return pc.coalesce(_decimal_text(values), exact), exact
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(new):
        return values.cast(new), _in_zone(exact) if new.tz else _without_zone(exact)
    if base == ("pg_catalog", "oid") and old == pa.int32():
        return values.view(pa.uint32()).cast(pa.string()), exact
    if base == ("pg_catalog", "int4") and old == pa.string():
        return values.cast(pa.uint32()).view(pa.int32()), exact  # it was an oid
    raise RefusedError(
        f'column "{each.column.name}" is of type {each.column.type}, but older rows have it as {old}, which cannot be '
        "brought to it: restore a moment before its type changed, or a later full backup"
    )


def _decimal_text(values: pa.Array) -> pa.Array:
    """Return numeric(p,s) as PostgreSQL writes it; Arrow would write the small ones with an exponent."""
    scale = values.type.scale
    buffers = values.buffers()
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), buffers, values.null_count, values.offset)
    digits = whole.cast(pa.string())
    if not scale:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    before, behind = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(sign, before, pc.binary_join_element_wise("", behind, "."), "")


def _in_zone(moments: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(moments, r"^(\d.*?)( BC)?$", r"\1+00\2")


def _without_zone(moments: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(moments, r"\+00( BC)?$", r"\1")
