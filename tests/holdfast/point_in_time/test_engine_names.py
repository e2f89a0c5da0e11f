"""Names of a query: they mean what they mean in PostgreSQL, though DuckDB ignores case."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.point_in_time.query import Query
from tests.support.archives.evolving import ID, WORD, Evolving, catalog, column, table


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    (folder := tmp_path / "spill").mkdir()
    return folder


def query(made: Evolving, sql: str, spill: Path) -> Query:
    return Query(made.store, made.moment(0x100), sql, memory_bytes=64 << 20, spill=spill)


def rows(asked: Query) -> list[list[Any]]:
    return [list(row.values()) for batch in asked.rows() for row in batch.to_pylist()]


def pairs() -> Evolving:
    """A source with names that differ by case alone, the ones with capitals first."""
    made = Evolving()
    capitals = table(1, column(ID, name="ID"), column(WORD, name="id"), name="Orders")
    small = table(2, name="orders")
    made.full(0x100, catalog(capitals, small, table(3, table_schema="Shop", name="t_"), table(4, name="Only")))
    return made


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ('select * from "Orders"', ["ID", "id"]),
        ("select * from ORDERS", ["id", "word"]),
        ('select "id" from shop."Orders"', ["id"]),
        ('select max("ID") as "ID", count(id) as Id from shop."Orders" as "o" group by o."ID"', ["ID", "Id"]),
        ('select "Orders"."ID", orders.id from "Orders" join orders using (id)', ["ID", "id"]),
        ('select word /* "Orders" */ from "Shop".t_ where word = \'"Orders"\'', ["word"]),
        ('select * from "Only"', ["id", "word"]),
    ],
)
def test_a_name_means_what_it_means_in_postgresql(spill: Path, sql: str, columns: list[str]) -> None:
    made = pairs()
    (batch,) = query(made, sql, spill).rows()
    assert batch.schema.names == columns


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from shop.only", r'does not exist.*; a name with capital letters needs double quotes: "Only"'),
        ('select "ID" from orders', r'"ID" not found'),
        ('select id from "Shop".T_ where "Word" = 1', r'"Word" not found in FROM clause!'),
        ("select * from shop.t_", 't_" does not exist'),
    ],
)
def test_a_name_that_is_there_in_other_letters_only_is_refused(spill: Path, sql: str, said: str) -> None:
    made = pairs()
    with pytest.raises(UsageError, match=said) as refused:
        rows(query(made, sql, spill))
    assert not re.search("[\ufdd0-\ufdef]", str(refused.value))


def test_statements_about_tables_have_their_names(spill: Path) -> None:
    made = pairs()
    for number, (sql, wanted) in enumerate(
        {
            'describe "Orders"': ["ID", "id"],
            "select unnest(column_names) from (show all tables) where schema = 'shop' and name = 'orders'": [
                "id",
                "word",
            ],
            "select schema from (show all tables) where name = 't_' and schema <> 'main'": ["Shop"],
            "select distinct name from (show all tables) where name ilike '%orders' order by 1": ["orders", "Orders"],
        }.items()
    ):
        (folder := spill / str(number)).mkdir()
        assert [row[0] for row in rows(query(made, sql, folder))] == wanted


def test_a_row_as_one_value_has_the_names_of_its_columns(spill: Path) -> None:
    made = pairs()
    (batch,) = query(made, 'select o from "Orders" as o', spill).rows()
    assert [field.name for field in batch.schema.field("o").type] == ["ID", "id"]


@pytest.mark.parametrize("schema", ["temp", "system", "memory", "main", "Temp"])
def test_a_schema_may_be_called_like_a_database_of_duckdb(spill: Path, schema: str) -> None:
    made = Evolving()
    made.full(0x100, catalog(table(1, table_schema=schema, name="t"), table(2, column(ID, name=schema))))
    name = schema if schema == schema.lower() else f'"{schema}"'
    for number, sql in enumerate((f"select * from {name}.t", f"select {name} from shop.t2", f"from {name}.t")):
        (folder := spill / str(number)).mkdir()
        (batch,) = query(made, sql, folder).rows()
        assert batch.schema.names == ([schema] if "t2" in sql else ["id", "word"])


def test_a_table_may_be_called_as_the_rows_of_another_are_inside(spill: Path) -> None:
    made = Evolving()
    made.full(0x100, catalog(table(1), table(2, column(ID, name="right"), name="base_1")))
    (batch,) = query(made, "select * from base_1, t1", spill).rows()
    assert batch.schema.names == ["right", "id", "word"]
