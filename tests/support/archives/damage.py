"""Bytes that were written, and every class of what may become of them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping

import pyarrow.parquet as pq

Region = tuple[int, int]
"""Offset of the first byte and of the one after the last."""

MASKS = (0x01, 0x20, 0x80)
"""A digit becomes another one, a letter changes its case, a character is none any more."""


def parquet_regions(body: bytes) -> Mapping[str, Region]:
    """Return the parts of a Parquet file. Source: the Parquet format, 'File format' and 'Data pages'."""
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    regions = {
        "leading magic": (0, 4),
        "footer": (footer, len(body) - 8),
        "footer's length": (len(body) - 8, len(body) - 4),
        "closing magic": (len(body) - 4, len(body)),
    }
    metadata = pq.read_metadata(io.BytesIO(body))
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            start = column.dictionary_page_offset or column.data_page_offset
            end = start + column.total_compressed_size
            name = f"{column.path_in_schema} of row group {group}"
            if column.dictionary_page_offset:
                regions[f"dictionary page, {name}"] = (start, column.data_page_offset)
            # A page's header is Thrift without a length of its own; a dozen bytes of it are certain.
            regions[f"page header, {name}"] = (column.data_page_offset, column.data_page_offset + 12)
            regions[f"page data, {name}"] = (column.data_page_offset + 12, end)
    return regions


def lines(body: bytes) -> Mapping[str, Region]:
    """Return the parts of an indented JSON document."""
    regions = {}
    start = 0
    for number, line in enumerate(body.splitlines(keepends=True), 1):
        regions[f"line {number}, {line.strip().decode()[:40]}"] = (start, start + len(line))
        start += len(line)
    return regions


def flipped(body: bytes, place: int, mask: int = 0x01) -> bytes:
    """Return the bytes with some bits of one of them changed."""
    return body[:place] + bytes([body[place] ^ mask]) + body[place + 1 :]


def damages(body: bytes, regions: Mapping[str, Region] | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield every class of damage by name, with the bytes that are there then."""
    yield "cut to nothing", b""
    yield "cut in half", body[: len(body) // 2]
    yield "the last byte gone", body[:-1]
    yield "the first byte gone", body[1:]
    yield "one byte too many", body + b"\0"
    yield "twice", body + body
    yield "all zeros", bytes(len(body))
    for name, (start, end) in {"whole": (0, len(body)), **(regions or {})}.items():
        for mask in MASKS:
            for place in sorted({start, (start + end) // 2, end - 1}):
                yield f"{name}: byte {place} flipped by {mask:#x}", flipped(body, place, mask)
        yield f"{name}: taken out", body[:start] + body[end:]
        yield f"{name}: zeros", body[:start] + bytes(end - start) + body[end:]
