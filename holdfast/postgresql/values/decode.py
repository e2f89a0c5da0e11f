"""Decoding of query batches into Parquet batches, without a loop over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import HoldfastError
from holdfast.common.value_limit import MAX_VALUE_BYTES, MAX_VALUE_VARIABLE
from holdfast.postgresql.values import arrow, date_text
from holdfast.postgresql.values.columnar import ColumnarReader
from holdfast.postgresql.values.content_hash import ContentHash, digest
from holdfast.postgresql.values.numeric import decode_numeric
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.postgresql.catalog.columns import Column

# What Parquet readers take as dates and times, as integers since PostgreSQL's epoch: years 1 to 9999.
_DATES: Final = (date_text.date_number("0001-01-01"), date_text.date_number("9999-12-31"))
_MOMENTS: Final = (
    date_text.timestamp_number("0001-01-01 00:00:00"),
    date_text.timestamp_number("9999-12-31 23:59:59.999999"),
)
_TIMES: Final = (0, date_text.DAY_US - 1)


class UnkeepableValueError(HoldfastError):
    """Value that cannot be kept.

    :param row: its number in the batch, from 0.
    :param why: and what to do about it.
    """

    def __init__(self, *, column: str, row: int, why: str, table: str = "", where: str = "") -> None:
        super().__init__(f'{table or "a table"}, {where or f"row {row} of a batch"}, column "{column}": {why}')
        self.column = column
        self.row = row
        self.why = why

    def of(self, table: str, where: str) -> UnkeepableValueError:
        """Return the same error, naming the table and the row."""
        return type(self)(column=self.column, row=self.row, why=self.why, table=table, where=where)


class ValueTooLargeError(UnkeepableValueError):
    """Value above the size limit."""


class NoTextError(UnkeepableValueError):
    """Output of a type that is no valid text.

    PostgreSQL could not read it again.
    """


class Decoder:
    """Query and decoder of one table's rows, into Parquet's types.

    It relies on the session settings of `VALUE_SETTINGS`.

    :param columns: all of the table's, in order.
    :param max_value_bytes: larger values are refused.
    :param columnar: reader of the same rows where the server sends them column by column.
    :raises UnkeepableTypeError: a type cannot be loaded again.
    """

    def __init__(self, columns: Sequence[Column], *, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self.columns = tuple(columns)
        self.schema: pa.Schema = schema_of(self.columns)
        self.stored = layout(self.columns)
        self.columnar = ColumnarReader(self.stored)
        self.limit = max_value_bytes

    def select_list(self) -> str:
        """Return the select list of the query, to be followed by `from only <table>`."""
        return ", ".join(each.read_expression() for each in self.stored) or "true"

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the query in the Parquet schema.

        :raises UnkeepableValueError: naming column and row of the first value above the limit, or that is no text.
        """
        values: list[pa.Array] = []
        sidecars: list[pa.Array] = []
        for each, array in zip(self.stored, batch.columns, strict=bool(self.stored)):
            if pa.types.is_binary(array.type) or pa.types.is_string(array.type):
                check_size(each, np.diff(arrow.offsets(array)), self.limit)
            if each.form is Form.OUTPUT:
                check_text(each, array)
            value, *exact = _decode(each, array)
            values.append(value)
            sidecars += exact
        if not self.stored:
            values = [batch.column(0)]
        return pa.RecordBatch.from_arrays(values + sidecars, schema=self.schema)

    def digest(self, decoded: pa.RecordBatch) -> ContentHash:
        """Return the content hash of a decoded batch."""
        return digest(self.columns, decoded)


def check_size(each: StoredColumn, sizes: npt.NDArray[np.signedinteger], limit: int) -> None:
    """Refuse values of a column above a limit, all in bytes.

    :raises ValueTooLargeError: naming column and row.
    """
    largest = int(sizes.max(initial=0))
    if largest > limit:
        row = int(np.argmax(sizes > limit))
        why = (
            f"a value of {sizes[row]} bytes is above the limit of {limit}: set {MAX_VALUE_VARIABLE} higher "
            "(each task may need four times as much memory), or shorten the value"
        )
        raise ValueTooLargeError(column=each.column.name, row=row, why=why)


def check_text(each: StoredColumn, array: pa.Array) -> None:
    """Refuse values that are no valid text in a column kept as its type's output.

    PostgreSQL checks the encoding of text, not of what a type gives out: "char" is one byte before 15, any one.

    :raises NoTextError: naming column and row.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        row = next(row for row in range(len(array)) if not _is_text(array[row]))
        why = f"PostgreSQL writes a value of type {each.column.type} that is no UTF-8 and that it could not read again"
        raise NoTextError(column=each.column.name, row=row, why=f"{why}: change the value, or its type") from error


def _is_text(value: pa.StringScalar) -> bool:
    try:
        value.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decode(each: StoredColumn, array: pa.Array) -> tuple[pa.Array, ...]:
    """Return the values, and their sidecar where the form has one."""
    if each.form is Form.DECIMAL:
        return decode_numeric(array, each.type)
    if each.form is Form.DATE:
        return _split(array, np.int32, date_text.EPOCH_DAYS, _DATES, date_text.date_text)
    if each.form is Form.TIMESTAMP:
        zone = "+00" if each.type.tz else ""
        return _split(
            array, np.int64, date_text.EPOCH_US, _MOMENTS, lambda raw: date_text.timestamp_text(raw, zone=zone)
        )
    if each.form is Form.TIME:
        return _split(array, np.int64, 0, _TIMES, date_text.time_text)
    return (array,)


def _split(
    array: pa.Array,
    kind: type[np.signedinteger],
    epoch: int,
    bounds: tuple[int, int],
    text: Callable[[int], str],
) -> tuple[pa.Array, pa.Array]:
    """Move values outside of the bounds to a sidecar.

    :param epoch: what the driver added, wrapping round where that overflows: subtracted, it gives
        the stored integer again, whose extremes mean the infinities.
    """
    exact = pa.nulls(len(array), pa.string())
    shown = arrow.numbers(array, kind)
    if not len(shown) or (shown.min() >= bounds[0] + epoch and shown.max() <= bounds[1] + epoch):
        return array, exact
    strange = (shown < bounds[0] + epoch) | (shown > bounds[1] + epoch)
    valid = arrow.validity(array)
    if valid is not None:
        strange &= valid
    if not strange.any():
        return array, exact
    rows = np.flatnonzero(strange)
    numbers, codes = np.unique(shown[rows] - kind(epoch), return_inverse=True)
    texts = [text(number) for number in numbers.tolist()]
    exact = arrow.spread(arrow.Sparse(rows, codes, texts), len(array))
    return pc.if_else(pa.array(~strange), array, pa.scalar(None, array.type)), exact
