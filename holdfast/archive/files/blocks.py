"""A block's data files: rows in Parquet, written and read a row group at a time."""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.archive.files.data_files import new_attempt, read_file
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from holdfast.common.field_ids import field_id
from holdfast.common.value_limit import MAX_VALUE_VARIABLE, max_value_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from holdfast.archive.files.data_files import ReadableStore, Writable

ROW_GROUP_BYTES = 32 << 20
"""Arrow bytes collected into one row group: bounds the memory of writer and reader."""

FILE_BYTES = 128 << 20
"""A file that has grown past this is closed and the next one begun: readers hold one file in memory."""

COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1

DICTIONARY_BYTES = 64 << 10
"""A column's dictionary that has grown past this is given up: only columns of few values gain by one.

Under pyarrow's own limit (1 MiB) writing took twice the time, and files were a fifth larger.
"""

_LOOKED_AT = 1 << 12
"""A column of numbers is packed by its differences if three of four of so many rows differ.

A dictionary would be given up soon. Differences took half the time to write, and files were a fifth smaller.
"""

_PAGE_ROWS = 1 << 17
"""Pages end by their size, long before: pyarrow's own limit (20,000) makes many small ones of numbers."""

TINY_BYTES = 4 << 10
"""What has fewer Arrow bytes than a page of a disk is neither compressed nor looked through for repeated values."""

_INT64_DIGITS = 18

_GATHERED_BYTES = 64 << 10
"""The writer writes each page's header and content on its own, and each write would take a turn of Python."""

_THREADS_FROM = 256 << 10
"""Bytes of a file: to have the columns of a smaller one decoded by other threads takes longer than decoding them."""


GROUP_BYTES = 256 << 20
"""Bytes of a row group in memory, beside its largest value: many times those of one that a backup or a compaction
writes, which ends with the batch that reaches 32 MiB."""

FOOTER_BYTES = 64 << 20
"""Bytes of a footer. That of a table of 1,600 columns has less than a megabyte for each hundred million bytes."""

_WIDTHS = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a value in memory at least, by its type in the file."""


class _HashingFile:
    """File wrapper that hashes the bytes it passes on: the checksum is of what was sent."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._footer = hashlib.sha256()
        self._footer_at: int | None = None
        self.size = 0
        self.closed = False

    def begin_footer(self, at: int) -> None:
        self._footer_at = at

    @property
    def footer(self) -> str | None:
        """Return the footer's size and SHA-256, as `FileRecord` stores them."""
        return None if self._footer_at is None else f"{self.size - self._footer_at}:{self._footer.hexdigest()}"

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        if self._footer_at is not None:
            self._footer.update(memoryview(data)[max(0, self._footer_at - self.size) :])
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def write_parquet(
    store: Writable,
    stem: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    key: str | None = None,
) -> Iterator[FileRecord]:
    """Write batches to Parquet files `<stem>[.<part>]-<attempt>.parquet`, and yield their records.

    :param key: column whose least and greatest value are recorded.
    """
    groups = _groups(batches)
    attempt = new_attempt()
    part = 0
    more = True
    while more:
        path = f"{stem}{f'.{part}' if part else ''}-{attempt}.parquet"
        record, more = _write_file(store, path, schema, groups, key)
        if record.rows or part == 0:
            yield record
        part += 1


def _write_file(
    store: Writable, path: str, schema: pa.Schema, groups: Iterator[_Group], key: str | None
) -> tuple[FileRecord, bool]:
    """Write row groups until the file is full; return its record, and whether there may be more."""
    rows = 0
    keys = _KeyRange(key)
    more = False
    group = next(groups, None)
    with store.open_write(path) as file:
        hashing = _HashingFile(file)
        with (
            pa.BufferedOutputStream(pa.PythonFile(hashing, "w"), _GATHERED_BYTES) as sink,
            pq.ParquetWriter(
                sink,
                schema,
                **_packing(schema, group),
                max_rows_per_page=_PAGE_ROWS,
                write_page_checksum=True,
                write_statistics=_with_statistics(schema, key),
                store_decimal_as_integer=True,
            ) as writer,
        ):
            while group is not None:
                writer.write_table(group.rows, row_group_size=max(1, group.rows.num_rows))
                rows += group.rows.num_rows
                keys.add(group.rows)
                del group  # or it would be kept while the next one is read
                if sink.tell() >= FILE_BYTES:
                    more = True
                    break
                group = next(groups, None)
            hashing.begin_footer(sink.tell())
    record = FileRecord(
        path=path,
        size=hashing.size,
        sha256=hashing.hexdigest(),
        rows=rows,
        key_range=keys.value,
        footer=hashing.footer,
    )
    return record, more


def _packing(schema: pa.Schema, first: _Group | None) -> dict[str, Any]:
    """Return compression and encoding by the first row group; none for a tiny one, whose work alone would be felt."""
    if first is None or first.size < TINY_BYTES:
        return {"compression": "none", "use_dictionary": False}
    rows = first.rows
    differing = [field.name for field in schema if _is_stored_as_integer(field.type) and _differs(rows[field.name])]
    return {
        "compression": COMPRESSION,
        "compression_level": COMPRESSION_LEVEL,
        "use_dictionary": [_leaf(field) for field in schema if field.name not in differing],
        "dictionary_pagesize_limit": DICTIONARY_BYTES,
        "column_encoding": dict.fromkeys(differing, "DELTA_BINARY_PACKED"),
    }


def _leaf(field: pa.Field) -> str:
    """Return Parquet's name of a column, or of a list's values."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)


def _is_stored_as_integer(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _INT64_DIGITS)
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _differs(values: pa.ChunkedArray) -> bool:
    """Return whether a column has too many different values for a dictionary."""
    some = values.slice(0, _LOOKED_AT)
    return bool(pc.count_distinct(some).as_py() * 4 > len(some) * 3)


def _with_statistics(schema: pa.Schema, key: str | None) -> list[str]:
    """Return the columns that have their least and greatest value in the file.

    The writer copies both, for page and row group: of large values that is four times their size in memory. Values of a
    key are never large.
    """
    return [field.name for field in schema if field.name == key or not _is_text_or_bytes(field.type)]


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


class _KeyRange:
    def __init__(self, column: str | None) -> None:
        self._column = column
        self._bounds: tuple[object, object] | None = None

    def add(self, group: pa.Table) -> None:
        if self._column is None or group.num_rows == 0:
            return
        found = pc.min_max(group.column(self._column)).as_py()
        low, high = found["min"], found["max"]
        if low is None:
            return
        if self._bounds is not None:
            low, high = min(low, self._bounds[0]), max(high, self._bounds[1])
        self._bounds = (low, high)

    @property
    def value(self) -> tuple[str, str] | None:
        return (str(self._bounds[0]), str(self._bounds[1])) if self._bounds else None


class _Group(NamedTuple):
    """Rows of one row group, and their Arrow bytes, which take long to count."""

    rows: pa.Table
    size: int


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[_Group]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield _Group(pa.Table.from_batches(waiting), size)
            waiting, size = [], 0
    if waiting:
        yield _Group(pa.Table.from_batches(waiting), size)


def open_parquet(body: bytes | memoryview, path: str) -> pq.ParquetFile:
    """Open a Parquet file in memory, or the end of one from its footer on, if the sizes that it declares are ours.

    A few hundred bytes can stand for gigabytes. A row group of ours has about 32 MiB of values in memory, or one value
    more. A footer may lie, and a dictionary may repeat large values: against that only signatures help, with which no
    forged file is read at all.

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


def read_batches(store: ReadableStore, record: FileRecord) -> Iterator[pa.RecordBatch]:
    """Yield a data file's rows, one row group at a time, once its checksum is verified.

    :raises DamagedError: it is not what its record says, or declares more memory than any file of ours.
    """
    return (batch for _, batch in read_groups(store, record))


def read_groups(
    store: ReadableStore,
    record: FileRecord,
    *,
    ids: Container[int] | None = None,
    wanted: Callable[[int, int], bool] = lambda start, end: True,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield a data file's batches as `read_batches` does, each with the number of its first row.

    :param ids: of the fields to read, and maybe others; None: all.
    :param wanted: whether to read a row group, by the numbers of its first row and of the one behind its last.
    """
    yield from decode_groups(open_parquet(read_file(store, record), record.path), record, ids=ids, wanted=wanted)


def decode_groups(
    file: pq.ParquetFile,
    record: FileRecord,
    *,
    ids: Container[int] | None = None,
    wanted: Callable[[int, int], bool] = lambda start, end: True,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a data file that was read, as `read_groups` does."""
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    if sum(sizes) != record.rows:
        raise DamagedError(f"{record.path} holds {sum(sizes)} rows; its record says {record.rows}")
    columns = None if ids is None else [field.name for field in file.schema_arrow if field_id(field) in ids]
    end = 0
    for number, rows in enumerate(sizes):
        start, end = end, end + rows
        if wanted(start, end):
            threads = record.size > _THREADS_FROM
            for batch in file.read_row_group(number, columns=columns, use_threads=threads).to_batches():
                yield start, batch
                start += batch.num_rows
