"""Rows in the form of a table that they were not written in: by Arrow, and by DuckDB's SQL, with the same outcome."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from holdfast.archive.scan.projection import Projection, name_of, quoted, sql_type
from holdfast.common.errors import RefusedError
from holdfast.common.field_ids import EXACT_FIELD_IDS, field_id, numbered

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def batch(*columns: tuple[str, int, pa.DataType, list[Any]]) -> pa.RecordBatch:
    """Return rows of columns: name, number, type and values of each."""
    schema = pa.schema([numbered(name, kind, number) for name, number, kind, _ in columns])
    return pa.RecordBatch.from_arrays([pa.array(values, kind) for _, _, kind, values in columns], schema=schema)


def projected(
    rows: pa.RecordBatch, *wanted: tuple[str, int, pa.DataType], missing: Mapping[int, pa.Scalar] | None = None
) -> list[dict[str, Any]]:
    """Return the rows in another form, which is the same by Arrow and by DuckDB."""
    schema = pa.schema([numbered(name, kind, number) for name, number, kind in wanted])
    projection = Projection(rows.schema, schema, missing or {})
    found = projection.apply(rows)
    assert found.schema == schema
    by_sql = _by_sql(projection, rows, schema, missing or {})
    assert by_sql == [list(row.values()) for row in found.to_pylist()]
    told: list[dict[str, Any]] = found.to_pylist()
    return told


def _by_sql(
    projection: Projection, rows: pa.RecordBatch, wanted: pa.Schema, missing: Mapping[int, pa.Scalar]
) -> list[list[Any]]:
    known = [field for field in wanted if field_id(field) in missing] or [pa.field("nothing", pa.null())]
    values = [
        pa.array([missing[field_id(each)].as_py()] if each.name != "nothing" else [None], each.type) for each in known
    ]
    names = [name_of(each) if each.name != "nothing" else each.name for each in known]
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("written", pa.Table.from_batches([rows]))
        connection.register("missing", pa.table(values, names=names))
        query = f"select {', '.join(projection.expressions('missing'))} from written"
        found = connection.sql(query).to_arrow_table()
    assert found.column_names == [name_of(field) for field in wanted]
    return [list(row.values()) for row in found.to_pylist()]


def test_columns_are_told_by_their_numbers_whatever_they_are_called() -> None:
    rows = batch(("a", 1, pa.int32(), [1, 2]), ("b", 2, pa.string(), ["x", None]))
    assert projected(rows, ("A", 2, pa.string()), ("a", 1, pa.int32())) == [{"A": "x", "a": 1}, {"A": None, "a": 2}]


def test_columns_that_are_not_wanted_fall_away() -> None:
    rows = batch(("a", 1, pa.int32(), [1]), ('odd "name"', 2, pa.string(), ["x"]))
    assert projected(rows, ('odd "name"', 2, pa.string())) == [{'odd "name"': "x"}]


def test_rows_older_than_a_column_have_its_value_of_then_or_null() -> None:
    rows = batch(("a", 1, pa.int32(), [1, 2]))
    wanted = (("a", 1, pa.int32()), ("b", 2, pa.int64()), ("c", 3, pa.string()))
    assert projected(rows, *wanted, missing={2: pa.scalar(7, pa.int64())}) == [
        {"a": 1, "b": 7, "c": None},
        {"a": 2, "b": 7, "c": None},
    ]


def test_numbers_become_wider_and_keep_their_digits_as_text() -> None:
    values = [Decimal("1.50"), None, Decimal("-0.01")]
    rows = batch(("n", 1, pa.decimal128(4, 2), values))
    assert [row["n"] for row in projected(rows, ("n", 1, pa.decimal128(9, 2)))] == values
    assert [row["n"] for row in projected(rows, ("n", 1, pa.string()))] == ["1.50", None, "-0.01"]


def test_small_numbers_become_text_without_an_exponent() -> None:
    rows = batch(("n", 1, pa.decimal128(20, 10), [Decimal("0.0000000001")]))
    assert projected(rows, ("n", 1, pa.string())) == [{"n": "0.0000000001"}]


def test_a_text_takes_in_the_values_that_had_no_place_among_numbers() -> None:
    rows = batch(
        ("n", 1, pa.decimal128(4, 2), [Decimal("1.50"), None, None]),
        ("n exact", 1 + EXACT_FIELD_IDS, pa.string(), [None, "NaN", None]),
    )
    assert [row["n"] for row in projected(rows, ("n", 1, pa.string()))] == ["1.50", "NaN", None]


@pytest.mark.parametrize("gets_zone", [True, False])
def test_times_get_and_lose_their_zone_and_so_do_those_that_stand_as_text(gets_zone: bool) -> None:
    plain, zoned = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
    kinds = (plain, zoned) if gets_zone else (zoned, plain)
    times = (NOON.replace(tzinfo=None), NOON)
    texts = ("4713-01-01 00:00:00 BC", "4713-01-01 00:00:00+00 BC"), ("infinity", "infinity")
    side = 0 if gets_zone else 1
    rows = batch(
        ("t", 1, kinds[0], [times[side], None, None]),
        ("t exact", 1 + EXACT_FIELD_IDS, pa.string(), [None, *(each[side] for each in texts)]),
    )
    found = projected(rows, ("t", 1, kinds[1]), ("t exact", 1 + EXACT_FIELD_IDS, pa.string()))
    assert [(row["t"], row["t exact"]) for row in found] == [
        (times[1 - side], None),
        *((None, each[1 - side]) for each in texts),
    ]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (pa.int32(), pa.int64()),
        (pa.string(), pa.int32()),
        (pa.decimal128(9, 2), pa.decimal128(4, 2)),
        (pa.decimal128(4, 2), pa.decimal128(9, 3)),
        (pa.decimal128(4, 2), pa.float64()),
        (pa.timestamp("us"), pa.date32()),
    ],
)
def test_any_other_change_of_a_type_is_refused_with_what_to_do(written: pa.DataType, wanted: pa.DataType) -> None:
    rows, schema = batch(("n", 1, written, [])), pa.schema([numbered("n", wanted, 1)])
    with pytest.raises(RefusedError, match=r'column "n" as .*: choose a moment after the next backup of the table'):
        Projection(rows.schema, schema, {})


def test_names_are_quoted_for_duckdb() -> None:
    assert quoted('odd "name"') == '"odd ""name"""'


def test_each_type_of_data_files_is_known_to_duckdb() -> None:
    kinds = [
        pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.time64("us"),
        pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.string(), pa.binary(), pa.decimal128(12, 3),
    ]  # fmt: skip
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        for kind in kinds:
            assert connection.sql(f"select null::{sql_type(kind)} as x").to_arrow_table().schema.field("x").type == kind
