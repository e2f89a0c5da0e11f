"""Rows in COPY's binary format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.postgresql.values.decode import Decoder
from holdfast.postgresql.values.encode import copy_in, encode, encode_binary, has_binary_form

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables


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
    table, batch = tables.written(EVERY_BINARY, *lines)
    columns = tables.columns(table)
    assert has_binary_form(columns)
    assert tables.travel(table).differing_rows == 0
    parts = [batch.slice(0, 1), batch.slice(1, 0), batch.slice(1)]
    for size, part in zip((1, 0, 2), parts, strict=True):
        copy = tables.create(f"like {table}")
        with tables.session.cursor() as cursor:
            assert copy_in(cursor, copy, columns, [part]) == size
        assert tables.hash(copy, columns) == Decoder(columns).digest(part)


def test_an_empty_batch_is_encoded_to_nothing(tables: Tables) -> None:
    table, batch = tables.written(EVERY_BINARY, f"values ({ROW})")
    empty = batch.slice(0, 0)
    assert not encode(tables.columns(table), empty)
    assert not encode_binary(tables.columns(table), empty)
