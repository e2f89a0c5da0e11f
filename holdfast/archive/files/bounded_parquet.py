"""Parquet files whose declared sizes are checked before they are read: what no backup would write is refused.

A few hundred bytes of Parquet can stand for gigabytes. A row group of ours has about 32 MiB of values in memory, or one
value more, so what a footer declares is compared with that. A footer may lie, and a dictionary may repeat large values:
against that only signatures help, with which no forged file is read at all.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.common.errors import DamagedError
from holdfast.common.value_limit import MAX_VALUE_VARIABLE, max_value_bytes

GROUP_BYTES: Final = 256 << 20
"""Bytes of a row group in memory, beside its largest value: many times those of one that a backup or a compaction
writes, which ends with the batch that reaches 32 MiB."""

FOOTER_BYTES: Final = 64 << 20
"""Bytes of a footer. That of a table of 1,600 columns has less than a megabyte for each hundred million bytes."""

_WIDTHS: Final = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a value in memory at least, by its type in the file."""


def open_parquet(body: bytes | memoryview, path: str) -> pq.ParquetFile:
    """Open a Parquet file in memory, or the end of one from its footer on.

    :param path: of it, for errors.
    :raises DamagedError: it would take more memory than a file of ours.
    """
    footer = int.from_bytes(memoryview(body)[-8:-4], "little")
    if footer > FOOTER_BYTES:
        raise _beyond(path, "its footer has", footer, FOOTER_BYTES)
    file = pq.ParquetFile(pa.BufferReader(body))
    _check_sizes(file, path)
    return file


def _check_sizes(file: pq.ParquetFile, path: str) -> None:
    most = GROUP_BYTES + max_value_bytes()
    row = sum(_bytes_a_row(field.type) for field in file.schema_arrow)
    widths = [_WIDTHS.get(leaf.physical_type, leaf.length) for leaf in map(file.schema.column, range(len(file.schema)))]
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        columns = [group.column(each) for each in range(group.num_columns)]
        values = sum(column.num_values * width for column, width in zip(columns, widths, strict=True))
        fixed, stored = max(row * group.num_rows, values), sum(column.total_uncompressed_size for column in columns)
        if fixed > GROUP_BYTES:
            raise _beyond(path, "a row group has", fixed, GROUP_BYTES)
        if stored > most:
            raise _beyond(path, "a row group has", stored, most)


def _bytes_a_row(kind: pa.DataType) -> float:
    """Return the bytes of a row in a column, beside those of its text."""
    if pa.types.is_null(kind):
        return 0
    try:
        return float(kind.bit_width / 8)
    except ValueError:  # of any size
        return 4


def _beyond(path: str, what: str, size: float, most: int) -> DamagedError:
    return DamagedError(
        f"{path} is no file of ours: {what} {size:,.0f} bytes or more in memory, and no backup writes more than "
        f"{most:,}. If it holds single values above {max_value_bytes():,} bytes, set {MAX_VALUE_VARIABLE} as the "
        "backup had it; else put the file back from a copy of the archive"
    )
