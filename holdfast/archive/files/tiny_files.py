"""Tiny Parquet files of one form, decoded together.

A backup of changes writes few rows of each table, and to open a file takes many times as long as to decode it. What is
tiny is neither compressed nor has a dictionary (`blocks.TINY_BYTES`), so that pages of several files may follow each
other: one file is made of them in memory, with a footer of its own. All other files are decoded one by one.

The footer is that of https://github.com/apache/parquet-format, in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.archive.files.blocks import decode_groups
from holdfast.archive.files.bounded_parquet import (
    DATA_PAGE,
    NUMBERS,
    SKIPPED,
    STRUCTURE,
    TEXT,
    BoundedFile,
    read_header,
    read_varint,
)
from holdfast.common.field_ids import field_id

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from holdfast.archive.format.document import FileRecord

MOST_VALUES: Final = 1 << 18
"""Of all columns of files that are decoded together: a null takes memory, and nothing in a file."""

_WIDEST: Final = 32
"""Bytes of a value of fixed length. A decimal has no more."""

_MAGIC: Final = b"PAR1"
_PLAIN: Final = 0

_LISTS: Final = frozenset({9, 10})


def read_files(
    files: Iterable[tuple[FileRecord, bytes]], *, ids: Container[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, in their order.

    :param files: small ones, since several are in memory; with their bytes, whose checksums were verified.
    :param ids: of the fields to read, and maybe others; None: all.
    :raises DamagedError: one is not what its record says, or would take more memory than any file of ours.
    """
    together: _Together | None = None
    for record, body in files:
        if together is not None and together.add(record, body):
            continue
        if together is not None:
            yield from together.read(ids)
        file = BoundedFile(body, record.path)
        form = _Form.of(file, body)
        together = None if form is None else _Together(form, file.schema)
        if together is None or not together.add(record, body):
            together = None
            yield from (batch for _, batch in decode_groups(file, record, ids=ids))
    if together is not None:
        yield from together.read(ids)


class _Chunk(NamedTuple):
    """A column of a tiny file: one page, with its header.

    :param values: how many it has, nulls among them.
    """

    page: memoryview
    values: int


class _Form(NamedTuple):
    """The form of tiny files that are decoded together.

    :param head: the footer before the number of rows; `tail`: behind the row groups.
    :param columns: of each the description in the footer, from its type to its codec.
    :param is_nested: of each, whether a row may have several values.
    """

    head: bytes
    tail: bytes
    columns: tuple[bytes, ...]
    is_nested: tuple[bool, ...]

    @classmethod
    def of(cls, file: BoundedFile, body: bytes) -> _Form | None:
        """Return the form of a file; None where it is not tiny."""
        metadata = file.metadata
        leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
        if metadata.num_row_groups != 1 or any(leaf.length > _WIDEST for leaf in leaves):
            return None
        group = metadata.row_group(0)
        if any(group.column(number).compression != "UNCOMPRESSED" for number in range(group.num_columns)):
            return None
        footer = _footer(body)
        try:
            rows, groups = (_fields(footer, 0)[each] for each in (_ROWS, _GROUPS))
            (first,) = _elements(footer, groups.begin)
            chunks = [_fields(footer, at)[_META].begin for at in _elements(footer, _fields(footer, first)[1].begin)]
            columns = tuple(footer[at : _fields(footer, at)[_CODEC].end] for at in chunks)
        except (IndexError, KeyError, ValueError):
            return None
        nested = tuple(leaf.max_repetition_level > 0 for leaf in leaves)
        return cls(footer[: rows.field], footer[groups.end :], columns, nested)

    def chunks(self, record: FileRecord, body: bytes) -> list[_Chunk] | None:
        """Return the columns of a file; None where it is not of this form.

        Each has one page, where values stand as they are. Where pages are and what they hold is taken from their own
        headers, which is what is decoded.
        """
        footer = _footer(body)
        if not (footer.startswith(self.head) and footer.endswith(self.tail)):
            return None
        view, at, described = memoryview(body), len(_MAGIC), len(self.head)
        behind = len(body) - len(footer) - 8
        found = []
        for column, is_nested in zip(self.columns, self.is_nested, strict=True):
            described = footer.find(column, described)
            if described < 0:
                return None
            described += len(column)
            header, begin = read_header(view, at, behind)
            page = header.get(5)
            if header.get(1) != DATA_PAGE or not isinstance(page, dict) or page.get(2) != _PLAIN:
                return None
            size, values = header.get(3), page.get(1)
            if not (isinstance(size, int) and isinstance(values, int) and 0 <= size == header.get(2)):
                return None
            if begin + size > behind or values < record.rows or (values > record.rows and not is_nested):
                return None
            found.append(_Chunk(view[at : begin + size], values))
            at = begin + size
        return found if at == behind else None


_ROWS, _GROUPS, _META, _CODEC = 3, 4, 3, 4
"""Fields of the footer, of a column of a row group, and of its description."""


class _Together:
    """Tiny files of one form, to be decoded together.

    :param schema: of all of them.
    """

    def __init__(self, form: _Form, schema: pa.Schema) -> None:
        self._form = form
        self._schema = schema
        self._files: list[list[_Chunk]] = []
        self._rows = 0
        self._values = 0

    def add(self, record: FileRecord, body: bytes) -> bool:
        """Add a file, and return whether it is of the form and there is room."""
        chunks = self._form.chunks(record, body)
        if chunks is None:
            return False
        values = sum(chunk.values for chunk in chunks)
        if self._values + values > MOST_VALUES:
            return False
        self._files.append(chunks)
        self._rows += record.rows
        self._values += values
        return True

    def read(self, ids: Container[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files."""
        columns = None if ids is None else [field.name for field in self._schema if field_id(field) in ids]
        file = pq.ParquetFile(pa.BufferReader(self._joined()))
        yield from file.read_row_group(0, columns=columns, use_threads=False).to_batches()

    def _joined(self) -> bytes:
        """Return one file of the pages of all."""
        body: list[bytes | memoryview] = [_MAGIC]
        described = []
        at = len(_MAGIC)
        for column, chunks in zip(self._form.columns, zip(*self._files, strict=True), strict=True):
            size = sum(len(chunk.page) for chunk in chunks)
            described.append(_described(column, sum(chunk.values for chunk in chunks), size, at))
            body += [chunk.page for chunk in chunks]
            at += size
        rows = _long(self._rows)
        group = b"\x19\xfc" + _varint(len(described)) + b"".join(described) + _long(at) + rows + b"\x00"
        footer = self._form.head + rows + b"\x19\x1c" + group + self._form.tail
        return b"".join((*body, footer, len(footer).to_bytes(4, "little"), _MAGIC))


def _described(column: bytes, values: int, size: int, at: int) -> bytes:
    """Return what a row group's footer says of a column: it has no statistics.

    :param column: from its type to its codec.
    """
    return b"\x26\x00\x1c" + column + _long(values) + _long(size) + _long(size) + _long(at, step=2) + b"\x00\x00"


def _long(value: int, *, step: int = 1) -> bytes:
    """Return a field that is a whole number.

    :param step: of its number from the field before.
    """
    return bytes([step << 4 | 6]) + _varint(value << 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _footer(body: bytes) -> bytes:
    return body[-8 - int.from_bytes(body[-8:-4], "little") : -8]


class _Field(NamedTuple):
    """A field of a structure: where it begins, with its number; where its value begins, and ends."""

    field: int
    begin: int
    end: int


def _fields(data: bytes, at: int) -> dict[int, _Field]:
    """Return the fields of the structure that begins here, by their numbers.

    :raises IndexError, ValueError: it is none.
    """
    return _structure(data, at)[0]


def _structure(data: bytes, at: int) -> tuple[dict[int, _Field], int]:
    found: dict[int, _Field] = {}
    number = 0
    while byte := data[at]:
        if not byte >> 4:
            raise ValueError("a field whose number is far behind the last")
        number += byte >> 4
        end = _end(data, at + 1, byte & 0x0F)
        found[number] = _Field(at, at + 1, end)
        at = end
    return found, at + 1


def _end(data: bytes, at: int, kind: int) -> int:
    """Return where a value ends."""
    if kind in NUMBERS:
        return read_varint(data, at)[1]
    if kind == TEXT:
        length, at = read_varint(data, at)
        return at + length
    if kind == STRUCTURE:
        return _structure(data, at)[1]
    if kind in _LISTS:
        count, inner, at = _list(data, at)
        for _ in range(count):
            at = _end(data, at, inner)
        return at
    if kind not in SKIPPED:
        raise ValueError("a value of no kind that footers have")
    return at + SKIPPED[kind]


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """Return how many values a list has, their kind, and where they begin."""
    count, kind = data[at] >> 4, data[at] & 0x0F
    at += 1
    if count == 0x0F:
        count, at = read_varint(data, at)
    return count, kind, at


def _elements(data: bytes, at: int) -> Sequence[int]:
    """Return where each structure of a list begins."""
    count, kind, at = _list(data, at)
    begins = []
    for _ in range(count):
        begins.append(at)
        at = _end(data, at, kind)
    return begins
