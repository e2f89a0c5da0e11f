"""Rows in messages, read column by column, whatever lies around them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.postgresql.logical.pgoutput import ProtocolError, integers, tuples

UNCHANGED = object()
_VALUES = st.none() | st.just(UNCHANGED) | st.text(max_size=6)
_ROWS = st.integers(0, 4).flatmap(lambda width: st.lists(st.lists(_VALUES, min_size=width, max_size=width), max_size=6))


def body(values: list[object]) -> bytes:
    cells = (
        b"u" if each is UNCHANGED else b"n" if each is None else b"t" + struct.pack(">I", len(text)) + text
        for each, text in ((each, each.encode() if isinstance(each, str) else b"") for each in values)
    )
    return struct.pack(">H", len(values)) + b"".join(cells)


@given(_ROWS, st.binary(max_size=3))
def test_each_value_is_where_its_text_lies(rows: list[list[object]], between: bytes) -> None:
    octets, at, ends = bytearray(), [], []
    for row in rows:
        octets += between
        at.append(len(octets))
        octets += body(row)
        ends.append(len(octets))
    whole = np.frombuffer(bytes(octets), np.uint8)
    columns, found_ends = tuples(whole, np.array(at, np.int64), len(rows[0]) if rows else 2)
    assert found_ends.tolist() == ends
    for place, cells in enumerate(columns):
        values = [row[place] for row in rows]
        assert (cells.unchanged is None) == (UNCHANGED not in values)
        for number, value in enumerate(values):
            assert bool(cells.text[number]) == isinstance(value, str)
            text = bytes(whole[cells.start[number] : cells.start[number] + cells.length[number]])
            assert text.decode() == (value if isinstance(value, str) else "")
            if cells.unchanged is not None:
                assert bool(cells.unchanged[number]) == (value is UNCHANGED)


def test_some_rows_of_a_column_are_those_that_were_asked_for() -> None:
    octets = np.frombuffer(body(["a"]) + body([UNCHANGED]) + body([None]), np.uint8)
    [cells], _ = tuples(octets, np.array([0, 8, 11]), 1)
    some = cells.of(np.array([2, 1]))
    assert (some.text.tolist(), some.length.tolist()) == ([False, False], [0, 0])
    assert some.unchanged is not None
    assert some.unchanged.tolist() == [False, True]
    assert cells.of(np.array([True, False, False])).start.tolist() == [7]


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (b"\0\2n", "another number of columns"),
        (b"\0\1b\0\0\0\1x", "another format than text"),
        (b"\0\1t\0\0", "cut off"),
        (b"\0", "cut off"),
    ],
)
def test_rows_that_are_not_what_they_should_be_are_refused(rest: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why) as caught:
        tuples(np.frombuffer(b"\0\1n" + rest, np.uint8), np.array([0, 3]), 1)
    assert str(caught.value).endswith("which this release does not understand: update Holdfast, or take a full backup")


@pytest.mark.parametrize(("width", "packed"), [(2, ">H"), (4, ">I"), (8, ">q")])
@given(data=st.data())
def test_integers_are_read_from_any_byte_on(width: int, packed: str, data: st.DataObject) -> None:
    least = -(1 << 63) if width == 8 else 0
    number = data.draw(st.integers(least, (1 << (8 * width - (width == 8))) - 1))
    before = data.draw(st.binary(max_size=9))
    octets = np.frombuffer(before + struct.pack(packed, number), np.uint8)
    assert integers(octets, np.array([len(before)]), width).tolist() == [number]
    with pytest.raises(ProtocolError, match="a message that is cut off"):
        integers(octets, np.array([len(before) + 1]), width)
    assert integers(octets, np.array([], np.int64), width).tolist() == []
