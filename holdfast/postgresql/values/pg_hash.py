"""PostgreSQL's hash functions over numpy arrays, equal to the server's results.

Bob Jenkins' lookup3 as in PostgreSQL's src/common/hashfn.c (`hash_bytes_extended`,
`hash_uint32_extended`) on little-endian machines. Everything is modulo 2**32, on three vectors of
uint32; arrays of some ten thousand values keep them in the processor's cache.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

UInt8s = npt.NDArray[np.uint8]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

GROUP: Final = 12
"""Bytes that one round of the hash takes; what is hashed must be readable that far past its end."""

_START: Final = 0x9E3779B9 + 3923095  # what hash_bytes_extended starts from, before the length
_HALF: Final = np.uint64(32)
# _KEEP[n] keeps the first n bytes of a group and clears the others.
_KEEP: Final = np.tril(np.full((GROUP, GROUP), 0xFF, np.uint8), -1).view("V12").reshape(GROUP)


def hash_uint32(values: UInt32s) -> UInt64s:
    """Return `hash_uint32_extended(value, 0)` of each value."""
    return hash_words(values, None, 4)


def hash_int8(values: Int64s) -> UInt64s:
    """Return `hashint8extended(value, 0)`; of smaller integers it is that of their own type too."""
    return hash_uint32(_fold(values))


def hash_words(first: UInt32s, second: UInt32s | None, length: int | UInt32s) -> UInt64s:
    """Return `hash_bytes_extended` of at most 8 bytes, given as words.

    There are `length` bytes, in one or two words with zeros behind them.
    """
    start = np.uint32(_START) + np.asarray(length, np.uint32)
    a = first + start
    b = np.full_like(a, start) if second is None else second + start
    return _finish(a, b, np.full_like(a, start))


def hash_self(values: UInt64s) -> UInt64s:
    """Return `hashint8extended(value, value)`, with the value as its own seed."""
    a = np.add((values >> _HALF).astype(np.uint32), np.uint32(_START + 4))
    b = np.add(values.astype(np.uint32), np.uint32(_START + 4))
    c = np.full_like(a, _START + 4)
    _mix(a, b, c)
    a += _fold(values.view(np.int64))
    hashed = _finish(a, b, c)
    unseeded = values == 0  # the server does not mix a seed of zero
    if unseeded.any():
        hashed[unseeded] = hash_uint32(np.zeros(1, np.uint32))[0]
    return hashed


def hash_bytes(buffer: UInt8s, starts: Int64s, lengths: Int64s) -> UInt64s:
    """Return `hash_bytes_extended(bytes, 0)` of each slice of `buffer`.

    :param buffer: must go on for at least `GROUP` bytes past the end of every slice.
    """
    whole = lengths // GROUP
    longer = len(whole) - np.cumsum(np.bincount(whole, minlength=1))  # longer[n] slices have more than n groups
    order = None
    if len(longer) > 1 and longer[-2] < len(whole):
        # The longest first: those that have one group more are then always the first of them, and need no picking.
        order = np.argsort((len(longer) - 1 - whole).astype(np.min_scalar_type(len(longer))), kind="stable")
        starts, lengths, whole = starts[order], lengths[order], whole[order]
    a = np.add(lengths.astype(np.uint32), np.uint32(_START))
    b, c = a.copy(), a.copy()
    for number, count in enumerate(longer[:-1].tolist()):
        some = a[:count], b[:count], c[:count]
        for kept, column in zip(some, _words(buffer, starts[:count] + number * GROUP).T, strict=True):
            kept += column
        _mix(*some)
    done = whole * GROUP
    words = _words(buffer, starts + done)
    words &= _KEEP[lengths - done].view(np.uint32).reshape(-1, 3)
    a += words[:, 0]
    b += words[:, 1]
    c += words[:, 2] << np.uint32(8)  # its lowest byte is reserved for the length
    hashed = _finish(a, b, c)
    if order is None:
        return hashed
    placed = np.empty_like(hashed)
    placed[order] = hashed
    return placed


def _words(buffer: UInt8s, starts: Int64s) -> UInt32s:
    """Return the words of the groups that start there."""
    groups = np.ndarray((len(buffer) - GROUP + 1,), f"V{GROUP}", buffer.data, strides=(1,))
    return groups[starts].view(np.uint32).reshape(-1, 3)


def _fold(values: Int64s) -> UInt32s:
    """Return the 32 bits that hashint8 hashes: those of an int4 where the value is one."""
    high = values >> np.int64(32)
    high ^= values >> np.int64(63)  # the complement where negative
    high ^= values
    return high.astype(np.uint32)


def _mix(a: UInt32s, b: UInt32s, c: UInt32s) -> None:
    left, right = np.empty_like(a), np.empty_like(a)
    for x, y, z, bits in ((a, c, b, 4), (b, a, c, 6), (c, b, a, 8), (a, c, b, 16), (b, a, c, 19), (c, b, a, 4)):
        x -= y
        x ^= _rotate(y, bits, left, right)
        y += z


def _finish(a: UInt32s, b: UInt32s, c: UInt32s) -> UInt64s:
    left, right = np.empty_like(a), np.empty_like(a)
    for x, y, bits in ((c, b, 14), (a, c, 11), (b, a, 25), (c, b, 16), (a, c, 4), (b, a, 14), (c, b, 24)):
        x ^= y
        x -= _rotate(y, bits, left, right)
    hashed = b.astype(np.uint64)
    hashed <<= _HALF
    hashed |= c
    return hashed


def _rotate(values: UInt32s, bits: int, left: UInt32s, right: UInt32s) -> UInt32s:
    """Return the values rotated left; the two scratch arrays spare two allocations."""
    np.left_shift(values, np.uint32(bits), out=left)
    np.right_shift(values, np.uint32(32 - bits), out=right)
    left |= right
    return left
