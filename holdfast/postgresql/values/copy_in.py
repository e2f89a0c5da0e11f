"""Loading of rows with `COPY ... FROM STDIN`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.postgresql.values.encode import copy_statement, encode
from holdfast.postgresql.values.encode_binary import SIGNATURE, encode_binary, has_binary_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg
    import pyarrow as pa

    from holdfast.postgresql.catalog.columns import Column


def copy_in(
    cursor: psycopg.Cursor[Any], table: str, columns: Sequence[Column], batches: Iterable[pa.RecordBatch]
) -> int:
    """Load batches in the Parquet schema of these columns and return the number of rows.

    The binary format is used where all columns have one: it loads half as fast again as text. The
    session must have the settings of `VALUE_SETTINGS`.

    :param table: quoted and qualified.
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
