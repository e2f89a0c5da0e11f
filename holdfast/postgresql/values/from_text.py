"""Decoding of text values into arrays for Parquet, column by column.

The same value gives the same array as `decode.Decoder` makes of its binary form, sidecar included: text is what a
stream of changes and `COPY` hold, written under the settings of `VALUE_SETTINGS`.
"""

from __future__ import annotations

from binascii import unhexlify
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.values import arrow
from holdfast.postgresql.values.decode import check_size, check_text
from holdfast.postgresql.values.stored_columns import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.postgresql.values.arrow import Bools
    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s
    from holdfast.postgresql.values.stored_columns import StoredColumn

_ZERO, _DOT, _DASH, _LAST_OF_BC, _TRUE = b"0.-Ct"
_DIGITS: Final = np.zeros(256, np.bool_)
_DIGITS[list(b"0123456789")] = True
_NIBBLES: Final = np.zeros(256, np.uint8)
_NIBBLES[list(b"0123456789abcdef")] = np.arange(16)
_US: Final = 1_000_000
_LARGE_BYTES: Final = 64 << 10


class Cells(NamedTuple):
    """The values of one column in many tuples, as places in the buffer.

    :param start, length: of the text; where there is none, an empty place.
    :param text: which are there.
    :param unchanged: which did not change and are not in the log; None where all are there.
    """

    start: Int64s
    length: Int64s
    text: Bools
    unchanged: Bools | None

    def of(self, rows: Int64s | Bools) -> Cells:
        """Return those of some rows."""
        unchanged = None if self.unchanged is None else self.unchanged[rows]
        return Cells(self.start[rows], self.length[rows], self.text[rows], unchanged)


class TextDecoder:
    """Decoder of the text values in one buffer.

    :param buffer: of all values; `octets` is the same.
    :param limit: bytes of the largest value that is kept.
    """

    def __init__(self, buffer: pa.Buffer, octets: UInt8s, limit: int) -> None:
        self._buffer = buffer
        self._octets = octets
        self._limit = limit

    def decode(self, each: StoredColumn, cells: Cells) -> tuple[pa.Array, ...]:
        """Return the values of a column, and its sidecar where it has one.

        A value is NULL where there is no text.

        :param cells: in the order in which they stand in the buffer.
        :raises UnkeepableValueError: naming column and row.
        :raises HoldfastError: a value is not what PostgreSQL writes.
        """
        form = each.form
        if form in (Form.TEXT, Form.OUTPUT, Form.BYTES):
            return (self._large(each, cells),)
        if form is Form.BOOL:
            true = self._octets.take(cells.start, mode="clip") == _TRUE
            return (_with_nulls(arrow.bitmap(true), cells.text, each.type),)
        if each.exact is None:
            return (self._cast(each, cells),)
        if not len(cells.start):
            return pa.nulls(0, each.type), pa.nulls(0, pa.string())
        strange = _STRANGE[form](self._octets, cells, each)
        if not strange.any():
            return self._natural(each, cells), pa.nulls(len(strange), pa.string())
        return self._natural(each, _only(cells, cells.text & ~strange)), self.strings(_only(cells, strange))

    def _large(self, each: StoredColumn, cells: Cells) -> pa.Array:
        sizes = cells.length
        if each.form is Form.BYTES:
            sizes = np.maximum(sizes - 2, 0) // 2
        check_size(each, sizes, self._limit)
        if each.form is Form.BYTES:
            return self._bytes(cells)
        array = self.strings(cells)
        if each.form is Form.OUTPUT:
            check_text(each, array)
        return array

    def _natural(self, each: StoredColumn, cells: Cells) -> pa.Array:
        return self._times(cells) if each.form is Form.TIME else self._cast(each, cells)

    def _cast(self, each: StoredColumn, cells: Cells) -> pa.Array:
        try:
            return pc.cast(self.strings(cells), each.type)
        except pa.ArrowInvalid as error:
            raise HoldfastError(
                f'the server wrote a value of column "{each.column.name}" that is no {each.column.type} '
                "as this release knows it: update Holdfast"
            ) from error

    def strings(self, cells: Cells) -> pa.StringArray:
        """Copy the texts out of the buffer."""
        found = arrow.slices(self._buffer, cells.start, cells.length)
        if cells.text.all():
            return found
        _, offsets, data = found.buffers()
        return pa.StringArray.from_buffers(len(found), offsets, data, arrow.bitmap(cells.text))

    def _bytes(self, cells: Cells) -> pa.Array:
        """Decode bytea_output hex: a backslash, an x, two digits an octet."""
        if cells.length.max(initial=0) > _LARGE_BYTES:
            return self._large_bytes(cells)
        digits = self.strings(
            cells._replace(start=cells.start + 2 * cells.text, length=np.maximum(cells.length - 2, 0))
        )
        offsets = arrow.offsets(digits)
        nibbles = _NIBBLES[arrow.data(digits)[: offsets[-1]]]
        octets = nibbles[0::2] << 4 | nibbles[1::2]
        valid = None if cells.text.all() else arrow.bitmap(cells.text)
        edges = pa.py_buffer((offsets // 2).astype(np.int32))
        return pa.Array.from_buffers(pa.binary(), len(digits), [valid, edges, pa.py_buffer(octets)])

    def _large_bytes(self, cells: Cells) -> pa.Array:
        """Decode one by one: all at once takes several times the memory of the values."""
        view = memoryview(self._buffer)
        places = zip(cells.start.tolist(), cells.length.tolist(), cells.text.tolist(), strict=True)
        return pa.array(
            (unhexlify(view[start + 2 : start + length]) if text else None for start, length, text in places),
            pa.binary(),
        )

    def _times(self, cells: Cells) -> pa.Array:
        def digit(place: int) -> Int64s:
            return self._octets.take(cells.start + place, mode="clip").astype(np.int64) - _ZERO

        def pair(place: int) -> Int64s:
            return 10 * digit(place) + digit(place + 1)

        microseconds = ((pair(0) * 60 + pair(3)) * 60 + pair(6)) * _US
        for place in range(9, int(cells.length.max(initial=0))):
            microseconds += np.where(cells.length > place, digit(place) * 10 ** (14 - place), 0)
        return _with_nulls(pa.py_buffer(microseconds), cells.text, pa.time64("us"))


def _only(cells: Cells, which: Bools) -> Cells:
    """Return the same places with these texts alone."""
    return cells._replace(text=which, length=np.where(which, cells.length, 0))


def _with_nulls(values: pa.Buffer, valid: Bools, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(valid), [None if valid.all() else arrow.bitmap(valid), values])


def _strange_date(octets: UInt8s, cells: Cells, each: StoredColumn) -> Bools:
    """Return the mask of dates for the sidecar.

    Dates of four-digit years after Christ have ten letters; no other date, and no infinity, has.
    """
    strange: Bools = cells.text & (cells.length != len("2000-01-01"))
    return strange


def _strange_timestamp(octets: UInt8s, cells: Cells, each: StoredColumn) -> Bools:
    year_of_four = octets.take(cells.start + 4, mode="clip") == _DASH
    strange: Bools = cells.text & (~year_of_four | (_from_end(octets, cells, 1) == _LAST_OF_BC))
    return strange


def _strange_time(octets: UInt8s, cells: Cells, each: StoredColumn) -> Bools:
    first, second = (octets.take(cells.start + place, mode="clip") for place in (0, 1))
    strange: Bools = cells.text & (first == ord("2")) & (second == ord("4"))
    return strange


def _strange_decimal(octets: UInt8s, cells: Cells, each: StoredColumn) -> Bools:
    """Return the mask of decimals for the sidecar.

    These are NaN, and values with another number of digits behind the point than their type has.
    """
    usual = _DIGITS[_from_end(octets, cells, 1)]
    if each.type.scale:
        usual &= _from_end(octets, cells, each.type.scale + 1) == _DOT
    strange: Bools = cells.text & ~usual
    return strange


def _from_end(octets: UInt8s, cells: Cells, place: int) -> UInt8s:
    return octets.take(cells.start + cells.length - place, mode="clip")


_STRANGE: Final[dict[Form, Callable[[UInt8s, Cells, StoredColumn], Bools]]] = {
    Form.DATE: _strange_date,
    Form.TIMESTAMP: _strange_timestamp,
    Form.TIME: _strange_time,
    Form.DECIMAL: _strange_decimal,
}
"""Which values the column's type cannot hold: they go into the sidecar as they are."""
