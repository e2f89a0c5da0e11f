"""Rows that the server sends column by column: the query, and the reader of its answer.

A driver spends time on every field of every row. Here a field holds a column's values in many rows, one behind the
other, as PostgreSQL's send functions write them, and numpy reads them at once. NULLs are left out, and a mask says
where they were. Where values differ in length, the lengths come beside; or a mark ends each that none of them can hold,
where to know the length first would take the server longer.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.values import arrow, date_text
from holdfast.postgresql.values.stored_columns import Form, StoredColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.values.arrow import Bools, Number
    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s

_FIXED: Final = {
    "bool": "boolsend",
    "int2": "int2send",
    "int4": "int4send",
    "int8": "int8send",
    "float4": "float4send",
    "float8": "float8send",
    "date": "date_send",
    "timestamp": "timestamp_send",
    "timestamptz": "timestamptz_send",
    "time": "time_send",
}
_TEXTS: Final = {"text": "", "varchar": "", "bpchar": "pg_catalog.bpcharsend", "name": "pg_catalog.namesend"}
"""How types of text become one that can be joined: as `text`, bpchar would lose its blanks."""

_OUTPUT_END: Final = 0
"""Ends what an output function gives: it cannot hold a zero octet."""

_NUMERIC_END: Final = 0xEEEE
"""Ends a numeric(p,s): none of its words (digits up to 9999, signs, scale, weight) is ever this."""

_WITH_LENGTHS: Final = (Form.TEXT, Form.BYTES)

_MOST_FIELDS: Final = 1600
"""PostgreSQL has 1664 values in a row at most."""


class ColumnarReader:
    """Select list, and reader of its answer, for the columns of one table.

    The database's encoding must be UTF8, since lengths of text are its own.

    :param stored: as `layout` gives them.
    """

    def __init__(self, stored: Sequence[StoredColumn]) -> None:
        self._stored = tuple(stored)
        self._fields = ["pg_catalog.count(*)", *(field for each in stored for field in _fields_of(each))]

    @property
    def is_possible(self) -> bool:
        """Return whether the server can send these columns in this way."""
        return 1 < len(self._fields) <= _MOST_FIELDS

    def select_list(self) -> str:
        """Return the select list of a query over some pages.

        It has no GROUP BY.
        """
        return ", ".join(self._fields)

    def answers(self, sent: bytes, sizes: Sequence[int]) -> pa.RecordBatch:
        """Return the rows of a binary COPY as a single one.

        `rows` takes it.

        :raises HoldfastError: they do not have these fields.
        """
        view = memoryview(sent)
        ends = accumulate(sizes)
        rows = (view[end - size : end] for end, size in zip(ends, sizes, strict=True))
        fields = zip(*(_fields_in(row, len(self._fields)) for row in rows), strict=True)
        count = sum(map(int.from_bytes, next(fields)))
        arrays = [pa.array([count], pa.int64()), *(_one(b"".join(field)) for field in fields)]
        return pa.RecordBatch.from_arrays(arrays, names=self._fields)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in a batch of answers, in order, as `Decoder.decode` takes them.

        :raises HoldfastError: columns have another number of values than rows.
        """
        count = int(arrow.numbers(batch.column(0), np.int64).sum())
        contents = map(_content, batch.columns[1:])
        columns = [_column(each, count, contents) for each in self._stored]
        return pa.RecordBatch.from_arrays(columns, names=[each.column.name for each in self._stored])


def _one(octets: bytes) -> pa.Array:
    """Return an array of one value, without a copy."""
    edges = pa.py_buffer(np.array([0, len(octets)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(octets)])


def _fields_in(view: memoryview, count: int) -> Iterator[memoryview]:
    """Yield the fields of a row of a binary COPY, a NULL as none at all."""
    at = 2
    for _ in range(count):
        size = int.from_bytes(view[at : at + 4], signed=True)
        at += 4
        size = max(size, 0)
        yield view[at : at + size]
        at += size
    if at != len(view) or int.from_bytes(view[:2]) != count:
        raise HoldfastError("the server did not send the fields that it was asked for: back up again")


def _fields_of(each: StoredColumn) -> Iterator[str]:
    """Yield the SQL of a column's fields: the mask of values that are there, the values, their lengths."""
    value = ident(each.column.name)
    if not each.column.not_null:
        # IS NULL is also true of a composite value whose fields are all NULL.
        there = f"case when {value} is distinct from null then '\\x01'::pg_catalog.bytea else '\\x00' end"
        yield _joined(there)
    expression = each.read_expression()
    if each.form is Form.OUTPUT:
        yield _ended(f"pg_catalog.textsend({expression})", f"{_OUTPUT_END:02x}")
    elif each.form is Form.DECIMAL:
        yield _ended(expression, f"{_NUMERIC_END:04x}")
    elif each.form in _WITH_LENGTHS:
        yield _joined(f"{_TEXTS.get(each.column.base, '')}({expression})")
        yield _joined(f"pg_catalog.int4send(pg_catalog.octet_length({expression}))")
    else:
        yield _joined(f"pg_catalog.{_FIXED[each.column.base]}({expression})")


def _joined(octets: str) -> str:
    return f"pg_catalog.string_agg({octets}, '')"


def _ended(octets: str, mark: str) -> str:
    literal = f"'\\x{mark}'::pg_catalog.bytea"
    return f"pg_catalog.string_agg({octets}, {literal}) operator(pg_catalog.||) {literal}"


def _content(array: pa.Array) -> UInt8s:
    offsets = arrow.offsets(array)
    return arrow.data(array)[offsets[0] : offsets[-1]]


def _column(each: StoredColumn, rows: int, contents: Iterator[UInt8s]) -> pa.Array:
    there = None if each.column.not_null else _mask(next(contents), rows)
    count = rows if there is None else int(np.count_nonzero(there))
    content = next(contents)
    if each.form is Form.OUTPUT:
        lengths = _lengths(content, np.uint8, _OUTPUT_END, count)
        ends = np.cumsum(lengths)
        texts = arrow.slices(pa.py_buffer(content), ends - lengths, lengths - 1)
        return variable(pa.string(), arrow.data(texts), lengths - 1, there)
    if each.form is Form.DECIMAL:
        return variable(pa.binary(), content, _lengths(content, np.uint16, _NUMERIC_END, count), there)
    if each.form in _WITH_LENGTHS:
        lengths = _numbers(next(contents), ">i4", count).astype(np.int64)
        if lengths.sum() != len(content):
            raise _wrong(count)
        return variable(each.type, content, lengths, there)
    return fixed(each, content, count, there)


def _mask(content: UInt8s, rows: int) -> Bools | None:
    """Return the mask of the values that are there; None where all are."""
    there = _numbers(content, np.bool_, rows)
    return None if there.all() else there


def _numbers(content: UInt8s, kind: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    if len(content) != count * np.dtype(kind).itemsize:
        raise _wrong(count)
    return content.view(kind)


def _lengths(content: UInt8s, kind: type[np.unsignedinteger[Any]], mark: int, count: int) -> Int64s:
    """Return the octets of each value, with the mark behind it."""
    width = np.dtype(kind).itemsize
    words = content[: len(content) // width * width].view(kind)
    ends = np.flatnonzero(words == mark) + 1
    if len(ends) != count or (ends[-1] * width if count else 0) != len(content):
        raise _wrong(count)
    return width * np.diff(ends, prepend=0)


def _wrong(count: int) -> HoldfastError:
    return HoldfastError(f"the server did not send {count} values of a column, as it said: back up again")


def _spread(values: npt.NDArray[Number], there: Bools | None) -> npt.NDArray[Number]:
    """Return values at their rows, with zero where there is none."""
    if there is None:
        return values
    spread = np.zeros(len(there), values.dtype)
    spread[there] = values
    return spread


def variable(kind: pa.DataType, content: UInt8s, lengths: Int64s, there: Bools | None) -> pa.Array:
    """Return values that follow each other without a gap.

    Numbers keep their mark, which their reader does not look at.
    """
    lengths = _spread(lengths, there)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    bitmap = None if there is None else arrow.bitmap(there)
    return pa.Array.from_buffers(kind, len(lengths), [bitmap, pa.py_buffer(offsets), pa.py_buffer(content)])


def fixed(each: StoredColumn, content: UInt8s, count: int, there: Bools | None) -> pa.Array:
    """Return values of one width, with what the driver adds to dates and times: days or microseconds since 1970."""
    if each.form is Form.BOOL:
        values = arrow.bitmap(_spread(_numbers(content, np.bool_, count), there))
    else:
        width = each.type.bit_width // 8
        sent = _numbers(content, f">i{width}", count).astype(f"i{width}")
        if (epoch := _EPOCHS.get(each.form)) is not None:
            sent += sent.dtype.type(epoch)  # wraps round, as the driver's does: `decode` takes it off again
        values = pa.py_buffer(_spread(sent, there))
    bitmap = None if there is None else arrow.bitmap(there)
    return pa.Array.from_buffers(each.type, count if there is None else len(there), [bitmap, values])


_EPOCHS: Final = {Form.DATE: date_text.EPOCH_DAYS, Form.TIMESTAMP: date_text.EPOCH_US}
