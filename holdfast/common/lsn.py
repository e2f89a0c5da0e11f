"""Positions (LSNs) in a source's log, as PostgreSQL's text (`16/B374D848`) and as integers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

PAGE_HEADER = 40
"""Bytes at most of the header of a page of the log. Source: SizeOfXLogLongPHD of xlog_internal.h."""

_PAGE_MULTIPLE = 1024
"""Pages of the log of any size begin at multiples of this. Source: --with-wal-blocksize of PostgreSQL."""

Touches = Mapping[tuple[int, int], Sequence[int]]
"""Positions at which objects were touched, by the oid of each one's catalog and its own."""

PG_CLASS = 1259
"""Oid of the catalog of tables, which is fixed. Source: PostgreSQL's `src/include/catalog/pg_class.h`."""

_POSITION = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)


def parse_position(text: str) -> int:
    """Return the integer of a position; raises ValueError."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no log position: they are written as in 16/B374D848")
    return int(match[1], 16) << 32 | int(match[2], 16)


def show_position(position: int) -> str:
    """Return a position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def between_records(position: int) -> int:
    """Map a position in a page header to the page's first byte; others stay.

    A server may report the end of the log on either side of the next page's header. No commit lies between: in a log
    for logical decoding, a commit's record is longer than a header.
    """
    over = position % _PAGE_MULTIPLE
    return position - over if over <= PAGE_HEADER else position
