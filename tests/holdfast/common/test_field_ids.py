"""Field ids: columns are told apart by them, and never by their names."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.common.field_ids import (
    COUNT,
    EXACT_FIELD_IDS,
    LSN,
    OP,
    SEQ,
    UNCHANGED,
    field_id,
    number_of,
    numbered,
    with_extra,
)

MOST_COLUMNS = 1600
"""A table of PostgreSQL has no more; numbers of dropped ones are not given again."""


def test_a_field_has_the_id_that_it_was_given_and_keeps_it_in_parquet() -> None:
    field = numbered("price", pa.int64(), 7, nullable=False)
    assert (field.name, field.type, field.nullable, field_id(field)) == ("price", pa.int64(), False, 7)
    assert numbered("price", pa.int64(), 7).nullable
    body = io.BytesIO()
    pq.write_table(pa.table([[1]], schema=pa.schema([field])), body)
    assert pq.ParquetFile(body).schema_arrow.field("price").metadata == field.metadata


def test_a_field_without_an_id_has_none() -> None:
    assert field_id(pa.field("x", pa.int64())) == -1
    assert field_id(pa.field("x", pa.int64(), metadata={"other": "7"})) == -1


@given(st.integers(1, MOST_COLUMNS))
def test_a_column_and_its_sidecar_have_one_number(number: int) -> None:
    assert number_of(number) == number_of(number + EXACT_FIELD_IDS) == number


@pytest.mark.parametrize("own", [LSN, SEQ, OP, UNCHANGED, COUNT, -1])
def test_what_is_no_column_is_taken_for_none(own: int) -> None:
    assert number_of(own) == own
    assert not 0 < number_of(own) <= EXACT_FIELD_IDS


def test_ids_of_what_files_hold_beside_columns_stay_as_they_were_written() -> None:
    """They are in every file of every archive."""
    assert (EXACT_FIELD_IDS, LSN, SEQ, OP, UNCHANGED, COUNT) == (100_000, 200_001, 200_002, 200_003, 200_004, 200_005)


def test_what_is_appended_has_a_name_of_its_own_and_keeps_its_id() -> None:
    schema = pa.schema([numbered("__op", pa.string(), 1), numbered("__op_", pa.string(), 2)])
    extra = numbered("__op", pa.int64(), OP)
    found = with_extra(schema, extra, extra, numbered("new", pa.int64(), LSN))
    assert found.names == ["__op", "__op_", "__op__", "__op___", "new"]
    assert [field_id(each) for each in found] == [1, 2, OP, OP, LSN]
    assert with_extra(schema) == schema
