"""Rows in messages of pgoutput, as positions of their values in the buffer.

They are read column by column over many rows.

Source: PostgreSQL manual, 'Logical Replication Message Formats', TupleData.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.values.from_text import Cells

if TYPE_CHECKING:
    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s

_NULL, _UNCHANGED, _TEXT = b"nut"


class ProtocolError(HoldfastError):
    """Content of the stream that this release does not understand.

    Nothing of the stream may be kept.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the stream of changes holds {what}, which this release does not understand: "
            "update Holdfast, or take a full backup"
        )


_BIG: Final = {2: ">u2", 4: ">u4", 8: ">i8"}


def integers(octets: UInt8s, at: Int64s, width: int) -> Int64s:
    """Return the big-endian integers that begin at `at`.

    They have 2 or 4 bytes without a sign, or 8 with one.
    """
    if not len(at):
        return np.zeros(0, np.int64)
    everywhere: npt.NDArray[np.generic] = np.ndarray((len(octets) - width + 1,), _BIG[width], octets, strides=(1,))
    try:
        return everywhere[at].astype(np.int64)
    except IndexError as error:
        raise ProtocolError("a message that is cut off") from error


def tuples(octets: UInt8s, at: Int64s, columns: int) -> tuple[list[Cells], Int64s]:
    """Read the tuples that begin at `at`; return their columns, and where each ends.

    :raises ProtocolError: they do not have so many columns, or are none.
    """
    if (integers(octets, at, 2) != columns).any():
        raise ProtocolError("rows of another number of columns than their table")
    at = at + 2
    cells = []
    for _ in range(columns):
        flags = octets.take(at, mode="clip")
        text = flags == _TEXT
        if text.all():
            length = integers(octets, at + 1, 4)
            start = at + 5
            unchanged = None
        else:
            length = np.zeros(len(at), np.int64)
            length[text] = integers(octets, at[text] + 1, 4)
            start = at + np.where(text, 5, 1)
            unchanged = flags == _UNCHANGED
            if not (text | unchanged | (flags == _NULL)).all():
                raise ProtocolError("values in another format than text")
            if not unchanged.any():
                unchanged = None
        cells.append(Cells(start, length, text, unchanged))
        at = start + length
    return cells, at
