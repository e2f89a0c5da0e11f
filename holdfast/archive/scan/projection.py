"""Projection of rows from one form of a table to another, by column number.

Only what PostgreSQL changes without rewriting a table is known to it; after a rewrite a table gets a new snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import RefusedError
from holdfast.common.field_ids import EXACT_FIELD_IDS, can_convert, field_id, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADD_ZONE: Final = (r"^([0-9]+-[0-9]{2}-[0-9]{2} [0-9:.]+)( BC)?$", r"\1+00\2")
_DROP_ZONE: Final = (r"\+00( BC)?$", r"\1")


@dataclass(frozen=True, slots=True)
class _Source:
    """Source of a wanted field.

    :param index: of the field as written; None where there is none.
    :param exact: index of its sidecar, which a text takes in.
    :param zone: what a sidecar's text is changed by where its column got or lost a time zone.
    """

    field: pa.Field
    index: int | None
    exact: int | None = None
    zone: tuple[str, str] | None = None


class Projection:
    """Projection of rows from one schema to another.

    :param missing: the values of columns that were not there when they were written, by field id; else NULL.
    :raises RefusedError: a column's type cannot be had from the one it was written in.
    """

    def __init__(self, written: pa.Schema, wanted: pa.Schema, missing: Mapping[int, pa.Scalar]) -> None:
        self._written = written
        self._wanted = wanted
        self._missing = missing
        self._place = {field_id(field): index for index, field in enumerate(written)}
        self._types = {field_id(field): field.type for field in wanted}
        self._sources = [self._source(field) for field in wanted]

    def _source(self, field: pa.Field) -> _Source:
        number = field_id(field)
        index = self._place.get(number)
        if index is None:
            return _Source(field, None)
        kind = self._written.field(index).type
        if not can_convert(kind, field.type):
            raise RefusedError(
                f'the archive holds values of column "{field.name}" as {kind}, and nothing is known of how they '
                f"become {field.type}: choose a moment after the next backup of the table"
            )
        becomes_text = kind != field.type and pa.types.is_string(field.type)
        exact = self._place.get(number + EXACT_FIELD_IDS) if becomes_text else None
        return _Source(field, index, exact, self._zone(number))

    def _zone(self, number: int) -> tuple[str, str] | None:
        column = number_of(number)
        if column == number or column not in self._place or column not in self._types:
            return None
        had, wants = self._written.field(self._place[column]).type, self._types[column]
        if not (pa.types.is_timestamp(had) and pa.types.is_timestamp(wants)) or had.tz == wants.tz:
            return None
        return _DROP_ZONE if had.tz else _ADD_ZONE

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self._array(batch, each) for each in self._sources], schema=self._wanted)

    def _array(self, batch: pa.RecordBatch, source: _Source) -> pa.Array:
        kind = source.field.type
        if source.index is None:
            missing = self._missing.get(field_id(source.field))
            return pa.nulls(batch.num_rows, kind) if missing is None else pa.repeat(missing.cast(kind), batch.num_rows)
        array = batch.column(source.index)
        if source.zone:
            return pc.replace_substring_regex(array, *source.zone)
        if array.type == kind:
            return array
        if pa.types.is_decimal(array.type) and pa.types.is_string(kind):
            # Arrow's own cast would write small numbers as 1E-10.
            array = pa.array([None if each is None else f"{each:f}" for each in array.to_pylist()], pa.string())
        return array.cast(kind) if source.exact is None else pc.coalesce(array, batch.column(source.exact))

    def expressions(self, missing: str) -> list[str]:
        """Return SQL expressions for the wanted fields, named by `name_of`, of a relation as written.

        :param missing: the relation whose only row has the missing values, under the same names.
        """
        return [f"{self._expression(each, missing)} as {name_of(each.field)}" for each in self._sources]

    def _expression(self, source: _Source, missing: str) -> str:
        if source.index is None:
            known = field_id(source.field) in self._missing
            return (
                f"(select {name_of(source.field)} from {missing})" if known else f"null::{sql_type(source.field.type)}"
            )
        name = quoted(self._written.field(source.index).name)
        if source.zone:
            pattern, replacement = (each.replace("'", "''") for each in source.zone)
            return f"regexp_replace({name}, '{pattern}', '{replacement}')"
        if self._written.field(source.index).type == source.field.type:
            return name
        cast = f"{name}::{sql_type(source.field.type)}"
        return cast if source.exact is None else f"coalesce({cast}, {quoted(self._written.field(source.exact).name)})"


def name_of(field: pa.Field) -> str:
    """Return the name of a field inside DuckDB, which ignores case: names of columns may clash."""
    return f"f{field_id(field)}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_SQL_TYPES: Final = {
    "bool": "boolean", "int16": "smallint", "int32": "integer", "int64": "bigint", "float": "float",
    "double": "double", "date32[day]": "date", "time64[us]": "time", "timestamp[us]": "timestamp",
    "timestamp[us, tz=UTC]": "timestamptz", "string": "varchar", "binary": "blob",
}  # fmt: skip


def sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return _SQL_TYPES[str(kind)]
