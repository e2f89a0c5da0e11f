"""Numpy views below Arrow arrays show what the arrays hold, also of slices of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.postgresql.values import arrow

_TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=40)
_CUT = st.tuples(st.integers(0, 40), st.integers(0, 40))


def cut(array: pa.Array, places: tuple[int, int]) -> pa.Array:
    return array.slice(*places)


@given(_TEXTS, _CUT)
def test_validity_is_the_mask_of_what_is_there(values: list[str | None], places: tuple[int, int]) -> None:
    array = cut(pa.array(values, pa.string()), places)
    mask = arrow.validity(array)
    there = [each is not None for each in array.to_pylist()]
    assert mask is None if all(there) else mask is not None and mask.tolist() == there


@given(st.lists(st.booleans(), max_size=40))
def test_a_mask_becomes_a_bitmap_and_is_read_from_any_bit_on(mask: list[bool]) -> None:
    buffer = arrow.bitmap(np.array(mask, np.bool_))
    for first in range(len(mask)):
        assert arrow.bits(buffer, first, len(mask) - first).tolist() == mask[first:]


@given(_TEXTS, _CUT, st.sampled_from([pa.string(), pa.large_string()]))
def test_offsets_cut_the_bytes_of_all_values(
    values: list[str | None], places: tuple[int, int], kind: pa.DataType
) -> None:
    array = cut(pa.array(values, kind), places)
    ends, octets = arrow.offsets(array), arrow.data(array)
    assert len(ends) == len(array) + 1
    found = [bytes(octets[start:end]).decode() for start, end in pairwise(ends.tolist())]
    assert found == [each or "" for each in array.to_pylist()]


@pytest.mark.parametrize(
    ("array", "kind", "width", "values"),
    [
        (pa.array([1, 2, 3, 4], pa.int32()).slice(1, 2), np.int32, 1, [2, 3]),
        (pa.array([7, None, 9], pa.int64()).slice(2), np.int64, 1, [9]),
        (pa.array([b"ab", b"cd", b"ef"], pa.binary(2)).slice(1), np.uint8, 2, list(b"cdef")),
        (pa.array([], pa.int64()), np.int64, 1, []),
    ],
    ids=["slice", "behind a NULL", "wide", "empty"],
)
def test_numbers_are_those_of_the_slice(array: pa.Array, kind: type[np.generic], width: int, values: list[Any]) -> None:
    assert arrow.numbers(array, kind, width).tolist() == values


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()])
def test_an_array_with_empty_buffers_has_no_bytes_and_one_end(kind: pa.DataType) -> None:
    empty = pa.Array.from_buffers(kind, 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    assert arrow.offsets(empty).tolist() == [0]
    assert arrow.data(empty).tolist() == []


@given(st.lists(st.none() | st.sampled_from(["infinity", "NaN", ""]), min_size=1, max_size=40))
def test_sparse_values_are_spread_to_what_they_were(values: list[str | None]) -> None:
    array = pa.array(values, pa.string())
    found = arrow.sparse(array)
    if found is None:
        assert set(values) == {None}
    else:
        assert [found.texts[code] for code in found.codes] == [each for each in values if each is not None]
        assert arrow.spread(found, len(values)).equals(array)
