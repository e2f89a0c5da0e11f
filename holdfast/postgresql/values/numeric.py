"""numeric values, between PostgreSQL's base-10000 digits and Arrow's decimal128.

`numeric_send` gives 16-bit big-endian words: the number of digits, the weight (the power of 10000 of
the first), the sign, the display scale, then the digits, without zeros at either end. All rows of a
batch are converted at once, one power of 10000 after the other, in 64 or 128 bits.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.postgresql.values import arrow

if TYPE_CHECKING:
    from holdfast.postgresql.values.arrow import Bools
    from holdfast.postgresql.values.pg_hash import Int64s, UInt64s

Digits = npt.NDArray[np.uint16]

NARROW: Final = 18
"""The precision up to which scaled values fit int64."""

SPECIAL: Final = 0xC000
"""Bits of the sign that NaN and the infinities have in common."""

PACKED: Final = 4
"""How many base-10000 digits fit one word of 64 bits: those of precisions up to 13, and mostly up to 16."""

_HEADER: Final = 4  # words
_SLOT: Final = np.uint64(16)  # bits of a packed digit; the first stands in the lowest
_DIGIT: Final = np.uint64(0xFFFF)
# _KEEP[n] keeps the first n packed digits and clears the others.
_KEEP: Final = np.array([(1 << 16 * count) - 1 for count in range(PACKED + 1)], np.uint64)
_POSITIVE, _NEGATIVE = 0x0000, 0x4000
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_SPECIAL_SIGNS: Final = {text: sign for sign, text in _SPECIAL.items()}
_ROWS_AT_ONCE: Final = 1 << 15
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


class NumericDigits(NamedTuple):
    """The base-10000 digits that numeric(p,s) can have.

    :param whole: how many stand before the point.
    :param fraction: how many stand behind it.
    :param first: how many decimal digits of the first are not always zero.
    :param last: how many decimal digits of the last belong to the scale.
    """

    whole: int
    fraction: int
    first: int
    last: int

    @property
    def width(self) -> int:
        """Return the number of digits."""
        return self.whole + self.fraction

    @classmethod
    def of(cls, kind: pa.Decimal128Type) -> NumericDigits:
        """Return the shape of a decimal type with 0 <= scale <= precision."""
        before = kind.precision - kind.scale
        whole, fraction = -(-before // 4), -(-kind.scale // 4)
        return cls(whole, fraction, (before - 1) % 4 + 1 if whole else 4, (kind.scale - 1) % 4 + 1)

    def factor(self, power: int) -> int:
        """Return the multiplier of the digits before the one at a power of 10000."""
        return int(10**self.last) if power == -self.fraction else 10_000


def decode_numeric(sent: pa.Array, kind: pa.Decimal128Type) -> tuple[pa.Array, pa.Array]:
    """Decode `numeric_send` of a numeric(p,s) column.

    :return: the values as decimal128(p,s), NULL where one does not fit (NaN); and the text of those.
    """
    count = len(sent)
    halves = np.empty((count, 2), np.uint64)
    strange = np.zeros(count, np.bool_)
    starts = arrow.offsets(sent)
    # The header of a NULL, which has no bytes, is read from what follows it.
    words = np.zeros(starts[-1] // 2 + _HEADER + PACKED, np.uint16)
    words[: starts[-1] // 2] = arrow.data(sent)[: starts[-1]].view(">u2")
    shape = NumericDigits.of(kind)
    decode = _decode_packed if shape.width <= PACKED else _decode
    for first in range(0, count, _ROWS_AT_ONCE):
        part = slice(first, min(first + _ROWS_AT_ONCE, count))
        at = starts[part].astype(np.int64) // 2
        strange[part] = decode(words, at, shape, kind, halves[part])
    valid = arrow.validity(sent)
    if valid is not None:
        strange &= valid
    exact = pa.nulls(count, pa.string())
    if strange.any():
        valid = ~strange if valid is None else valid & ~strange
        rows = np.flatnonzero(strange)
        encoded = sent.take(pa.array(rows)).dictionary_encode()
        texts = [numeric_text(each) for each in encoded.dictionary.to_pylist()]
        exact = arrow.spread(arrow.Sparse(rows, encoded.indices.to_numpy(), texts), count)
    bitmap = None if valid is None else arrow.bitmap(valid)
    return pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(halves)]), exact


def _decode_packed(words: Digits, at: Int64s, shape: NumericDigits, kind: pa.Decimal128Type, halves: UInt64s) -> Bools:
    """Decode like `_decode` where all digits fit one word.

    They are read, and brought to their places, at once.
    """
    sent = np.ndarray((len(words) - _HEADER - PACKED + 1,), "V16", words.data, strides=(2,))[at]
    header = sent.view(np.uint16).reshape(-1, _HEADER + PACKED)
    count, sign = header[:, 0], header[:, 2]
    missing = shape.whole - 1 - header[:, 1].view(np.int16).astype(np.int64)  # digits that stand before the first sent
    strange: Bools = header[:, 3] != kind.scale
    strange |= (missing < 0) & (count > 0)
    digits = sent.view(np.uint64).reshape(-1, 2)[:, 1] & _KEEP.take(count, mode="clip")
    digits <<= np.clip(missing, 0, PACKED - 1).view(np.uint64) * _SLOT
    low = digits & _DIGIT
    for _ in range(shape.width - 1):
        digits >>= _SLOT
        low *= np.uint64(10_000)
        low += digits & _DIGIT
    if (below := 10 ** (4 - shape.last)) > 1:
        low //= np.uint64(below)
    strange |= low >= np.uint64(10**kind.precision)
    negative = sign == _NEGATIVE
    strange |= (sign != _POSITIVE) & ~negative
    halves[:, 0], halves[:, 1] = _negate(low, np.zeros_like(low), negative) if negative.any() else (low, 0)
    return strange


def _decode(words: Digits, at: Int64s, shape: NumericDigits, kind: pa.Decimal128Type, halves: UInt64s) -> Bools:
    """Write the scaled values of rows, and return a mask of those that do not fit.

    The words of each row start at `at`.
    """
    count = words[at].astype(np.int64)
    weight = words[at + 1].view(np.int16).astype(np.int64)
    sign = words[at + 2]
    strange: Bools = words[at + 3] != kind.scale
    strange |= (weight >= shape.whole) & (count > 0)
    low, high = np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)
    for power in range(shape.whole - 1, -shape.fraction - 1, -1):
        digits = _digits_at(words, at + _HEADER, count, weight - power)
        factor = shape.factor(power)
        if factor < 10_000:
            digits //= np.uint64(10_000 // factor)
        if power == shape.whole - 1:
            strange |= digits >= np.uint64(10**shape.first)
        if kind.precision <= NARROW:
            low *= np.uint64(factor)
            low += digits
        else:
            low, high = _times_plus(low, high, np.uint64(factor), digits)
    negative = sign == _NEGATIVE
    strange |= (sign != _POSITIVE) & ~negative
    halves[:, 0], halves[:, 1] = _negate(low, high, negative) if negative.any() else (low, high)
    return strange


def _digits_at(words: Digits, first: Int64s, count: Int64s, index: Int64s) -> UInt64s:
    """Return each row's digit number `index`, zero where it has none."""
    there = (index >= 0) & (index < count)
    digits = words.take(first + index, mode="clip").astype(np.uint64)
    digits *= there
    return digits


def _times_plus(low: UInt64s, high: UInt64s, factor: np.uint64, plus: UInt64s) -> tuple[UInt64s, UInt64s]:
    """Return 128-bit value * factor + plus; the factor is below 2**32."""
    small = (low & _LOW) * factor + plus
    large = (low >> _HALF) * factor + (small >> _HALF)
    return (large << _HALF) | (small & _LOW), high * factor + (large >> _HALF)


def _negate(low: UInt64s, high: UInt64s, which: Bools) -> tuple[UInt64s, UInt64s]:
    """Return the two's complement of some 128-bit values."""
    ones = np.negative(which.astype(np.int64)).view(np.uint64)
    low = (low ^ ones) + which
    return low, (high ^ ones) + (which & (low == 0))


def packed_digits_of(decimals: pa.Array) -> tuple[Bools, UInt64s]:
    """Return the result of `digits_of` with each value's digits packed in one word.

    `NumericDigits.width` must be at most PACKED. A digit has 16 bits, and the first is the lowest.
    """
    shape = NumericDigits.of(decimals.type)
    signed = arrow.numbers(decimals, np.int64, width=2)[::2]
    negative = signed < 0
    rest = np.abs(signed).view(np.uint64)
    packed = np.zeros_like(rest)
    for column, factor in _from_the_right(shape):
        left = rest // np.uint64(factor)
        rest -= left * np.uint64(factor)
        if factor < 10_000:
            rest *= np.uint64(10_000 // factor)
        packed |= rest << (np.uint64(column) * _SLOT)
        rest = left
    return negative, packed


def digits_of(decimals: pa.Array) -> tuple[Bools, Digits]:
    """Return a mask of negative values in a decimal128(p,s) array, and all digits.

    The digits are those of `NumericDigits`.

    What stands under a NULL is undefined.
    """
    halves = arrow.numbers(decimals, np.int64, width=2).reshape(-1, 2)
    shape = NumericDigits.of(decimals.type)
    digits = np.empty((len(decimals), shape.width), np.uint16)
    signed = halves[:, 0]
    negative = halves[:, 1] < 0
    if decimals.type.precision <= NARROW or bool(((signed >> 63) == halves[:, 1]).all()):
        low = np.abs(signed).view(np.uint64)
        for column, factor in _from_the_right(shape):
            rest = low // np.uint64(factor)
            low -= rest * np.uint64(factor)
            digits[:, column] = low if factor == 10_000 else low * np.uint64(10_000 // factor)
            low = rest
        return negative, digits
    low, high = _negate(signed.view(np.uint64), halves[:, 1].view(np.uint64), negative)
    limbs = [high >> _HALF, high & _LOW, low >> _HALF, low & _LOW]
    for column, factor in _from_the_right(shape):
        carried = _divide(limbs, np.uint64(factor))
        digits[:, column] = carried * np.uint64(10_000 // factor)
    return negative, digits


def _from_the_right(shape: NumericDigits) -> list[tuple[int, int]]:
    """Return the columns of the digits from the last to the first, each with its factor."""
    powers = range(-shape.fraction, shape.whole)
    return [(shape.whole - 1 - power, shape.factor(power)) for power in powers]


def _divide(limbs: list[UInt64s], factor: np.uint64) -> UInt64s:
    """Divide 128-bit values, four limbs of 32 bits, in place; return the remainders."""
    rest = np.zeros_like(limbs[0])
    for number, limb in enumerate(limbs):
        rest = (rest << _HALF) | limb
        limbs[number] = rest // factor
        rest -= limbs[number] * factor
    return rest


def numeric_text(sent: bytes) -> str:
    """Return the text of one value of any size from its send form."""
    count, weight, sign, scale = struct.unpack_from(">HhHH", sent)
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    digits = "".join(f"{digit:04}" for digit in struct.unpack_from(f">{count}H", sent, 2 * _HEADER))
    point = 4 * (weight + 1)
    whole = digits[: max(point, 0)].ljust(point, "0").lstrip("0") or "0"
    fraction = ("0" * -point + digits[max(point, 0) :]).ljust(scale, "0")[:scale]
    minus = "-" if sign == _NEGATIVE else ""
    return f"{minus}{whole}.{fraction}" if scale else minus + whole


def numeric_bytes(text: str) -> bytes:
    """Return the send form of a value from its text."""
    if text in _SPECIAL_SIGNS:
        return struct.pack(">HhHH", 0, 0, _SPECIAL_SIGNS[text], 0)
    whole, _, fraction = text.lstrip("-").partition(".")
    before, behind = -(-len(whole) // 4), -(-len(fraction) // 4)
    padded = whole.zfill(4 * before) + fraction.ljust(4 * behind, "0")
    digits = [int(padded[at : at + 4]) for at in range(0, len(padded), 4)]
    weight = before - 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        del digits[-1]
    sign = _NEGATIVE if text.startswith("-") else _POSITIVE
    return struct.pack(f">HhHH{len(digits)}H", len(digits), weight if digits else 0, sign, len(fraction), *digits)
