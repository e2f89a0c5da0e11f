"""Parquet files read in bounded memory, whatever they claim: what would expand beyond any backup's is refused.

A few hundred bytes of Parquet can stand for terabytes: a value in a dictionary is repeated by a run length, a
compressed page unfolds, and rows without values cost nothing in the file. Who can write into a store may put such a
file, with a record that fits it, into an archive. A row group of ours has about 32 MiB of values in memory, or one
value more. So sizes are compared with that before anything is unpacked: those of the footer, and those in the header of
each page, which the footer need not agree with. Only what a dictionary repeats is not known before; where it might be
much, the rows are unfolded piece by piece.

The headers are those of https://github.com/apache/parquet-format, in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.archive.files.data_files import REMEDY
from holdfast.common.errors import DamagedError
from holdfast.common.value_limit import MAX_VALUE_VARIABLE, max_value_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GROUP_BYTES: Final = 256 << 20
"""Bytes of a row group in memory, beside its largest value: many times those of one that a backup or a compaction
writes, which ends with the batch that reaches 32 MiB."""

FOOTER_BYTES: Final = 64 << 20
"""Bytes of a footer. That of a table of 1,600 columns has less than a megabyte for each hundred million bytes."""

SLICE_BYTES: Final = 32 << 20
"""Bytes of rows that are unfolded at a time, where a dictionary repeats large values."""

_SLICE_ROWS = 1 << 16

_DICTIONARY_LOOKED_AT = 1 << 20
"""A dictionary that is larger than ours are is not looked through: its largest value might be all of it."""

_UNFOLDING: Final = {"DELTA_BYTE_ARRAY"}
"""Encodings that repeat bytes of other values, which no release has written."""

_WIDTHS: Final = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a value in memory at least, by its type in the file."""

_CODECS: Final = {"ZSTD": "zstd", "SNAPPY": "snappy", "GZIP": "gzip"}

DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3


class BoundedFile:
    """A Parquet file in memory that is decoded within bounds.

    :param body: its bytes.
    :param path: of it, for errors.
    :raises DamagedError: it would take more memory than a file of ours.
    """

    def __init__(self, body: bytes | memoryview, path: str) -> None:
        self._body = memoryview(body).cast("B")  # of a file that is mapped, bytes are signed
        self._path = path
        self._most = GROUP_BYTES + max_value_bytes()
        if int.from_bytes(self._body[-8:-4], "little") > FOOTER_BYTES:
            raise self._beyond("its footer has", int.from_bytes(self._body[-8:-4], "little"), FOOTER_BYTES)
        self._file = pq.ParquetFile(pa.BufferReader(body))
        self.schema: pa.Schema = self._file.schema_arrow
        self.metadata: pq.FileMetaData = self._file.metadata

    @property
    def groups(self) -> range:
        """Return the numbers of its row groups."""
        return range(self._file.num_row_groups)

    def rows(self, group: int) -> int:
        """Return the rows of a row group, as the footer has them."""
        return int(self.metadata.row_group(group).num_rows)

    def read(
        self, group: int, columns: Sequence[str] | None = None, *, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group.

        :param columns: their names; None: all.
        :param threads: whether several threads decode them.
        :raises DamagedError: as above.
        """
        if self._may_unfold(group):
            yield from self._piecewise(group, columns, threads)
        else:
            wanted = None if columns is None else list(columns)
            yield from self._file.read_row_group(group, columns=wanted, use_threads=threads).to_batches()

    def check(self) -> None:
        """Check all row groups, for a reader that decodes them itself.

        :raises DamagedError: as above.
        """
        for group in self.groups:
            if self._may_unfold(group):
                for _ in self._sliced(group, None, threads=False):
                    pass

    def _may_unfold(self, group: int) -> bool:
        """Check a row group's sizes, and return whether its dictionaries might repeat much."""
        found = self.metadata.row_group(group)
        fixed = sum(_bytes_a_row(each.type) for each in self.schema) * found.num_rows
        values = stored = 0
        repeating = []
        for number in range(found.num_columns):
            column = found.column(number)
            if not _UNFOLDING.isdisjoint(column.encodings):
                raise DamagedError(
                    f"{self._path} is encoded as no file of ours is ({', '.join(column.encodings)}): {REMEDY}"
                )
            values += column.num_values * self._width(column, number)
            pages = self._pages(column)
            stored += pages.stored
            if pages.dictionary is not None and column.physical_type == "BYTE_ARRAY":
                repeating.append(_Repeating(number, column.compression, pages.repeated, pages.dictionary))
        fixed = max(fixed, values)
        if fixed > GROUP_BYTES:
            raise self._beyond("a row group has", fixed, GROUP_BYTES)
        if stored > self._most:
            raise self._beyond("a row group has", stored, self._most)
        room = self._most - fixed - stored
        if sum(each.times * each.dictionary.size for each in repeating) <= room:
            return False
        unfolded = sum(each.times * self._largest(each) for each in repeating)
        if unfolded > room and any(self._is_nested(each.column) for each in repeating):
            raise self._beyond("a row group has", fixed + stored + unfolded, self._most)
        return bool(unfolded > room)

    def _is_nested(self, number: int) -> bool:
        """Return whether a column is part of another, where no dictionary is left as it is; no text of ours is."""
        column = self._file.schema.column(number)
        return bool(column.max_repetition_level > 0 or column.max_definition_level > 1)

    def _width(self, column: Any, number: int) -> float:
        """Return the bytes of a value of a column, beside those of its text."""
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            return int(self._file.schema.column(number).length)
        return _WIDTHS[column.physical_type]

    def _pages(self, column: Any) -> _Pages:
        """Return what the headers of a column's pages say, in one row group."""
        starts = [each for each in (column.dictionary_page_offset, column.data_page_offset) if each is not None]
        at = min(starts)
        end = at + column.total_compressed_size
        stored = repeated = values = 0
        dictionary: _Dictionary | None = None
        if at < 0 or end > len(self._body):
            raise DamagedError(f"{self._path} is damaged: a column is beyond its end: {REMEDY}")
        while at < end and values < column.num_values:
            header, begin = read_header(self._body, at, end)
            kind, size, packed = header.get(1), header.get(2), header.get(3)
            if not (isinstance(size, int) and isinstance(packed, int) and size >= 0 <= packed <= end - begin):
                raise DamagedError(f"{self._path} is damaged: a page has no header that can be read: {REMEDY}")
            stored += size
            if kind == _DICTIONARY_PAGE:
                dictionary = _Dictionary(begin, packed, size)
            elif kind in (DATA_PAGE, _DATA_PAGE_V2):
                described = header.get(5 if kind == DATA_PAGE else 8)
                count = described.get(1) if isinstance(described, dict) else None
                if not isinstance(count, int):
                    raise DamagedError(f"{self._path} is damaged: a page does not tell its values: {REMEDY}")
                values += max(count, 0)
                repeated += max(count, 0) if dictionary is not None else 0
            at = begin + packed
        return _Pages(stored, repeated, dictionary)

    def _largest(self, repeating: _Repeating) -> int:
        """Return the bytes of a dictionary's largest value, or more."""
        begin, packed, size = repeating.dictionary
        body = bytes(self._body[begin : begin + min(packed, _DICTIONARY_LOOKED_AT)])
        if size > _DICTIONARY_LOOKED_AT:
            return size
        if repeating.compression == "UNCOMPRESSED":
            return _largest_of(body)
        if (codec := _CODECS.get(repeating.compression)) is None:
            return size
        return _largest_of(pa.decompress(body, decompressed_size=size, codec=codec, asbytes=True))

    def _piecewise(self, group: int, columns: Sequence[str] | None, threads: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group whose dictionaries may repeat large values, unfolded a piece at a time."""
        for batch in self._sliced(group, columns, threads=threads):
            yield self._unfolded(batch)

    def _sliced(self, group: int, columns: Sequence[str] | None, *, threads: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group with their dictionaries, so many that they can be unfolded."""
        texts = [each.name for each in self.schema if _is_of_any_size(each.type)]
        file = pq.ParquetFile(pa.BufferReader(self._body), read_dictionary=texts)
        wanted = None if columns is None else list(columns)
        whole = 0
        for batch in file.iter_batches(_SLICE_ROWS, row_groups=[group], columns=wanted, use_threads=threads):
            for start, end, size in _slices(_row_sizes(batch)):
                whole += size if end - start > 1 else 0
                if whole > self._most:
                    raise self._beyond("a row group has", whole, self._most)
                yield batch.slice(start, end - start)

    def _unfolded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = [self.schema.field(name) for name in batch.schema.names]
        arrays = [
            array.cast(field.type) if pa.types.is_dictionary(array.type) else array
            for array, field in zip(batch.columns, fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=self.schema.metadata))

    def _beyond(self, what: str, found: float, most: int) -> DamagedError:
        return DamagedError(
            f"{self._path} is no file of ours: {what} {found:,.0f} bytes or more in memory, and no backup writes more "
            f"than {most:,}. If it holds single values above {max_value_bytes():,} bytes, set {MAX_VALUE_VARIABLE} as "
            "the backup had it; else put the file back from a copy of the archive"
        )


class _Dictionary(NamedTuple):
    """The page of a dictionary.

    :param begin: where it begins behind its header.
    :param packed: its bytes; `size`: those when it is decompressed.
    """

    begin: int
    packed: int
    size: int


class _Repeating(NamedTuple):
    """A column of text that has a dictionary, in a row group.

    :param column: its number.
    :param times: so many values may come from it.
    """

    column: int
    compression: str
    times: int
    dictionary: _Dictionary


class _Pages(NamedTuple):
    """The pages of a column in a row group.

    :param stored: bytes of all, decompressed.
    :param repeated: values that may come from a dictionary.
    """

    stored: int
    repeated: int
    dictionary: _Dictionary | None


def _is_of_any_size(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )  # fmt: skip


def _bytes_a_row(kind: pa.DataType) -> float:
    """Return the bytes of a row in a column, beside those of its text."""
    if _is_of_any_size(kind) or pa.types.is_list(kind):
        return 4
    if pa.types.is_null(kind):
        return 0
    return kind.bit_width / 8 if kind.num_fields == 0 else 8


def _largest_of(dictionary: bytes) -> int:
    """Return the length of the longest value of a dictionary's page: each stands behind its own length."""
    at = largest = 0
    while at + 4 <= len(dictionary):
        length = int.from_bytes(dictionary[at : at + 4], "little")
        largest = max(largest, length)
        at += 4 + length
    return min(largest, len(dictionary))


def _row_sizes(batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the bytes of each row's texts once they are unfolded."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for array in batch.columns:
        if pa.types.is_dictionary(array.type):
            lengths = pc.binary_length(array.dictionary).cast(pa.int64()).take(array.indices)
            sizes += pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    return sizes


def _slices(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int, int]]:
    """Yield first row, row behind the last, and bytes of slices of at most SLICE_BYTES, or of one row."""
    ends = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        end = max(start + 1, int(np.searchsorted(ends, before + SLICE_BYTES, side="right")))
        behind = int(ends[end - 1])
        yield start, end, behind - before
        start, before = end, behind


def read_header(body: memoryview, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Return a page's header, by the numbers of its fields, and where the page begins."""
    for most in (_USUAL_HEADER_BYTES, _HEADER_BYTES):
        try:
            found, size = _read_structure(bytes(body[at : min(end, at + most)]))
        except IndexError:
            continue
        except ValueError:
            break
        return found, at + size
    return {}, end


_USUAL_HEADER_BYTES = 1 << 10

_HEADER_BYTES = 1 << 20
"""Statistics are part of a header; ours have none of large values."""

_DEEPEST = 8
"""Structures within structures."""

NUMBERS, TEXT, STRUCTURE = frozenset({4, 5, 6}), 8, 12
SKIPPED = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes of values of other kinds: a truth is part of its kind."""


def _read_structure(data: bytes) -> tuple[dict[int, Any], int]:
    """Return a structure in Thrift's compact protocol, by the numbers of its fields, and where it ends.

    Fields that are texts, bytes or fractions are left out. It makes few calls: a file of a few rows has ten
    headers, and most of the time to read it was spent on them.

    :raises IndexError: it goes on behind the data.
    :raises ValueError: it is no header of a page.
    """
    found: dict[int, Any] = {}
    outer: list[tuple[dict[int, Any], int]] = []
    number = at = 0
    while True:
        byte = data[at]
        at += 1
        if byte == 0:
            if not outer:
                return found, at
            found, number = outer.pop()
            continue
        kind, step = byte & 0x0F, byte >> 4
        number += step
        if step and kind in NUMBERS:
            value = data[at]
            at += 1
            if value >= 0x80:
                value, at = read_varint(data, at - 1)
            found[number] = (value >> 1) ^ -(value & 1)
        elif step and kind == STRUCTURE and len(outer) < _DEEPEST:
            outer.append((found, number))
            found[number] = found = {}
            number = 0
        elif step and kind == TEXT:
            length, at = read_varint(data, at)
            at += length
        else:
            at += _skipped(step, kind)


def _skipped(step: int, kind: int) -> int:
    """Return the bytes of a field that is left out.

    :raises ValueError: a page's header has no such field: collections, or one far behind the last.
    """
    if not step or kind not in SKIPPED:
        raise ValueError("no header of a page")
    return SKIPPED[kind]


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    value = shift = 0
    while shift <= 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("no number")
