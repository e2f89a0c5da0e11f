"""Type mapping: each column's Parquet type, and its expression in queries.

Common types have a Parquet type of their own. All others are kept as exactly the text their output
function gives, which is what `COPY` writes and reads. It is asked for as `textin(<output>(x))` and
never as `x::text`: that strips the blanks of bpchar and adds a mask to inet, and anybody may define
another cast for a type of theirs.

A date, time or number(p,s) that its Parquet type cannot hold is NULL there and stands as text in a
second column, its sidecar.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.common.field_ids import EXACT_FIELD_IDS, EXACT_OF, numbered
from holdfast.postgresql.catalog.columns import check_keepable
from holdfast.postgresql.connection.sql import ident, qualified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.catalog.columns import Column

ROWS_FIELD: Final = numbered("rows", pa.bool_(), EXACT_FIELD_IDS)
"""Stands in the files of a table without columns, where Parquet could not count rows otherwise."""

_MAX_PRECISION: Final = 38


class Form(Enum):
    """Storage form of a column's values."""

    BOOL = "bool"
    INTEGER = "integer"
    FLOAT = "float"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIME = "time"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    OUTPUT = "output"
    """The text that the type's output function gives."""


_EXCEPTIONAL: Final = frozenset({Form.DATE, Form.TIMESTAMP, Form.TIME, Form.DECIMAL})
_NATURAL: Final[dict[str, tuple[Form, pa.DataType]]] = {
    "bool": (Form.BOOL, pa.bool_()),
    "int2": (Form.INTEGER, pa.int16()),
    "int4": (Form.INTEGER, pa.int32()),
    "int8": (Form.INTEGER, pa.int64()),
    "float4": (Form.FLOAT, pa.float32()),
    "float8": (Form.FLOAT, pa.float64()),
    "date": (Form.DATE, pa.date32()),
    "timestamp": (Form.TIMESTAMP, pa.timestamp("us")),
    "timestamptz": (Form.TIMESTAMP, pa.timestamp("us", tz="UTC")),
    "time": (Form.TIME, pa.time64("us")),
    "text": (Form.TEXT, pa.string()),
    "varchar": (Form.TEXT, pa.string()),
    "bpchar": (Form.TEXT, pa.string()),
    "name": (Form.TEXT, pa.string()),
    "bytea": (Form.BYTES, pa.binary()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """Column as stored in the data files.

    :param index: of its field in the schema.
    :param exact: index of its sidecar; None for forms whose type holds every value.
    """

    column: Column
    form: Form
    type: pa.DataType
    index: int
    exact: int | None

    def read_expression(self) -> str:
        """Return the SQL expression that the decoder turns into the field."""
        column = self.column
        if self.form is Form.OUTPUT:
            return output_text(column)
        base = f"{ident(column.name)}::{qualified(column.base_schema, column.base)}"
        return f"pg_catalog.numeric_send({base})" if self.form is Form.DECIMAL else base


def output_text(column: Column) -> str:
    """Return the SQL of a column's value as text by its output function.

    Its polymorphic kinds refuse a domain, so that is cast to its base type, which changes nothing.
    """
    base = f"{ident(column.name)}::{qualified(column.base_schema, column.base)}"
    if column.base_schema == "pg_catalog" and column.base == "refcursor":
        return f"{base}::pg_catalog.text"  # its output function is that of text, which does not take it
    return f"pg_catalog.textin({column.output}({base}))"


def form_of(column: Column) -> tuple[Form, pa.DataType]:
    """Return a column's form and Arrow type."""
    if column.base_schema == "pg_catalog":
        if column.base in _NATURAL:
            return _NATURAL[column.base]
        precision, scale = column.precision, column.scale
        if precision is not None and scale is not None and 0 <= scale <= precision <= _MAX_PRECISION:
            return Form.DECIMAL, pa.decimal128(precision, scale)
    return Form.OUTPUT, pa.string()


@lru_cache(maxsize=1024)
def layout(columns: tuple[Column, ...]) -> tuple[StoredColumn, ...]:
    """Return the columns with values, as files have them.

    :raises UnkeepableTypeError: a type cannot be loaded again.
    """
    check_keepable(columns)
    kept = [column for column in columns if column.generated != "v"]
    stored = []
    exact = len(kept)
    for index, column in enumerate(kept):
        form, kind = form_of(column)
        sidecar = exact if form in _EXCEPTIONAL else None
        stored.append(StoredColumn(column=column, form=form, type=kind, index=index, exact=sidecar))
        exact += sidecar is not None
    return tuple(stored)


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Parquet schema: the columns, then their sidecars."""
    stored = layout(tuple(columns))
    if not stored:
        return pa.schema([ROWS_FIELD])
    taken = {each.column.name for each in stored}
    fields = [numbered(each.column.name, each.type, each.column.number) for each in stored]
    for each in stored:
        if each.exact is not None:
            name = _unused(f"{each.column.name}__exact", taken)
            number = each.column.number
            sidecar = numbered(name, pa.string(), EXACT_FIELD_IDS + number)
            fields.append(sidecar.with_metadata({**sidecar.metadata, EXACT_OF: str(number).encode()}))
    return pa.schema(fields)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
