from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.common.errors import DamagedError
from holdfast.postgresql.values.content_hash import ContentHash, digest, digests, hash_select
from holdfast.postgresql.values.decode import Decoder
from tests.support.databases.tables import Tables, open_tables
from tests.support.generator.trials import tiered

if TYPE_CHECKING:
    from holdfast.postgresql.connection.server import PostgresServer


def test_hashes_of_parts_add_up_and_survive_text() -> None:
    total = ContentHash(2, -(10**25)) + ContentHash(3, 7)
    assert total == ContentHash(5, 7 - 10**25)
    assert ContentHash.parse(str(total)) == total
    assert str(ContentHash()) == "0:0"


@pytest.mark.parametrize("text", ["", "1", "a:b", "1:2:3"])
def test_what_is_no_content_hash_is_damage(text: str) -> None:
    with pytest.raises(DamagedError, match="not a content hash"):
        ContentHash.parse(text)


@pytest.mark.service
def test_an_empty_table_has_the_hash_of_nothing(tables: Tables) -> None:
    travelled = tables.travel(tables.create("a int, b text, c numeric(5,2), d date"))
    assert travelled.source == travelled.files == ContentHash()
    assert travelled.copies == {ContentHash()}


@pytest.mark.service
def test_a_table_without_columns_keeps_its_rows(tables: Tables) -> None:
    table = tables.create("")
    tables.fill(table, "select from generate_series(1, 3)")
    travelled = tables.travel(table)
    assert travelled.source.rows == 3
    assert travelled.source == travelled.files
    assert travelled.copies == {travelled.source}


@pytest.mark.service
def test_rows_of_nulls_differ_from_no_rows_and_from_rows_of_zeros(tables: Tables) -> None:
    hashes = set()
    for values in ("select where false", "values (null::int, null::text)", "values (0, null)", "values (0, '')"):
        table = tables.create("a int, b text")
        if "where" not in values:
            tables.fill(table, values)
        travelled = tables.travel(table)
        assert travelled.source == travelled.files
        hashes.add(travelled.source)
    assert len(hashes) == 4


@pytest.mark.service
@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("float8", "'-0'", "'0'"),
        ("float4", "'NaN'", "'Infinity'"),
        ("numeric(12,2)", "1", "-1"),
        ("numeric(12,2)", "'NaN'", "0"),
        ("numeric(12,2)", "0.01", "100"),
        ("numeric(12,2)", "'NaN'", "null"),
        ("numeric(12,2)", "0", "null"),
        ("numeric", "1.0", "1.00"),
        ("interval", "'1 mon'", "'30 days'"),
        ("char(5)", "''", "null"),
        ("bpchar", "'a'", "'a '"),
        ("jsonb", "'1.0'", "'1.00'"),
        ("text", "repeat('a', 1025)", "repeat('a', 1026)"),
        ("timestamptz", "'infinity'", "null"),
        ("date", "'-infinity'", "'infinity'"),
        ("timetz", "'12:00+00'", "'13:00+01'"),
    ],
)
def test_values_that_the_server_may_take_for_equal_differ_in_the_hash(
    tables: Tables, kind: str, one: str, other: str
) -> None:
    table = tables.create(f"x {kind}")
    hashes = []
    for value in (one, other):
        tables.session.execute(f"truncate {table}".encode())
        tables.fill(table, f"values ({value}::{kind})")
        hashes.append(tables.hash(table, tables.columns(table)))
    assert hashes[0] != hashes[1]


@pytest.mark.service
def test_values_swapped_between_two_rows_always_change_the_hash(tables: Tables) -> None:
    query = hash_select("only public.pairs", ())
    assert "hashint8extended(r, r)" in query
    table = tables.create("a int, b int")
    columns = tables.columns(table)
    for number in range(20):
        tables.session.execute(f"truncate {table}".encode())
        tables.fill(table, f"values ({number}, {number + 100}), ({number + 200}, {number + 300})")
        straight = tables.hash(table, columns)
        tables.session.execute(f"truncate {table}".encode())
        tables.fill(table, f"values ({number}, {number + 300}), ({number + 200}, {number + 100})")
        assert tables.hash(table, columns) != straight


@pytest.mark.service
def test_neither_the_order_of_rows_nor_their_batches_matter(tables: Tables) -> None:
    table = tables.create("a int, b text, c numeric(30,3), d timestamptz, e bool, f float8, g bytea")
    tables.fill(
        table,
        "select i, repeat(chr(65 + i % 26), i % 50), i * 1e20, timestamptz '2024-01-01 UTC' + i * interval '1 s', "
        "i % 3 = 0, 1.0 / i, case when i % 5 > 0 then decode(lpad(to_hex(i), 8, '0'), 'hex') end "
        "from generate_series(1, 1000) i",
    )
    tables.fill(table, "values (null, null, 'NaN', 'infinity', null, 'NaN', null)")
    columns = tables.columns(table)
    decoder = Decoder(columns)
    [batch] = tables.read(table, decoder)
    expected = tables.hash(table, columns)
    assert decoder.digest(batch) == expected
    for size in (1, 7, 333, 1000):
        parts = [batch.slice(at, size) for at in range(0, batch.num_rows, size)]
        hashes = digests(columns, batch, np.arange(size, batch.num_rows, size))
        assert hashes == [digest(columns, part) for part in parts]
        assert sum(hashes, ContentHash()) == expected
    reordered = batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))
    assert digest(columns, reordered) == expected


@pytest.mark.exhaustive
@pytest.mark.service
def test_large_batches_of_long_and_short_texts_have_the_hash_of_the_server(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the size where a batch is hashed in parts."""
    monkeypatch.setattr("holdfast.postgresql.values.content_hash.ROWS_AT_ONCE", 2000)
    table = tables.create("a text, b text")
    tables.fill(
        table,
        "select repeat('ab', (i * i) % 700), case when i % 9 > 0 then i::text end from generate_series(1, 5000) i",
    )
    travelled = tables.travel(table)
    assert travelled.source == travelled.files
    assert travelled.copies == {travelled.source}


@pytest.mark.service
def test_more_columns_than_a_record_takes_are_hashed_in_groups(tables: Tables) -> None:
    table = tables.create(", ".join(f"c{number} numeric(3,1)" for number in range(1000)))
    tables.fill(table, f"values ({', '.join(str(number % 99 - 50) for number in range(1000))})")
    travelled = tables.travel(table)
    assert travelled.source == travelled.files
    assert travelled.copies == {travelled.source}


@pytest.mark.service
def test_generated_columns_are_hashed_and_not_loaded_unless_they_are_virtual(tables: Tables) -> None:
    virtual = tables.session.info.server_version >= 180000
    table = tables.create(
        "a int, id int generated always as identity (start 5), twice int generated always as (a * 2) stored"
        + (", thrice int generated always as (a * 3) virtual" if virtual else "")
    )
    tables.fill(table, "(a) values (1), (2), (null)")
    travelled = tables.travel(table)
    assert travelled.source == travelled.files
    assert travelled.copies == {travelled.source}
    assert travelled.stored.column_names == ["a", "id", "twice"]


values = st.tuples(
    st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60),
    st.none() | st.binary(max_size=60),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(),
    st.none() | st.floats(width=32),
    st.none() | st.integers(-211_813_488_000_000_000, 9_223_371_331_199_999_999),
    st.none() | st.decimals(-(10**10), 10**10, places=2).filter(lambda value: abs(value) < 10**10),
)


@pytest.mark.service
@settings(
    derandomize=True,
    max_examples=tiered(15, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(values, max_size=30))
def test_any_rows_come_back_and_have_the_hash_of_the_server(tables: Tables, rows: list[tuple[object, ...]]) -> None:
    table = tables.create("t text, b bytea, i int8, f float8, g float4, m timestamptz, n numeric(12,2)")
    with tables.session.cursor() as cursor:
        cursor.executemany(
            f"insert into {table} select %s, %s, %s, %s, %s::float4, timestamptz '2000-01-01 00:00+00' + "
            "make_interval(secs => 0, mins => 0, days => (m / 86400000000)::int) + (m %% 86400000000) * "
            "interval '1 us', %s::numeric from (select %s::int8 as m) m".encode(),
            [(*row[:5], row[6], row[5]) for row in rows],
        )
    travelled = tables.travel(table)
    assert travelled.source == travelled.files
    assert travelled.copies == {travelled.source}
    assert travelled.differing_rows == 0


@pytest.mark.service
def test_text_of_another_encoding_has_the_hash_of_its_utf8(postgres: PostgresServer) -> None:
    with open_tables(postgres, "latin", "encoding 'LATIN1' template template0") as latin:
        table = latin.create("a text, b char(5), c jsonb, d text[], e bytea, f text")
        latin.fill(
            table, "values ('é', 'ü', '\"ß\"', '{à}', 'x', repeat('é', 1000)), (null, null, null, null, null, '')"
        )
        travelled = latin.travel(table)
    assert travelled.source == travelled.files
    assert travelled.copies == {travelled.source}
