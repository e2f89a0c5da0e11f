"""Content hash of a table, equal for any order of its rows.

The server and the files of an archive give the same number.

Each value is brought to a normal form, PostgreSQL's own `hash_record_extended` makes 64 bits of the
row, `hashint8extended(r, r)` mixes them, and all rows are summed without losing a bit. The mixing
matters: a record's hash is linear in the hashes of its columns, so that without it two rows could
swap the values of a column and the sum would often stay the same.

Normal forms: integers, bool, dates and times are what PostgreSQL stores; floats their bytes, with one
NaN; numeric(p,s) its digits and, as a value of its own, whether it is below zero; bytea its bytes;
everything else its text in UTF-8, both as the hexadecimal SHA-256 when longer than 1024 bytes.
NULL adds nothing. It proves equality, not authorship.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from holdfast.common.errors import DamagedError
from holdfast.postgresql.connection.sql import ident, literal
from holdfast.postgresql.values import arrow, date_text, pg_hash
from holdfast.postgresql.values.numeric import (
    PACKED,
    SPECIAL,
    NumericDigits,
    digits_of,
    numeric_bytes,
    packed_digits_of,
)
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout, output_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from holdfast.postgresql.catalog.columns import Column
    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s, UInt64s

_LONG: Final = 1024
ROWS_AT_ONCE: Final = 1 << 15
"""Rows whose hashes are in memory at a time."""
_RECORD_SLOTS: Final = 1000  # ROW() takes 1664 values, and numeric columns count twice
_NAN4: Final = np.uint32(0x7FC00000)
_NAN8: Final = np.uint64(0x7FF8000000000000)
_FALSE_TRUE: Final = pg_hash.hash_uint32(np.array([0, 1], np.uint32))
_MIXED: Final = "pg_catalog.hashint8extended(r, r)"
_MINUS_ONE: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class ContentHash:
    """Row count, and the sum of row hashes as signed 64-bit numbers.

    Parts add up.
    """

    rows: int = 0
    total: int = 0

    def __add__(self, other: ContentHash) -> ContentHash:
        """Return the hash of both sets of rows together."""
        return ContentHash(self.rows + other.rows, self.total + other.total)

    def __sub__(self, other: ContentHash) -> ContentHash:
        """Return the hash of these rows without some of them."""
        return ContentHash(self.rows - other.rows, self.total - other.total)

    def __mul__(self, times: int) -> ContentHash:
        """Return the hash of so many copies of each row."""
        return ContentHash(self.rows * times, self.total * times)

    def __str__(self) -> str:
        """Return `rows:total`."""
        return f"{self.rows}:{self.total}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the hash that `str` wrote.

        :raises DamagedError: it is not one.
        """
        rows, _, total = text.partition(":")
        try:
            return cls(int(rows), int(total))
        except ValueError:
            raise DamagedError(f"not a content hash: {text!r}") from None


def hash_select(source: str, columns: Sequence[Column], *, encoding: str = "UTF8") -> str:
    """Return the query of the row count and sum of hashes.

    The session must have the settings of `VALUE_SETTINGS`.

    :param source: what stands behind FROM, quoted and qualified; it has these columns, by name.
    :param encoding: the database's, as `server_encoding` says it.
    """
    rows = _records(columns, encoding, f" from {source}")
    return f"select count(*), coalesce(sum({_MIXED}), 0) from ({rows}) h"


def row_hash(columns: Sequence[Column], *, encoding: str = "UTF8") -> str:
    """Return the SQL of one row's part of the sum.

    It stands where these columns can be named, as in RETURNING.
    """
    return f"(select {_MIXED} from ({_records(columns, encoding)}) h)"


def _records(columns: Sequence[Column], encoding: str, source: str = "") -> str:
    """Return the query of the record hashes, not mixed yet, of rows."""
    stored = layout(tuple(columns))
    kept = ", ".join(f"{kept_value(each, encoding)} as c{each.index}" for each in stored)
    # OFFSET 0 keeps the planner from writing an expression that is used twice in two places.
    slots = [slot for each in stored for slot in _slots(each, f"c{each.index}", encoding)]
    return f"select {_record_hash(slots)} as r from (select {kept}{source} offset 0) k offset 0"


def kept_value(each: StoredColumn, encoding: str = "UTF8") -> str:
    """Return the SQL of a value before its normal form.

    In a database of another encoding than UTF8, text becomes its bytes in UTF-8.
    """
    column = each.column
    if each.form is Form.TEXT and column.base != "bpchar":
        text = f"{ident(column.name)}::pg_catalog.text"
    elif each.form in (Form.TEXT, Form.OUTPUT):
        text = output_text(column)
    else:
        return each.read_expression() if each.form is not Form.DECIMAL else ident(column.name)
    return text if encoding == "UTF8" else f"pg_catalog.convert_to({text}, 'UTF8')"


def _slots(each: StoredColumn, value: str, encoding: str) -> list[str]:
    """Return the SQL of a value's normal form; most have one slot in the record."""
    if each.form is Form.DECIMAL:
        return [value, f"{value} < 0"]
    if each.form is Form.FLOAT:
        send, nan = ("float4send", "7fc00000") if each.column.base == "float4" else ("float8send", "7ff8000000000000")
        nan = literal(f"\\x{nan}") + "::pg_catalog.bytea"
        return [f"case when {value} = 'NaN' then {nan} else pg_catalog.{send}({value}) end"]
    is_text = each.form in (Form.TEXT, Form.OUTPUT)
    if not is_text and each.form is not Form.BYTES:
        return [value]
    as_text = is_text and encoding == "UTF8"
    content = f"pg_catalog.convert_to({value}, 'UTF8')" if as_text else value
    long = f"pg_catalog.encode(pg_catalog.sha256({content}), 'hex')" + ("" if as_text else "::pg_catalog.bytea")
    normal = f"case when pg_catalog.octet_length({value}) > {_LONG} then {long} else {value} end"
    return [f'({normal}) collate "C"' if as_text else normal]


def _record_hash(slots: list[str]) -> str:
    """Return the SQL of a record's hash.

    Too many slots are first hashed in groups.
    """
    if len(slots) > _RECORD_SLOTS:
        groups = range(0, len(slots), _RECORD_SLOTS)
        slots = [_record_hash(slots[first : first + _RECORD_SLOTS]) for first in groups]
    return f"pg_catalog.hash_record_extended(row({', '.join(slots)}), 0)"


def digest(columns: Sequence[Column], batch: pa.RecordBatch) -> ContentHash:
    """Return the content hash of a batch in the Parquet schema of these columns."""
    return ContentHash(batch.num_rows, sum(_total(hashes) for hashes in _row_hashes(columns, batch)))


def digests(columns: Sequence[Column], batch: pa.RecordBatch, starts: Int64s) -> list[ContentHash]:
    """Return the content hash of each part of a batch.

    For many small parts this is much faster than one by one.

    :param starts: the first row of each part but the first, which starts at row 0; in order.
    """
    hashes = [*_row_hashes(columns, batch)]
    return [ContentHash(len(part), _total(part)) for part in np.split(np.concatenate(hashes), starts)]


def _row_hashes(columns: Sequence[Column], batch: pa.RecordBatch) -> Iterator[Int64s]:
    """Yield the mixed hashes of rows, some thousand rows at a time."""
    stored = layout(tuple(columns))
    for first in range(0, batch.num_rows, ROWS_AT_ONCE):
        rows = batch.slice(first, ROWS_AT_ONCE)
        hashes = [hashed for each in stored for hashed in _hash_column(each, rows)]
        yield pg_hash.hash_self(_combine(hashes, rows.num_rows)).view(np.int64)


def _total(hashes: Int64s) -> int:
    """Return a sum of 64-bit numbers without losing a bit."""
    high, low = hashes >> np.int64(32), hashes & np.int64(0xFFFFFFFF)
    return (int(high.sum()) << 32) + int(low.sum())


def _combine(hashes: list[UInt64s], rows: int) -> UInt64s:
    """Return `hash_record_extended` of rows from the hashes of their slots."""
    if len(hashes) > _RECORD_SLOTS:
        groups = range(0, len(hashes), _RECORD_SLOTS)
        parts = [_combine(hashes[first : first + _RECORD_SLOTS], rows) for first in groups]
        hashes = [pg_hash.hash_int8(part.view(np.int64)) for part in parts]
    combined = np.zeros(rows, np.uint64)
    for hashed in hashes:
        combined *= np.uint64(31)
        combined += hashed
    return combined


def _hash_column(each: StoredColumn, rows: pa.RecordBatch) -> Iterator[UInt64s]:
    """Yield the hashes of a column's slots, zero for NULL."""
    array = rows.column(each.index)
    valid = arrow.validity(array)
    exact = None if each.exact is None else arrow.sparse(rows.column(each.exact))
    patches = _EXACT_HASHES[each.form](exact.texts) if exact else ()
    for slot, hashed in enumerate(_HASHES[each.form](array)):
        if valid is not None:
            hashed *= valid
        if exact:
            hashed[exact.rows] = patches[slot][exact.codes]
        yield hashed


def _hash_bool(array: pa.Array) -> list[UInt64s]:
    return [_FALSE_TRUE[arrow.bits(array.buffers()[1], array.offset, len(array)).view(np.uint8)]]


def _hash_integer(array: pa.Array) -> list[UInt64s]:
    if array.type.bit_width == 64:
        return [pg_hash.hash_int8(arrow.numbers(array, np.int64))]
    kind = np.int32 if array.type.bit_width == 32 else np.int16
    return [pg_hash.hash_uint32(arrow.numbers(array, kind).astype(np.int32, copy=False).view(np.uint32))]


def _hash_float(array: pa.Array) -> list[UInt64s]:
    """Hash the bytes as the send function writes them, in network order."""
    if array.type.bit_width == 32:
        singles = arrow.numbers(array, np.float32)
        words = np.where(np.isnan(singles), _NAN4, singles.view(np.uint32)).byteswap()
        return [pg_hash.hash_words(words, None, 4)]
    doubles = arrow.numbers(array, np.float64)
    swapped = np.where(np.isnan(doubles), _NAN8, doubles.view(np.uint64)).byteswap()
    return [pg_hash.hash_words(swapped.astype(np.uint32), (swapped >> np.uint64(32)).astype(np.uint32), 8)]


def _hash_date(array: pa.Array) -> list[UInt64s]:
    days = arrow.numbers(array, np.int32) - np.int32(date_text.EPOCH_DAYS)
    return [pg_hash.hash_uint32(days.view(np.uint32))]


def _hash_timestamp(array: pa.Array) -> list[UInt64s]:
    return [pg_hash.hash_int8(arrow.numbers(array, np.int64) - np.int64(date_text.EPOCH_US))]


def _hash_time(array: pa.Array) -> list[UInt64s]:
    return [pg_hash.hash_int8(arrow.numbers(array, np.int64))]


def _hash_decimal(array: pa.Array) -> list[UInt64s]:
    """Hash the digits without zeros at either end, and the sign, as `hash_numeric_extended` leaves it out."""
    if NumericDigits.of(array.type).width <= PACKED:
        return _hash_packed(array)
    negative, digits = digits_of(array)
    count, width = digits.shape
    leading, trailing = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for columns, zeros in ((range(width), leading), (range(width - 1, -1, -1), trailing)):
        only_zeros = np.ones(count, np.bool_)
        for column in columns:
            only_zeros &= digits[:, column] == 0
            zeros += only_zeros
    buffer = np.zeros(digits.nbytes + pg_hash.GROUP, np.uint8)
    buffer[: digits.nbytes] = digits.view(np.uint8).reshape(-1)
    starts = np.arange(0, count * width, width) + leading
    hashed = pg_hash.hash_bytes(buffer, 2 * starts, 2 * np.maximum(width - leading - trailing, 0))
    hashed ^= (NumericDigits.of(array.type).whole - 1 - leading).view(np.uint64)
    hashed[leading == width] = _MINUS_ONE
    return [hashed, _FALSE_TRUE[negative.view(np.uint8)]]


def _hash_packed(array: pa.Array) -> list[UInt64s]:
    """Hash like `_hash_decimal` where all digits fit one word."""
    shape = NumericDigits.of(array.type)
    negative, digits = packed_digits_of(array)
    leading, trailing = np.zeros(len(digits), np.uint8), np.zeros(len(digits), np.uint8)
    for count in range(1, shape.width):
        bits = np.uint64(16 * count)
        leading += digits & ((np.uint64(1) << bits) - np.uint64(1)) == 0
        trailing += digits >> (np.uint64(16 * shape.width) - bits) == 0
    stripped = digits >> (np.uint64(16) * leading)
    lengths = np.uint32(2) * (np.uint8(shape.width) - leading - trailing)
    words = stripped.view(np.uint32).reshape(-1, 2)
    hashed = pg_hash.hash_words(words[:, 0], words[:, 1], lengths)
    hashed ^= (shape.whole - 1 - leading.astype(np.int64)).view(np.uint64)
    hashed[digits == 0] = _MINUS_ONE
    return [hashed, _FALSE_TRUE[negative.view(np.uint8)]]


def _hash_content(array: pa.Array) -> list[UInt64s]:
    ends = arrow.offsets(array).astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    content = arrow.data(array)
    short = lengths <= _LONG
    if short.all():
        return [_hash_short(content, starts, lengths)]
    hashed = np.empty(len(array), np.uint64)
    hashed[short] = _hash_short(content, starts[short], lengths[short])
    for row in np.flatnonzero(~short):
        value = content[starts[row] : starts[row] + lengths[row]]
        hashed[row] = _hash_one(hashlib.sha256(value.data).hexdigest().encode())
    return [hashed]


def _hash_short(content: UInt8s, starts: Int64s, lengths: Int64s) -> UInt64s:
    """Hash slices of a buffer, in their order there.

    Reading whole groups past the last of them would leave the buffer: those are hashed in a copy.
    """
    hashed = np.empty(len(starts), np.uint64)
    safe = int(np.searchsorted(starts + lengths, len(content) - pg_hash.GROUP, side="right"))
    if safe:
        hashed[:safe] = pg_hash.hash_bytes(content, starts[:safe], lengths[:safe])
    if safe < len(starts):
        tail = np.concatenate([content[starts[safe] :], np.zeros(pg_hash.GROUP, np.uint8)])
        hashed[safe:] = pg_hash.hash_bytes(tail, starts[safe:] - starts[safe], lengths[safe:])
    return hashed


def _hash_one(content: bytes) -> np.uint64:
    buffer = np.frombuffer(content + bytes(pg_hash.GROUP), np.uint8)
    hashed: np.uint64 = pg_hash.hash_bytes(buffer, np.zeros(1, np.int64), np.array([len(content)]))[0]
    return hashed


def _hash_exact_numerics(texts: list[str]) -> tuple[UInt64s, UInt64s]:
    digits = np.array([_hash_sent(numeric_bytes(text)) for text in texts], np.uint64)
    return digits, _FALSE_TRUE[[int(text.startswith("-")) for text in texts]]


def _hash_sent(sent: bytes) -> np.uint64:
    """Return `hash_numeric_extended` of a value in its send form."""
    count, weight, sign = struct.unpack_from(">HhH", sent)
    if sign & SPECIAL == SPECIAL:
        return np.uint64(0)
    if not count:
        return _MINUS_ONE
    digits = np.frombuffer(sent, ">u2", count, 8).astype(np.uint16)
    return _hash_one(digits.tobytes()) ^ np.int64(weight).view(np.uint64)


def _hash_numbers(numbers: list[int]) -> tuple[UInt64s]:
    """Hash the integers behind exceptional dates and times."""
    return (pg_hash.hash_int8(np.array(numbers, np.int64)),)


_HASHES: Final[dict[Form, Callable[[pa.Array], list[UInt64s]]]] = {
    Form.BOOL: _hash_bool,
    Form.INTEGER: _hash_integer,
    Form.FLOAT: _hash_float,
    Form.DATE: _hash_date,
    Form.TIMESTAMP: _hash_timestamp,
    Form.TIME: _hash_time,
    Form.DECIMAL: _hash_decimal,
    Form.TEXT: _hash_content,
    Form.BYTES: _hash_content,
    Form.OUTPUT: _hash_content,
}
_EXACT_HASHES: Final[dict[Form, Callable[[list[str]], tuple[UInt64s, ...]]]] = {
    Form.DATE: lambda texts: _hash_numbers([date_text.date_number(text) for text in texts]),
    Form.TIMESTAMP: lambda texts: _hash_numbers([date_text.timestamp_number(text) for text in texts]),
    Form.TIME: lambda texts: _hash_numbers([date_text.time_number(text) for text in texts]),
    Form.DECIMAL: _hash_exact_numerics,
}
