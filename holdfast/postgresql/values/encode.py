"""Encoding of Parquet batches in COPY's text format, for every type.

Fields are joined by Arrow, column by column; no row is touched on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.values import arrow
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.catalog.columns import Column

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
