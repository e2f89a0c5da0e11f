"""Which Parquet type each column has, where its sidecar stands, and how a query asks for it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.common.field_ids import EXACT_OF
from holdfast.postgresql.catalog.columns import UnkeepableTypeError
from holdfast.postgresql.values.stored_columns import ROWS_FIELD, Form, form_of, layout, output_text, schema_of
from tests.support.databases.records import column

EXCEPTIONAL = {Form.DATE, Form.TIMESTAMP, Form.TIME, Form.DECIMAL}


@pytest.mark.parametrize(
    ("base", "more", "form", "kind"),
    [
        ("int2", {}, Form.INTEGER, pa.int16()),
        ("bpchar", {}, Form.TEXT, pa.string()),
        ("bytea", {}, Form.BYTES, pa.binary()),
        ("timestamptz", {}, Form.TIMESTAMP, pa.timestamp("us", tz="UTC")),
        ("numeric", {"precision": 38, "scale": 38}, Form.DECIMAL, pa.decimal128(38, 38)),
        ("numeric", {"precision": 39, "scale": 1}, Form.OUTPUT, pa.string()),
        ("numeric", {"precision": 3, "scale": -2}, Form.OUTPUT, pa.string()),
        ("numeric", {"precision": 2, "scale": 5}, Form.OUTPUT, pa.string()),
        ("numeric", {}, Form.OUTPUT, pa.string()),
        ("timetz", {}, Form.OUTPUT, pa.string()),
        ("_int4", {"is_array": True}, Form.OUTPUT, pa.string()),
        ("int4", {"base_schema": "shop"}, Form.OUTPUT, pa.string()),
    ],
)
def test_a_type_is_kept_in_the_form_that_holds_its_values(
    base: str, more: dict[str, Any], form: Form, kind: pa.DataType
) -> None:
    assert form_of(column("x", base=base, **more)) == (form, kind)


def test_fields_carry_column_numbers_and_sidecars_name_their_column() -> None:
    schema = schema_of([column("day", 2, "date"), column("day__exact", 5, "text"), column("now", 7, "timestamptz")])
    assert schema.names == ["day", "day__exact", "now", "day__exact_", "now__exact"]
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [b"2", b"5", b"7", b"100002", b"100007"]
    assert [field.metadata.get(EXACT_OF) for field in schema] == [None, None, None, b"2", b"7"]


_NAMES = st.lists(st.sampled_from(["a", "a__exact", "a__exact_", "b"]), unique=True)


@given(_NAMES, st.lists(st.sampled_from(["int4", "date", "time", "text"]), min_size=4, max_size=4))
def test_each_field_has_a_name_of_its_own_and_stands_where_the_layout_says(names: list[str], bases: list[str]) -> None:
    columns = [column(name, number + 1, bases[number]) for number, name in enumerate(names)]
    schema, stored = schema_of(columns), layout(tuple(columns))
    assert len(set(schema.names)) == len(schema)
    for each in stored:
        assert schema.field(each.index).name == each.column.name
        assert (each.exact is not None) == (each.form in EXCEPTIONAL)
        if each.exact is not None:
            assert schema.field(each.exact).metadata[EXACT_OF] == str(each.column.number).encode()
    assert len(schema) == (len(stored) + sum(each.exact is not None for each in stored) if names else 1)


def test_virtual_columns_have_no_field_and_a_table_of_nothing_else_counts_its_rows() -> None:
    virtual = column("twice", 2, generated="v")
    assert schema_of([column("id"), virtual]).names == ["id"]
    assert schema_of([virtual]) == schema_of([]) == pa.schema([ROWS_FIELD])


def test_a_type_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(UnkeepableTypeError, match='column "odd" has type pg_node_tree'):
        schema_of([column("odd", base="pg_node_tree")])


@pytest.mark.parametrize(
    ("base", "more", "expression"),
    [
        ("int4", {}, '"a ""b"""::"pg_catalog"."int4"'),
        ("numeric", {"precision": 5, "scale": 2}, 'pg_catalog.numeric_send("a ""b"""::"pg_catalog"."numeric")'),
        (
            "inet",
            {"output": "pg_catalog.inet_out"},
            'pg_catalog.textin(pg_catalog.inet_out("a ""b"""::"pg_catalog"."inet"))',
        ),
        ("refcursor", {}, '"a ""b"""::"pg_catalog"."refcursor"::pg_catalog.text'),
        (
            "refcursor",
            {"base_schema": "shop", "output": "shop.out"},
            'pg_catalog.textin(shop.out("a ""b"""::"shop"."refcursor"))',
        ),
    ],
)
def test_values_are_asked_for_by_functions_that_nobody_can_replace(
    base: str, more: dict[str, Any], expression: str
) -> None:
    each = column('a "b"', base=base, **more)
    [stored] = layout((each,))
    assert stored.read_expression() == expression
    if stored.form is Form.OUTPUT:
        assert output_text(each) == expression
