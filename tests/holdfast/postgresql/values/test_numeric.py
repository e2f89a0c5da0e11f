from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.postgresql.values.numeric import (
    NumericDigits,
    decode_numeric,
    digits_of,
    numeric_bytes,
    numeric_text,
)
from tests.support.generator.trials import tiered

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables

EXACTLY = Context(prec=60)


@st.composite
def scaled_numbers(draw: st.DrawFn) -> tuple[int, int, list[int | None]]:
    """A precision, a scale and integers that are values of it in units of its last decimal."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    limit = 10**precision - 1
    edges = st.sampled_from([0, 1, -1, limit, -limit, 10 ** (precision - 1), 10 ** (precision // 2)])
    return precision, scale, draw(st.lists(st.none() | edges | st.integers(-limit, limit), max_size=20))


def text_of(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}}"
    minus = "-" if number < 0 else ""
    return f"{minus}{digits[:-scale]}.{digits[-scale:]}" if scale else minus + digits


@pytest.mark.slow
@settings(derandomize=True, max_examples=tiered(150, 500), deadline=None)
@given(scaled_numbers())
def test_every_value_of_every_precision_and_scale_decodes_exactly(given_: tuple[int, int, list[int | None]]) -> None:
    precision, scale, numbers = given_
    sent = pa.array([None if n is None else numeric_bytes(text_of(n, scale)) for n in numbers], pa.binary())
    values, exact = decode_numeric(sent, pa.decimal128(precision, scale))
    values.validate(full=True)
    with localcontext(EXACTLY):
        assert values.to_pylist() == [None if n is None else Decimal(n).scaleb(-scale) for n in numbers]
    assert exact.null_count == len(numbers)


@settings(derandomize=True, max_examples=tiered(150, 500), deadline=None)
@given(scaled_numbers())
def test_the_digits_of_decimals_make_up_their_values(given_: tuple[int, int, list[int | None]]) -> None:
    precision, scale, numbers = given_
    there = [n for n in numbers if n is not None]
    kind = pa.decimal128(precision, scale)
    with localcontext(EXACTLY):
        array = pa.array([Decimal(n).scaleb(-scale) for n in there], kind)
    negative, digits = digits_of(array)
    assert negative.tolist() == [n < 0 for n in there]
    assert digits.max(initial=0) < 10_000
    shape = NumericDigits.of(kind)
    for number, row in zip(there, digits.tolist(), strict=True):
        value = 0
        for digit in row:
            value = value * 10_000 + digit
        assert value * 10**scale == abs(number) * 10 ** (4 * shape.fraction)


@settings(derandomize=True, max_examples=tiered(60, 200))
@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_send_form_is_the_text_it_was_made_of(value: Decimal) -> None:
    text = f"{value:f}"
    text = text.removeprefix("-") if not value else text  # PostgreSQL has no negative zero
    assert numeric_text(numeric_bytes(text)) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NaN", pa.decimal128(12, 2)),
        ("Infinity", pa.decimal128(12, 2)),
        ("-Infinity", pa.decimal128(38, 2)),
        ("100", pa.decimal128(2, 0)),
        ("10000", pa.decimal128(4, 0)),
        ("1" + "0" * 38, pa.decimal128(38, 0)),
        ("1.0", pa.decimal128(3, 2)),
        ("1.125", pa.decimal128(3, 2)),
        ("1", pa.decimal128(2, 2)),
    ],
)
def test_what_a_decimal_cannot_hold_is_kept_as_text(text: str, kind: pa.Decimal128Type) -> None:
    fits = text_of(1, kind.scale)
    sent = pa.array([numeric_bytes(fits), None, numeric_bytes(text), numeric_bytes(fits)], pa.binary())
    values, exact = decode_numeric(sent, kind)
    assert values.is_valid().to_pylist() == [True, False, False, True]
    assert exact.to_pylist() == [None, None, text, None]


def test_a_slice_of_an_array_decodes_to_a_slice_of_the_values() -> None:
    numbers = [None if n % 7 == 0 else n - 50 for n in range(100)]
    sent = pa.array([None if n is None else numeric_bytes(text_of(n, 1)) for n in numbers], pa.binary())
    values, _ = decode_numeric(sent.slice(13, 40), pa.decimal128(5, 1))
    assert values.to_pylist() == [None if n is None else Decimal(n) / 10 for n in numbers[13:53]]
    negative, digits = digits_of(pa.array([Decimal(n) for n in range(-5, 5)], pa.decimal128(5, 0)).slice(4, 3))
    assert negative.tolist() == [True, False, False]
    assert digits.tolist() == [[0, 1], [0, 0], [0, 1]]


@pytest.mark.service
def test_the_server_sends_and_writes_numbers_the_same_way(tables: Tables) -> None:
    texts = ["NaN", "Infinity", "-Infinity", "0", "0.00", "-0.10", "12345.6789", "1e30", "1e-30", "9999.9999", "10000"]
    texts += [f"{'9' * n}.{'0' * (n % 5)}{n}" for n in range(1, 60)] + ["1" + "0" * 5000, "0." + "0" * 5000 + "1"]
    rows = tables.session.execute(
        "select n::numeric::text, numeric_send(n::numeric) from unnest(%s::text[]) n", (texts,)
    ).fetchall()
    for text, sent in rows:
        assert numeric_text(sent) == text
        assert numeric_bytes(text)[:6] == sent[:6]
        assert text.endswith(("NaN", "Infinity")) or numeric_bytes(text) == sent


@pytest.mark.service
@pytest.mark.parametrize(
    "first",
    [  # the least, those about the middle (a number of 64 bits has 19 digits), and the most
        each if each in (1, 19, 37) else pytest.param(each, marks=pytest.mark.exhaustive) for each in range(1, 39, 3)
    ],
)
def test_tables_with_every_scale_of_a_precision_travel_exactly(tables: Tables, first: int) -> None:
    kinds = [(p, s) for p in range(first, min(first + 3, 39)) for s in range(p + 1)]
    table = tables.create(", ".join(f"n_{p}_{s} numeric({p},{s})" for p, s in kinds))
    random = np.random.default_rng(first)
    for row in range(8):
        values = []
        for precision, scale in kinds:
            length = int(random.integers(0, precision + 1)) if row > 2 else precision
            digits = "".join(str(digit) for digit in random.integers(0, 10, length)) or "0"
            number = [10**precision - 1, 1 - 10**precision, 0][row] if row < 3 else int(digits)
            values.append(text_of(number if row % 2 else -number, scale))
        tables.fill(table, f"values ({', '.join(values)})")
    travelled = tables.travel(table)
    assert travelled.copies == {travelled.source, travelled.files}
    assert travelled.differing_rows == 0
