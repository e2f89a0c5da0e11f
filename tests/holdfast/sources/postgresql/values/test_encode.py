from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from holdfast.sources.postgresql.values.copy_in import copy_in
from holdfast.sources.postgresql.values.decode import Decoder
from holdfast.sources.postgresql.values.encode import copy_statement, encode
from holdfast.sources.postgresql.values.encode_binary import encode_binary, has_binary_form

if TYPE_CHECKING:
    from tests.support.tables import Tables

pytestmark = pytest.mark.service

EVERY_BINARY = (
    "a bool, b int2, c int4, d int8, e float4, f float8, g text, h varchar(9), i char(4), j bytea, k date, "
    "l timestamp, m timestamptz, n time, o numeric(12,2), p numeric(38,10), q uuid, r json, s jsonb"
)
ROW = (
    "true, 1, 2, 3, 0.5, 0.25, 'text', 'varchar', 'ab', '\\x00ff', '2024-02-29', '2024-02-29 01:02:03', "
    "'2024-02-29 01:02:03+00', '24:00', -1.5, 12345678901234567890.5, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', "
    "'{ }', '{\"a\": 1}'"
)


def rows(tables: Tables, definition: str, *values: str) -> tuple[str, pa.RecordBatch]:
    table = tables.create(definition)
    for value in values:
        tables.fill(table, value)
    [batch] = tables.read(table, Decoder(tables.columns(table)))
    return table, batch


def test_text_fields_are_escaped_and_null_differs_from_empty(tables: Tables) -> None:
    table, batch = rows(tables, "a text, b bytea", "values (E'\\\\N\\t\\n\\r\\\\.', '\\x5c00'), ('', ''), (null, null)")
    assert bytes(encode(tables.columns(table), batch)) == b"\\\\N\\t\\n\\r\\\\.\t\\\\x5c00\n\t\\\\x\n\\N\t\\N\n"


def test_statements_leave_generated_columns_out(tables: Tables) -> None:
    table = tables.create('"a ""b""" int, c int generated always as ("a ""b""" + 1) stored')
    assert copy_statement("public.t", tables.columns(table)) == 'copy public.t ("a ""b""") from stdin'
    assert copy_statement("public.t", (), binary=True) == "copy public.t from stdin (format binary)"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("int4", True), ("jsonb", True), ("uuid", True), ("numeric", False), ("int4[]", False), ("inet", False)],
)
def test_a_type_without_a_binary_form_of_ours_is_loaded_as_text(tables: Tables, kind: str, expected: bool) -> None:
    assert has_binary_form(tables.columns(tables.create(f"a int, b {kind}"))) is expected


@pytest.mark.parametrize("nulls", [(), (0,), (1,), (0, 1, 2)])
def test_binary_rows_load_wherever_the_nulls_are(tables: Tables, nulls: tuple[int, ...]) -> None:
    nothing = ", ".join(["null"] * (EVERY_BINARY.count(",") - 1))  # two commas are inside of types
    lines = [f"values ({nothing if number in nulls else ROW})" for number in range(3)]
    table, batch = rows(tables, EVERY_BINARY, *lines)
    columns = tables.columns(table)
    assert has_binary_form(columns)
    assert tables.travel(table).differing_rows == 0
    parts = [batch.slice(0, 1), batch.slice(1, 0), batch.slice(1)]
    for size, part in zip((1, 0, 2), parts, strict=True):
        copy = tables.create(f"like {table}")
        with tables.session.cursor() as cursor:
            assert copy_in(cursor, copy, columns, [part]) == size
        assert tables.hash(copy, columns) == Decoder(columns).digest(part)


@pytest.mark.parametrize("definition", ["a int4, b text", "a int4[], b text"])
def test_loading_nothing_loads_nothing(tables: Tables, definition: str) -> None:
    table = tables.create(definition)
    with tables.session.cursor() as cursor:
        assert copy_in(cursor, table, tables.columns(table), []) == 0


def test_an_empty_batch_is_encoded_to_nothing(tables: Tables) -> None:
    table, batch = rows(tables, EVERY_BINARY, f"values ({ROW})")
    empty = batch.slice(0, 0)
    assert not encode(tables.columns(table), empty)
    assert not encode_binary(tables.columns(table), empty)
