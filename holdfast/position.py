"""Positions in a source's log, as PostgreSQL writes them (`16/B374D848`) and as the integers they stand for."""

from __future__ import annotations

import re

_POSITION = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)


def parse_position(text: str) -> int:
    """Return the integer of a position.

    :raises ValueError: it is none.
    """
    found = _POSITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no log position: they are written as in 16/B374D848")
    return int(found[1], 16) << 32 | int(found[2], 16)


def show_position(position: int) -> str:
    """Return a position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
