"""Every type's values come back exactly, and the hash of the files is the server's own."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.values.decode import Decoder, NoTextError
from tests.support.databases.every_type import OBJECTS, VALUES
from tests.support.databases.tables import Tables, open_tables
from tests.support.databases.type_groups import Kinds, columns_of, in_groups, rows_of

pytestmark = pytest.mark.service

_EXTENSIONS = re.compile(r"citext|cube|embedding|hstore|intarray|isb?n|lquery|ltree|ltxtquery|nickname|query_int|seg")
_HIGH_BYTE = '(-1)::"char"'
_SINCE_15 = re.compile(r"numeric\(3,-2\)|numeric\(2,5\)")
_ONLY_WITH_XML = {"xml": ("'<a b=\"ß\">&amp;</a>'", "'text <b/>'", "''", "null")}


@pytest.fixture(scope="module", autouse=True)
def objects(tables: Tables) -> None:
    tables.session.execute(OBJECTS)


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_comes_back_and_the_file_has_the_hash_of_the_table(tables: Tables, kind: str) -> None:
    assert there_and_back(tables, {kind: VALUES[kind]}) == len(VALUES[kind])


@pytest.mark.parametrize(
    ("version", "without"),
    [
        pytest.param(14, _SINCE_15, id="14"),
        pytest.param(15, None, id="15", marks=pytest.mark.exhaustive),
        pytest.param(16, _EXTENSIONS, id="16", marks=pytest.mark.exhaustive),
        pytest.param(17, None, id="17", marks=pytest.mark.exhaustive),
    ],
)
def test_every_value_comes_back_on_an_older_server(
    older: Callable[[int], PostgresServer], version: int, without: re.Pattern[str] | None
) -> None:
    known = VALUES if without == _EXTENSIONS else {**VALUES, **_ONLY_WITH_XML}
    kinds = {kind: values for kind, values in known.items() if without is None or not without.search(kind)}
    with open_tables(older(version), "every_type") as tables:
        for statement in OBJECTS.split(";\n"):
            if without is None or not without.search(statement):
                tables.session.execute(statement.encode())
        for kind, values in kinds.items():
            if kind.startswith("interval") and version < 17:
                kinds[kind] = tuple(value for value in values if "infinity" not in value)
            if version == 14:
                kinds[kind] = tuple(value for value in kinds[kind] if value != _HIGH_BYTE)
        for group in in_groups(kinds):
            assert there_and_back(tables, group) == max(map(len, group.values())), list(group)


def test_a_value_that_is_written_as_no_text_is_refused_by_name(older: Callable[[int], PostgresServer]) -> None:
    with open_tables(older(14), "no_text") as tables:
        for kind, value in (('"char"', _HIGH_BYTE), ('"char"[]', f"array['a', {_HIGH_BYTE}]")):
            table = tables.create(f"id int4, letter {kind}")
            tables.fill(table, f"values (1, null), (2, {value}), (3, null)")
            for read in (tables.read, tables.read_by_query, tables.read_by_columns):
                with pytest.raises(
                    NoTextError, match=r'row \d of a batch, column "letter": PostgreSQL writes a value of ty'
                ):
                    read(table, Decoder(tables.columns(table)))


def there_and_back(tables: Tables, kinds: Kinds) -> int:
    """Send values on their way and compare; returns how many rows came back."""
    table = tables.create(f"id int4, {columns_of(kinds)}")
    tables.fill(table, "values " + ", ".join(f"({row}, {values})" for row, values in enumerate(rows_of(kinds))))
    travelled = tables.travel(table)
    assert travelled.files == travelled.source, list(kinds)
    assert travelled.copies == {travelled.source}, list(kinds)
    assert travelled.differing_rows == 0, list(kinds)
    assert_same_by_all_ways(tables, table)
    return travelled.source.rows


def assert_same_by_all_ways(tables: Tables, table: str) -> None:
    """Read a table by plain COPY, by a query, and column by column, and compare."""
    decoder = Decoder(tables.columns(table))
    # As text: NaN equals nothing, and -0 equals 0.
    copied, queried, by_columns = (
        sorted(repr(row) for batch in read(table, decoder) for row in batch.to_pylist())
        for read in (tables.read, tables.read_by_query, tables.read_by_columns)
    )
    assert by_columns == queried == copied
