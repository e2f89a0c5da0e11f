"""The sample table has a column of every type, and the values that the server knows."""

from __future__ import annotations

import psycopg
import pytest

from demo import every_type
from demo.every_type import Column


@pytest.mark.parametrize(
    ("version", "known"), [(160009, ("0",)), (170000, ("0", "infinity")), (180001, ("0", "infinity"))]
)
def test_later_values_are_for_servers_that_know_them(version: int, known: tuple[str, ...]) -> None:
    column = Column("an_interval", "interval", ("0",), since=170000, later_values=("infinity",))

    assert column.values_for(version) == known


def test_names_of_columns_are_distinct() -> None:
    names = [column.name for column in every_type.COLUMNS]
    assert len(set(names)) == len(names)


@pytest.mark.service
def test_every_type_of_the_server_has_a_column(original: str) -> None:
    with psycopg.connect(original) as connection:
        types = connection.execute(
            "select format_type(oid, null) from pg_type where typnamespace = 'pg_catalog'::regnamespace"
            " and typtype in ('b', 'm', 'r') and not exists (select from pg_type e where e.typarray = pg_type.oid)"
        ).fetchall()
        used = connection.execute(
            "select format_type(atttypid, null) from pg_attribute"
            " where attrelid = 'shop.every_type'::regclass and attnum > 0"
        ).fetchall()

    without_libxml = {("xml",)} - set(used)
    assert set(types) - set(used) == {(name,) for name in every_type.WITHOUT_COLUMN} | without_libxml


@pytest.mark.service
def test_every_value_of_every_type_is_in_the_table(original: str) -> None:
    with psycopg.connect(original) as connection:
        for column in every_type.COLUMNS:
            if column.type == "xml":
                continue
            found = connection.execute(f"select count({column.name}) from shop.every_type".encode()).fetchone()
            assert found == (len(column.values_for(connection.info.server_version)),), column.name


@pytest.mark.service
def test_the_first_row_is_of_nulls_alone(original: str) -> None:
    with psycopg.connect(original) as connection:
        row = connection.execute("select * from shop.every_type order by id limit 1").fetchone()

    assert row is not None
    assert row[0] == 1
    assert set(row[1:]) == {None}
