"""Rows of COPY, many at once, without a loop over their values.

A plain `COPY table TO STDOUT` plans nothing, so that no code of a table's owner runs. It gives all columns in one
format: binary where each has a form of its own in Parquet, else text, which alone is what the archive keeps of the
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.values import arrow
from holdfast.postgresql.values.columnar import fixed, variable
from holdfast.postgresql.values.from_text import Cells, TextDecoder
from holdfast.postgresql.values.stored_columns import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.values.decode import Decoder
    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s
    from holdfast.postgresql.values.stored_columns import StoredColumn

_TAB, _LINE, _SLASH, _NULL = b"\t\n\\N"
_MEANS: Final = np.arange(256, dtype=np.uint8)
_MEANS[list(b"bfnrtv")] = list(b"\b\f\n\r\t\v")
"""What a letter behind a backslash stands for. Source: PostgreSQL manual, 'COPY', Text Format."""

_AS_BINARY: Final = {
    Form.TEXT: pa.string(),
    Form.OUTPUT: pa.string(),
    Form.BYTES: pa.binary(),
    Form.DECIMAL: pa.binary(),
}


class CopyDecoder:
    """Statement of plain COPY for one table, and decoder of its rows.

    :param decoder: of the same table.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._stored = decoder.stored
        self._is_binary = all(each.form is not Form.OUTPUT for each in self._stored)

    def statement(self, table: str) -> str:
        """Return the statement of a table with these columns.

        :param table: quoted and qualified.
        """
        names = ", ".join(ident(each.column.name) for each in self._stored)
        columns = f" ({names})" if names else ""  # what is left out then is generated
        return f"COPY {table}{columns} TO STDOUT" + (" (FORMAT binary)" if self._is_binary else "")

    def decode(self, octets: bytes, sizes: Sequence[int]) -> pa.RecordBatch:
        """Return the rows of `statement` in the Parquet schema.

        :param octets: of all rows, one behind the other.
        :param sizes: of each.
        :raises UnkeepableValueError: naming column and row of the first value that cannot be kept.
        """
        if self._is_binary:
            return self._decoder.decode(from_binary(self._stored, octets, sizes))
        places, columns = cells(octets, sizes, len(self._stored))
        decoder = TextDecoder(pa.py_buffer(places), places, self._decoder.limit)
        values, sidecars = [], []
        for each, column in zip(self._stored, columns, strict=True):
            value, *exact = decoder.decode(each, column)
            values.append(value)
            sidecars += exact
        return pa.RecordBatch.from_arrays(values + sidecars, schema=self._decoder.schema)


def from_binary(stored: Sequence[StoredColumn], sent: bytes, sizes: Sequence[int]) -> pa.RecordBatch:
    """Return rows of a binary COPY as `Decoder.decode` takes them.

    :param sent: all rows, one behind the other.
    :param sizes: of each.
    :raises HoldfastError: they do not have these columns.
    """
    if not stored:
        return pa.RecordBatch.from_arrays([pa.repeat(True, len(sizes))], names=["rows"])
    octets = np.frombuffer(sent, np.uint8)
    ends = _ends(sizes)
    at = ends - sizes
    arrays = []
    try:
        if (_integers(octets, at, 2) != len(stored)).any():
            raise _not_these_columns()
        at += 2
        for each in stored:
            lengths = _integers(octets, at, 4)
            arrays.append(_column(each, octets, at + 4, lengths))
            at = at + 4 + np.maximum(lengths, 0)
    except IndexError as error:
        raise _not_these_columns() from error
    if (at != ends).any():
        raise _not_these_columns()
    return pa.RecordBatch.from_arrays(arrays, names=[each.column.name for each in stored])


def _column(each: StoredColumn, octets: UInt8s, at: Int64s, lengths: Int64s) -> pa.Array:
    """Return a column's values as a driver gives them.

    :param lengths: in octets; -1 of a NULL.
    """
    there = lengths >= 0
    mask = None if there.all() else there
    if mask is not None:
        lengths = np.maximum(lengths, 0)
    kind = _AS_BINARY.get(each.form)
    if kind is not None:
        content = arrow.data(arrow.slices(pa.py_buffer(octets), at, lengths))
        return variable(kind, content, lengths if mask is None else lengths[there], mask)
    width = max(each.type.bit_width // 8, 1)
    if mask is not None:
        at, lengths = at[there], lengths[there]
    if (lengths != width).any():
        raise _not_these_columns()
    content = _everywhere(octets, f"V{width}")[at].view(np.uint8)
    return fixed(each, content, len(at), mask)


def cells(sent: bytes, sizes: Sequence[int], columns: int) -> tuple[UInt8s, list[Cells]]:
    """Return the values of rows of COPY's text, as places in a buffer without backslashes.

    :raises HoldfastError: they do not have so many columns.
    """
    octets = np.frombuffer(sent, np.uint8)
    ends = _ends(sizes)
    tabs = np.flatnonzero(octets == _TAB)
    if len(tabs) != len(sizes) * (columns - 1) or (octets[ends - 1] != _LINE).any():
        raise _not_these_columns()
    edges = np.empty((len(sizes), columns + 1), np.int64)
    edges[:, 0], edges[:, -1] = ends - sizes - 1, ends - 1
    edges[:, 1:-1] = tabs.reshape(len(sizes), columns - 1)
    if (np.diff(edges) < 1).any():
        raise _not_these_columns()
    starts, stops = edges[:, :-1] + 1, edges[:, 1:]
    empty = (
        (stops - starts == 2)
        & (octets.take(starts, mode="clip") == _SLASH)
        & (octets.take(starts + 1, mode="clip") == _NULL)
    )
    escapes = _escapes(octets)
    if len(escapes) > np.count_nonzero(empty):
        octets = octets.copy()
        octets[escapes + 1] = _MEANS[octets[escapes + 1]]
        kept = np.ones(len(octets), np.bool_)
        kept[escapes] = False
        octets = octets[kept]
        starts = starts - np.searchsorted(escapes, starts)
        stops = stops - np.searchsorted(escapes, stops)
    lengths = np.where(empty, 0, stops - starts)
    return octets, [Cells(starts[:, place], lengths[:, place], ~empty[:, place], None) for place in range(columns)]


def _escapes(octets: UInt8s) -> Int64s:
    """Return the places of backslashes that say what the next octet means; every other one of a run does."""
    places = np.flatnonzero(octets == _SLASH)
    if not len(places):
        return places
    number = np.arange(len(places))
    first = np.maximum.accumulate(np.where(np.diff(places, prepend=-2) != 1, number, 0))
    found: Int64s = places[(number - first) % 2 == 0]
    return found


def _ends(sizes: Sequence[int]) -> Int64s:
    found: Int64s = np.cumsum(np.array(sizes, np.int64))
    return found


def _integers(octets: UInt8s, at: Int64s, width: int) -> Int64s:
    found: Int64s = _everywhere(octets, f">i{width}")[at].astype(np.int64)
    return found


def _everywhere(octets: UInt8s, kind: str) -> npt.NDArray[Any]:
    """Return the values of a kind that begin at each octet."""
    width = np.dtype(kind).itemsize
    return np.ndarray((max(len(octets) - width + 1, 0),), kind, octets, strides=(1,))


def _not_these_columns() -> HoldfastError:
    return HoldfastError("the server did not send the columns of a table as its catalog says them: back up again")
