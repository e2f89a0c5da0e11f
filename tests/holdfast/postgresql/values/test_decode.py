from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from holdfast.postgresql.values.decode import Decoder, ValueTooLargeError
from tests.support.databases.records import column

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables


def test_virtual_columns_are_not_read() -> None:
    decoder = Decoder([column("a", 1, "int4"), column("b", 2, "int4", generated="v")])
    assert decoder.schema.names == ["a"]
    assert decoder.select_list() == '"a"::"pg_catalog"."int4"'


@pytest.mark.parametrize("base", ["text", "bytea", "jsonb"])
def test_a_value_above_the_limit_is_refused_with_its_place(base: str) -> None:
    decoder = Decoder([column("big one", 1, base)], max_value_bytes=10)
    kind = pa.binary() if base == "bytea" else pa.string()
    fits = pa.record_batch([pa.array([b"x" * 10, None], kind)], names=["x"])
    assert decoder.decode(fits).num_rows == 2
    with pytest.raises(ValueTooLargeError, match='row 1 of a batch, column "big one": a value of 11 bytes') as caught:
        decoder.decode(pa.record_batch([pa.array([b"x", b"x" * 11, b"x" * 12], kind)], names=["x"]))
    assert (caught.value.column, caught.value.row) == ("big one", 1)
    named = caught.value.of("public.t", "row with ctid = '(3,4)'")
    assert str(named).startswith("public.t, row with ctid = '(3,4)', column \"big one\": a value of 11 bytes")


@pytest.mark.service
def test_exceptional_values_are_null_and_stand_as_text_beside(tables: Tables) -> None:
    table = tables.create("d date, t timestamp, z timestamptz, h time, n numeric(5,2)")
    tables.fill(table, "values ('infinity', '-infinity', '294276-12-31 23:59:59.999999+00', '24:00:00', 'NaN')")
    tables.fill(table, "values ('0044-03-15 BC', 'infinity', '0001-12-31 23:59:59.5+00 BC', '00:00', 1.5)")
    tables.fill(table, "values ('2024-02-29', '0001-01-01', '9999-12-31 23:59:59.999999+00', null, null)")
    decoder = Decoder(tables.columns(table))
    stored = pa.Table.from_batches(tables.read(table, decoder)).to_pydict()
    assert stored == {
        "d": [None, None, dt.date(2024, 2, 29)],
        "t": [None, None, dt.datetime(1, 1, 1)],  # noqa: DTZ001 - a timestamp without time zone
        "z": [None, None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC)],
        "h": [None, dt.time(0), None],
        "n": [None, Decimal("1.50"), None],
        "d__exact": ["infinity", "0044-03-15 BC", None],
        "t__exact": ["-infinity", "infinity", None],
        "z__exact": ["294276-12-31 23:59:59.999999+00", "0001-12-31 23:59:59.5+00 BC", None],
        "h__exact": ["24:00:00", None, None],
        "n__exact": ["NaN", None, None],
    }


@pytest.mark.service
@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("inet", "'10.0.0.1'", "10.0.0.1"),
        ("char(5)", "'ab'", "ab   "),
        ("float8[]", "'{0.1,NaN}'", "{0.1,NaN}"),
        ("money", "'12.34'", "$12.34"),
        ("interval", "'1 mon 2 days'", "1 mon 2 days"),
        ("numeric", "1.500", "1.500"),
        ("regclass", "'pg_catalog.pg_class'", "pg_class"),
        ("timestamptz[]", "'{2024-01-01 00:00+00}'", '{"2024-01-01 00:00:00+00"}'),
    ],
)
def test_other_types_are_kept_as_the_text_their_output_function_gives(
    tables: Tables, kind: str, value: str, stored: str
) -> None:
    table = tables.create(f"x {kind}")
    tables.fill(table, f"values ({value}::{kind})")
    [batch] = tables.read(table, Decoder(tables.columns(table)))
    assert batch.column(0).to_pylist() == [stored]


@pytest.mark.service
def test_a_user_defined_cast_to_text_changes_nothing(tables: Tables) -> None:
    tables.session.execute(
        "create type public.colour as enum ('red');"
        "create function public.shout(public.colour) returns text language sql as $$ select 'RED!' $$;"
        "create cast (public.colour as text) with function public.shout(public.colour);"
    )
    table = tables.create("x public.colour")
    tables.fill(table, "values ('red')")
    [batch] = tables.read(table, Decoder(tables.columns(table)))
    assert batch.column(0).to_pylist() == ["red"]
