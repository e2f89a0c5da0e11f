"""Rows that the server sends column by column are those that it sends row by row.

Every type's values are compared in `test_round_trip`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.values.columnar import ColumnarReader
from holdfast.postgresql.values.decode import Decoder
from holdfast.postgresql.values.numeric import numeric_bytes
from holdfast.postgresql.values.stored_columns import layout
from tests.support.databases.records import column
from tests.support.databases.tables import Tables
from tests.support.generator.trials import tiered

NULLABLE = [
    column("i", 1, "int4"),
    column("t", 2, "text"),
    column("n", 3, "numeric", precision=12, scale=2),
    column("b", 4, "bytea"),
    column("o", 5, "bool"),
    column("u", 6, "uuid"),
]
ROWS = st.tuples(
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6),
    st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda cents: f"{cents / 100:.2f}"),
    st.none() | st.binary(max_size=6),
    st.none() | st.booleans(),
    st.none() | st.text("0123456789abcdef-", max_size=6),
)


def sent(chunks: Sequence[Sequence[tuple[Any, ...]]]) -> pa.RecordBatch:
    """What a server sends of these rows in columns of NULLABLE, some in each answer."""

    def octets(values: Sequence[bytes]) -> bytes | None:
        return b"".join(values) if values else None

    answers = []
    for rows in chunks:
        answer: list[Any] = [len(rows)]
        for place, values in enumerate(zip(*rows, strict=True) if rows else [()] * len(NULLABLE)):
            answer.append(octets([bytes([value is not None]) for value in values]))
            there = [value for value in values if value is not None]
            answer.append(octets([SEND[place](value) for value in there]))
            if place in (1, 3):
                answer.append(octets([len(SEND[place](value)).to_bytes(4) for value in there]))
        answers.append(answer)
    fields = [
        pa.array(field, pa.binary() if place else pa.int64()) for place, field in enumerate(zip(*answers, strict=True))
    ]
    return pa.RecordBatch.from_arrays(fields, names=list(map(str, range(len(fields)))))


SEND = (
    lambda value: value.to_bytes(4, signed=True),
    lambda value: value.encode(),
    lambda value: numeric_bytes(value) + b"\xee\xee",
    lambda value: value,
    lambda value: bytes([value]),
    lambda value: value.encode() + b"\0",
)


@settings(derandomize=True, max_examples=tiered(150, 1000), deadline=None)
@given(st.lists(st.lists(ROWS, max_size=9), min_size=1, max_size=4))
def test_every_row_comes_as_it_was_sent_wherever_answers_end(chunks: list[list[tuple[Any, ...]]]) -> None:
    reader = ColumnarReader(layout(tuple(NULLABLE)))
    rows = reader.rows(sent(chunks))
    rows.validate(full=True)
    decoded = Decoder(NULLABLE).decode(rows)
    decoded.validate(full=True)
    found = zip(*(decoded.column(place).to_pylist() for place in range(6)), strict=True)
    assert [(i, t, None if n is None else f"{n:.2f}", *more) for i, t, n, *more in found] == [
        (i, t, None if n is None else f"{Decimal(n):.2f}", *more) for rows in chunks for i, t, n, *more in rows
    ]


@pytest.mark.parametrize("field", range(1, 15))
def test_a_column_with_another_number_of_values_than_rows_is_refused(field: int) -> None:
    right = sent([[(1, "a", "1.00", b"x", True, "e"), (2, "b", "2.00", b"y", False, "f")]])
    short = pa.array([right.column(field)[0].as_py()[:-1]], pa.binary())
    wrong = right.set_column(field, right.schema.names[field], short)
    with pytest.raises(HoldfastError, match="did not send 2 values of a column, as it said: back up again"):
        ColumnarReader(layout(tuple(NULLABLE))).rows(wrong)


def test_a_table_without_columns_or_with_very_many_is_read_row_by_row() -> None:
    assert not Decoder([]).columnar.is_possible
    assert Decoder([column(f"c{n}", n, "int4") for n in range(1, 790)]).columnar.is_possible
    assert not Decoder([column(f"c{n}", n, "int4") for n in range(1, 901)]).columnar.is_possible


def test_only_columns_that_may_be_null_have_a_mask() -> None:
    (_, values) = Decoder([column("a", 1, "int8", not_null=True)]).columnar.select_list().split(", pg_catalog", 1)
    assert values == """.string_agg(pg_catalog.int8send("a"::"pg_catalog"."int8"), '')"""
    assert "distinct from null" in Decoder([column("a", 1, "int8")]).columnar.select_list()


@pytest.mark.service
def test_as_many_columns_as_a_table_can_have_come_by_columns_where_they_may(tables: Tables) -> None:
    table = tables.create(", ".join(f"c{number} int4" for number in range(790)))
    tables.session.execute(f"insert into {table} (c1, c789) values (1, 2), (3, null)".encode())
    decoder = Decoder(tables.columns(table))
    [batch] = tables.read_by_columns(table, decoder)
    assert batch == tables.read(table, decoder)[0]


@pytest.mark.service
def test_a_composite_value_of_nulls_is_none_itself(tables: Tables) -> None:
    tables.session.execute("create type public.two as (a int, b text)")
    table = tables.create("x public.two")
    tables.fill(table, "values (row(null, null)), (null)")
    [batch] = tables.read_by_columns(table, Decoder(tables.columns(table)))
    assert batch.column(0).to_pylist() == ["(,)", None]
