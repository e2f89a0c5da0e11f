"""Encoding of Parquet batches in COPY's formats: as text for every type, and binary, which loads faster, for most.

Fields are joined by Arrow, column by column; no row is touched on its own.

A binary field is its length in four bytes and its value as the type's receive function takes it; NULL is the length -1
(PostgreSQL manual, COPY, Binary Format). Columns of fixed width that stand side by side without a NULL are one matrix
of bytes; Arrow joins those, and the contents of text, row by row.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.values import arrow, date_text
from holdfast.postgresql.values.numeric import NumericDigits, digits_of, numeric_bytes
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import psycopg

    from holdfast.postgresql.catalog.columns import Column
    from holdfast.postgresql.values.pg_hash import UInt8s


_ESCAPES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_HEX: Final = np.frombuffer(b"".join(b"%02x" % octet for octet in range(256)), np.uint16)
_TEXT: Final = pa.large_string()
_EMPTY: Final = pa.scalar("", _TEXT)


def copy_statement(table: str, columns: Sequence[Column], *, binary: bool = False) -> str:
    """Return the COPY statement of these columns; generated ones are left to the server.

    :param table: quoted and qualified.
    """
    names = ", ".join(ident(each.column.name) for each in loaded(columns))
    what = f"{table} ({names})" if names else table
    return f"copy {what} from stdin{' (format binary)' if binary else ''}"


def loaded(columns: Sequence[Column]) -> tuple[StoredColumn, ...]:
    """Return the columns loaded by COPY: all but generated ones."""
    return tuple(each for each in layout(tuple(columns)) if not each.column.generated)


def encode(columns: Sequence[Column], batch: pa.RecordBatch) -> memoryview:
    """Return a batch's rows in COPY's text format.

    The batch is in the Parquet schema of these columns.
    """
    fields = [_field(each, batch) for each in loaded(columns)]
    if not fields:
        return memoryview(b"\n" * batch.num_rows)
    fields[-1] = _joined([fields[-1], _EMPTY], "\n")  # ends the line
    lines = _joined(fields, "\t")
    ends = arrow.offsets(lines)
    return memoryview(lines.buffers()[2])[ends[0] : ends[-1]]


def _joined(fields: list[pa.Array | pa.Scalar], separator: str) -> pa.Array:
    between = pa.scalar(separator, _TEXT)
    return pc.binary_join_element_wise(*fields, between, null_handling="replace", null_replacement="\\N")


def _field(each: StoredColumn, batch: pa.RecordBatch) -> pa.Array:
    array = batch.column(each.index)
    if each.form is Form.BYTES:
        return _bytea(array)
    if each.form in (Form.TEXT, Form.OUTPUT):
        return _escaped(array.cast(_TEXT))
    if each.form is Form.TIMESTAMP:
        array = array.cast(pa.timestamp("us"))  # it is UTC, as is the session
    text = array.cast(_TEXT)
    if each.exact is None:
        return text
    exact = batch.column(each.exact)
    return text if exact.null_count == len(exact) else pc.coalesce(text, exact.cast(_TEXT))


def _escaped(text: pa.Array) -> pa.Array:
    for found, escape in _ESCAPES.items():
        if pc.any(pc.match_substring(text, found)).as_py():
            text = pc.replace_substring(text, found, escape)
    return text


def _bytea(array: pa.Array) -> pa.Array:
    """Return binary values in hexadecimal, behind an escaped backslash and an x."""
    ends = arrow.offsets(array).astype(np.int64)
    octets = arrow.data(array)[ends[0] : ends[-1]]
    digits = pa.py_buffer(_HEX[octets])
    starts = pa.py_buffer(2 * (ends - ends[0]))
    text = pa.Array.from_buffers(_TEXT, len(array), [None, starts, digits])
    prefixed = _joined([pa.scalar("\\\\x", _TEXT), text], "")
    return prefixed if not array.null_count else pc.if_else(array.is_valid(), prefixed, pa.scalar(None, _TEXT))


SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""What such a stream begins with: no flags, no header extension."""

_BINARY: Final = pa.large_binary()
_NULL: Final = pa.scalar(b"\xff\xff\xff\xff", _BINARY)
_NOTHING: Final = pa.scalar(b"", _BINARY)
_TEXT_LIKE: Final = frozenset({"json", "jsonb"})
_JSONB_VERSION: Final = 1
_NIBBLES: Final = np.zeros(256, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_UUID_DIGITS: Final = np.flatnonzero(np.frombuffer(b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", np.uint8) != ord("-"))


def has_binary_form(columns: Sequence[Column]) -> bool:
    """Return whether all loaded columns have a supported binary form."""
    return all(each.form is not Form.OUTPUT or _is_text_like(each) or _is_uuid(each) for each in loaded(columns))


def _is_text_like(each: StoredColumn) -> bool:
    """Return whether the receive function takes the type's text, but for a version byte of jsonb."""
    column = each.column
    return column.kind == "e" or (column.base_schema == "pg_catalog" and column.base in _TEXT_LIKE)


def _is_uuid(each: StoredColumn) -> bool:
    return each.column.base_schema == "pg_catalog" and each.column.base == "uuid"


def encode_binary(columns: Sequence[Column], batch: pa.RecordBatch) -> memoryview:
    """Return a batch's rows in COPY's binary format.

    The batch is in the Parquet schema of these columns.
    """
    stored = loaded(columns)
    pieces: list[pa.Array] = []
    run: list[UInt8s] = [_big_endian(np.full(batch.num_rows, len(stored), np.int16))]
    for each in stored:
        for piece in _pieces(each, batch):
            if isinstance(piece, np.ndarray):
                run.append(piece)
            else:
                pieces += [*_rows(run), piece]
                run = []
    rows = _join([*pieces, *_rows(run)])
    ends = arrow.offsets(rows)
    return memoryview(rows.buffers()[2])[ends[0] : ends[-1]]


def _join(pieces: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, _NOTHING, null_handling="replace", null_replacement=b"")


def _rows(run: list[UInt8s]) -> list[pa.Array]:
    """Return matrices of bytes side by side as one array of their rows."""
    if not run:
        return []
    matrix = np.concatenate(run, axis=1)
    count, width = matrix.shape
    starts = np.arange(count + 1, dtype=np.int64) * width
    return [pa.Array.from_buffers(_BINARY, count, [None, pa.py_buffer(starts), pa.py_buffer(matrix)])]


def _big_endian(values: npt.NDArray[Any]) -> UInt8s:
    """Return the bytes of each value in network order, a row each."""
    swapped = values if values.itemsize == 1 else values.byteswap()
    return swapped.view(np.uint8).reshape(len(values), values.itemsize * math.prod(values.shape[1:]))


def _pieces(each: StoredColumn, batch: pa.RecordBatch) -> Iterator[UInt8s | pa.Array]:
    """Yield the pieces of a field.

    They are matrices of bytes where all rows have the same width, and arrays where not.
    """
    array = batch.column(each.index)
    if each.form in (Form.TEXT, Form.BYTES) or (each.form is Form.OUTPUT and not _is_uuid(each)):
        yield from _content(each, array)
        return
    values = _uuids(array) if each.form is Form.OUTPUT else _FIXED[each.form](array)
    field = np.concatenate([_lengths(np.full(len(array), values.shape[1])), values], axis=1)
    exact = None if each.exact is None else arrow.sparse(batch.column(each.exact))
    if not array.null_count:
        yield field
        return
    [rows] = _rows([field])
    rows = pc.if_else(array.is_valid(), rows, _NULL)
    if exact:
        mask = batch.column(each.exact).is_valid()
        contents = [_EXACT[each.form](text) for text in exact.texts]
        fields = [struct.pack(">i", len(content)) + content for content in contents]
        rows = pc.replace_with_mask(rows, mask, pa.array(fields, _BINARY).take(pa.array(exact.codes)))
    yield rows


def _content(each: StoredColumn, array: pa.Array) -> Iterator[UInt8s | pa.Array]:
    """Yield a field of variable length: the length, then the bytes."""
    lengths = np.diff(arrow.offsets(array))
    jsonb = each.column.base == "jsonb" and each.form is Form.OUTPUT
    prefix = _lengths(lengths + jsonb)
    if jsonb:
        prefix = np.concatenate([prefix, np.full((len(array), 1), _JSONB_VERSION, np.uint8)], axis=1)
    if array.null_count:
        [rows] = _rows([prefix])
        yield pc.if_else(array.is_valid(), rows, _NULL)
    else:
        yield prefix
    yield array.cast(pa.binary(), safe=False).cast(_BINARY)


def _lengths(lengths: npt.NDArray[Any]) -> UInt8s:
    return _big_endian(lengths.astype(np.int32))


def _bool(array: pa.Array) -> UInt8s:
    return _big_endian(arrow.bits(array.buffers()[1], array.offset, len(array)).view(np.uint8))


def _number(array: pa.Array) -> UInt8s:
    kind = {16: np.uint16, 32: np.uint32, 64: np.uint64}[array.type.bit_width]
    return _big_endian(arrow.numbers(array, kind))


def _date(array: pa.Array) -> UInt8s:
    return _big_endian(arrow.numbers(array, np.int32) - np.int32(date_text.EPOCH_DAYS))


def _timestamp(array: pa.Array) -> UInt8s:
    return _big_endian(arrow.numbers(array, np.int64) - np.int64(date_text.EPOCH_US))


def _decimal(array: pa.Array) -> UInt8s:
    """Write all digits that the type can have: the server drops zeros at either end."""
    negative, digits = digits_of(array)
    header = np.empty((len(array), 4), np.int16)
    header[:, 0] = digits.shape[1]
    header[:, 1] = NumericDigits.of(array.type).whole - 1
    header[:, 2] = negative
    header[:, 2] <<= 14
    header[:, 3] = array.type.scale
    return np.concatenate([_big_endian(header), _big_endian(digits)], axis=1)


def _uuids(array: pa.Array) -> UInt8s:
    texts = array.fill_null("0" * 36) if array.null_count else array
    first = arrow.offsets(texts)[0]
    letters = arrow.data(texts)[first : first + 36 * len(texts)].reshape(-1, 36)
    nibbles = _NIBBLES[letters[:, _UUID_DIGITS]]
    octets: UInt8s = (nibbles[:, 0::2] << np.uint8(4)) | nibbles[:, 1::2]
    return octets


_FIXED: Final[dict[Form, Callable[[pa.Array], UInt8s]]] = {
    Form.BOOL: _bool,
    Form.INTEGER: _number,
    Form.FLOAT: _number,
    Form.DATE: _date,
    Form.TIMESTAMP: _timestamp,
    Form.TIME: _number,
    Form.DECIMAL: _decimal,
}
_EXACT: Final[dict[Form, Callable[[str], bytes]]] = {
    Form.DATE: lambda text: struct.pack(">i", date_text.date_number(text)),
    Form.TIMESTAMP: lambda text: struct.pack(">q", date_text.timestamp_number(text)),
    Form.TIME: lambda text: struct.pack(">q", date_text.time_number(text)),
    Form.DECIMAL: numeric_bytes,
}


def copy_in(
    cursor: psycopg.Cursor[Any], table: str, columns: Sequence[Column], batches: Iterable[pa.RecordBatch]
) -> int:
    """Load batches and return the number of rows.

    The binary format is used where all columns have one: it loads half as fast again as text. The
    session must have the settings of `VALUE_SETTINGS`.

    :param table: quoted and qualified.
    :param batches: in the Parquet schema of these columns.
    """
    binary = has_binary_form(columns)
    rows = 0
    with cursor.copy(copy_statement(table, columns, binary=binary).encode()) as copy:
        if binary:
            copy.write(SIGNATURE)
        for batch in batches:
            copy.write(encode_binary(columns, batch) if binary else encode(columns, batch))
            rows += batch.num_rows
    return rows
