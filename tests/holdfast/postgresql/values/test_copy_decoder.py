"""Every type's values by plain COPY are compared with those of a query in `test_round_trip`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.values.copy_decoder import CopyDecoder, cells, from_binary
from holdfast.postgresql.values.decode import Decoder, ValueTooLargeError
from tests.support.databases.records import column
from tests.support.databases.tables import Tables
from tests.support.generator.trials import tiered

LETTERS = "\\\t\n\r\b\f\vNbfnrtvxa\u00e4"
ROWS = st.lists(st.tuples(*[st.none() | st.text(LETTERS, max_size=7)] * 3), min_size=1, max_size=9)
ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def sent(value: str | None) -> str:
    return "\\N" if value is None else "".join(ESCAPES.get(letter, letter) for letter in value)


@settings(derandomize=True, max_examples=tiered(200, 2000), deadline=None)
@given(ROWS)
def test_every_text_comes_as_it_was_sent(rows: list[tuple[str | None, ...]]) -> None:
    lines = ["\t".join(map(sent, row)).encode() + b"\n" for row in rows]
    octets, columns = cells(b"".join(lines), list(map(len, lines)), 3)
    found = [
        [
            octets[start : start + length].tobytes().decode() if text else None
            for start, length, text in zip(each.start, each.length, each.text, strict=True)
        ]
        for each in columns
    ]
    assert [*zip(*found, strict=True)] == rows


@pytest.mark.parametrize(
    "lines", [[b"1\t2\n", b"3\n"], [b"1\t2\t3\n", b"4\n"], [b"1\t2"], [b"1\n", b"\t2\t3\n"]], ids=repr
)
def test_text_of_other_columns_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(HoldfastError, match="did not send the columns of a table as its catalog says"):
        cells(b"".join(lines), list(map(len, lines)), 2)


@pytest.mark.parametrize(
    "row",
    [b"\0\1\0\0\0\4abcd", b"\0\2\0\0\0\4abcd", b"\0\2\0\0\0\3abc\0\0\0\1x", b"\0\2\0\0\0\4abcd\0\0\0\1xy"],
    ids=repr,
)
def test_binary_rows_of_other_columns_are_refused(row: bytes) -> None:
    stored = Decoder([column("a", 1, "int4"), column("b", 2, "text")]).stored
    right = b"\0\2\0\0\0\4abcd\xff\xff\xff\xff"
    assert from_binary(stored, right, [len(right)]).to_pylist() == [{"a": 0x61626364, "b": None}]
    with pytest.raises(HoldfastError, match="did not send the columns of a table as its catalog says"):
        from_binary(stored, right + row, [len(right), len(row)])


def test_a_table_is_asked_for_in_binary_where_every_column_has_a_form_of_its_own() -> None:
    natural = CopyDecoder(Decoder([column("a b", 1, "int4"), column("c", 2, "text")]))
    assert natural.statement("s.t") == 'COPY s.t ("a b", "c") TO STDOUT (FORMAT binary)'
    mixed = CopyDecoder(Decoder([column("a", 1, "int4"), column("c", 2, "jsonb")]))
    assert mixed.statement("s.t") == 'COPY s.t ("a", "c") TO STDOUT'


@pytest.mark.service
@pytest.mark.parametrize("definition", ["", "id int generated always as identity, twice int", "word json"])
def test_rows_without_values_are_as_many_as_they_were(tables: Tables, definition: str) -> None:
    table = tables.create(definition)
    for _ in range(3):
        tables.session.execute(f"insert into {table} default values".encode())
    decoder = Decoder(tables.columns(table))
    (copied,), (queried,) = tables.read(table, decoder), tables.read_by_query(table, decoder)
    assert copied == queried
    assert copied.num_rows == 3


@pytest.mark.service
@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_value_above_the_limit_is_refused_with_its_row(tables: Tables, kind: str) -> None:
    table = tables.create(f"id int, word {kind}")
    tables.fill(table, "values (1, '1'), (2, '12345678901'), (3, null)")
    with pytest.raises(ValueTooLargeError, match='row 1 of a batch, column "word": a value of 11 bytes'):
        tables.read(table, Decoder(tables.columns(table), max_value_bytes=10))
