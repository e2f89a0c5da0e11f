"""Files of an older form of a table have the values that the table shows in its newer one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from holdfast.common.errors import DamagedError, RefusedError
from holdfast.postgresql.values.content_hash import digest
from holdfast.postgresql.values.decode import Decoder
from holdfast.postgresql.values.schema_evolution import conform, is_same_schema
from holdfast.postgresql.values.stored_columns import schema_of
from tests.support.databases.every_type import OBJECTS, VALUES
from tests.support.databases.type_groups import Kinds, in_groups

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables

pytestmark = pytest.mark.service


@pytest.fixture(scope="module", autouse=True)
def objects(tables: Tables) -> None:
    tables.session.execute(OBJECTS)


def read(tables: Tables, table: str) -> pa.RecordBatch:
    """Return the rows of a table as a snapshot's file keeps them."""
    found = pa.Table.from_batches(tables.read(table, Decoder(tables.columns(table)))).combine_chunks()
    [batch] = found.to_batches()
    return batch


def altered(tables: Tables, table: str, *changes: str) -> pa.RecordBatch:
    """Alter a table, without writing its rows anew, and return what its older file becomes; it is what is there."""
    file = read(tables, table)
    before = tables.session.execute("select pg_relation_filenode(%s::regclass)", (table,)).fetchone()
    for change in changes:
        tables.session.execute(f"alter table {table} {change}".encode())
    assert tables.session.execute("select pg_relation_filenode(%s::regclass)", (table,)).fetchone() == before
    columns = tables.columns(table)
    found = conform(file, columns)
    found.validate(full=True)
    assert found.schema.equals(schema_of(columns), check_metadata=True)
    there = read(tables, table)
    assert repr(found.to_pylist()) == repr(there.to_pylist())  # Arrow takes no NaN for equal
    assert digest(columns, found) == digest(columns, there)
    assert is_same_schema(found.schema, columns)
    return found


def test_a_file_of_the_same_form_stays_as_it_is(tables: Tables) -> None:
    table = tables.create("id int4, day date")
    tables.fill(table, "values (1, 'infinity')")
    file = read(tables, table)
    assert conform(file, tables.columns(table)) is file
    assert is_same_schema(file.schema, tables.columns(table))


def test_columns_are_told_by_their_numbers_whatever_they_are_called(tables: Tables) -> None:
    table = tables.create("a int4, b int4, day date")
    tables.fill(table, "values (1, 2, 'infinity'), (3, null, '2024-01-01')")
    file = read(tables, table)
    altered(tables, table, "rename a to c", "rename b to a", "rename c to b", "rename day to day__exact")
    assert is_same_schema(file.schema, tables.columns(table))


def test_a_column_that_was_dropped_falls_away_and_one_of_its_name_is_another(tables: Tables) -> None:
    table = tables.create("id int4, day date, word text")
    tables.fill(table, "values (1, 'infinity', 'x')")
    file = read(tables, table)
    altered(tables, table, "drop day", "add day date default '-infinity'")
    assert not is_same_schema(file.schema, tables.columns(table))


CHECKED = ("public.positive", "public.nickname")
"""A domain with a check makes the server write the rows anew: nothing is missing then, in no column."""

MISSING = {kind: values for kind, values in VALUES.items() if kind not in (*CHECKED, "regrole")}


@pytest.mark.parametrize(
    "kinds", [*in_groups(MISSING), *({kind: VALUES[kind]} for kind in CHECKED)], ids=lambda kinds: next(iter(kinds))
)
def test_rows_older_than_a_column_have_its_missing_value_of_every_type(tables: Tables, kinds: Kinds) -> None:
    table = tables.create("id int4")
    tables.fill(table, "select generate_series(1, 3)")
    added = [f"added_{number}" for number in range(len(kinds))]
    drop = ", ".join(f"drop {name}" for name in added)
    for row in range(max(map(len, kinds.values()))):
        add = ", ".join(
            f"add {name} {kind} default ({values[row % len(values)]})::{kind}"
            for name, (kind, values) in zip(added, kinds.items(), strict=True)
        )
        tables.session.execute(f"alter table {table} {add}".encode())
        is_missing = [column.missing is not None for column in tables.columns(table)[1:]]
        assert any(is_missing) is (kinds.keys().isdisjoint(CHECKED))
        tables.session.execute(f"alter table {table} {drop}".encode())
        if any(is_missing):
            altered(tables, table, add, ", ".join(f"alter {name} drop default" for name in added))
            tables.session.execute(f"alter table {table} {drop}".encode())


_MOMENTS = "(1, '2024-01-01 12:00:00.5'), (2, 'infinity'), (3, '0044-03-15 01:02:03 BC'), (4, '10000-01-01'), (5, null)"


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("varchar(5)", "varchar(9)", "(1, 'ab   '), (2, null)"),
        ("varchar(5)", "text", "(1, 'ab   '), (2, null)"),
        ("text", "public.citext", "(1, 'Ab '), (2, null)"),
        ("public.citext", "text", "(1, 'Ab '), (2, null)"),
        ("text", "bpchar", "(1, 'ab '), (2, null)"),
        ("varbit(5)", "varbit(9)", "(1, B'101')"),
        ("numeric(10,2)", "numeric(12,2)", "(1, 1.50), (2, 'NaN'), (3, null), (4, -99999999.99)"),
        ("numeric(10,2)", "numeric(20,2)", "(1, 1.50), (2, 'NaN'), (3, null), (4, -99999999.99)"),
        ("numeric(10,2)", "numeric", "(1, 1.50), (2, 'NaN'), (3, null), (4, -0.01), (5, 0), (6, -99999999.99)"),
        ("numeric(38,38)", "numeric", "(1, 1e-38), (2, -0.5), (3, 0)"),
        ("numeric(9,0)", "numeric", "(1, 10), (2, -0), (3, 'NaN'), (4, -7)"),
        ("numeric(38,1)", "numeric(39,1)", "(1, 10), (2, 'NaN')"),
        ("numeric(39,1)", "numeric", "(1, 10), (2, 'NaN')"),
        ("public.mood", "public.moods", "(1, 'sad'), (2, null)"),
        ("timestamp(3)", "timestamp", _MOMENTS),
        ("timestamp", "timestamptz", _MOMENTS),
        ("timestamptz", "timestamp", _MOMENTS),
        ("int4", "oid", "(1, -1), (2, 2147483647), (3, null)"),
        ("oid", "int4", "(1, 4294967295), (2, 5), (3, null)"),
    ],
)
def test_values_of_a_type_that_changed_without_writing_rows_anew_are_converted(
    tables: Tables, old: str, new: str, rows: str
) -> None:
    table = tables.create(f"id int4, value {old}")
    typed = ", ".join(f"({row}::{old})" for row in rows[1:-1].split("), ("))
    tables.fill(table, f"values {typed}")
    altered(tables, table, f"alter value type {new}")


def test_values_that_cannot_be_converted_are_refused_by_name(tables: Tables) -> None:
    table = tables.create('id int4, "the day" date')
    file = _file("id int4", '"the day" int8', tables)
    with pytest.raises(RefusedError, match=r'column "the day" is of type date, but older rows have it as int64'):
        conform(file, tables.columns(table))


def _file(first: str, second: str, tables: Tables) -> pa.RecordBatch:
    table = tables.create(f"{first}, {second}")
    tables.fill(table, "values (1, 2)")
    return read(tables, table)


def test_numeric_of_another_scale_is_refused(tables: Tables) -> None:
    file = _file("id int4", "x numeric(10,2)", tables)
    with pytest.raises(RefusedError, match="cannot be brought to it"):
        conform(file, tables.columns(tables.create("id int4, x numeric(10,1)")))


def test_a_generated_column_that_is_no_longer_one_keeps_its_values(tables: Tables) -> None:
    table = tables.create("id int4, twice int4 generated always as (id * 2) stored")
    tables.fill(table, "values (1), (2)")
    found = altered(tables, table, "alter twice drop expression", "add word text default 'new'")
    assert found.to_pydict() == {"id": [1, 2], "twice": [2, 4], "word": ["new", "new"]}


def test_rows_older_than_a_column_without_a_value_for_them_have_null(tables: Tables) -> None:
    table = tables.create("id int4")
    tables.fill(table, "values (1)")
    found = altered(tables, table, "add word text", "add day date", "alter day set default 'infinity'")
    assert found.to_pylist() == [{"id": 1, "word": None, "day": None, "day__exact": None}]


def test_a_table_may_lose_all_of_its_columns_and_get_others(tables: Tables) -> None:
    table = tables.create("id int4")
    tables.fill(table, "values (1), (2)")
    assert altered(tables, table, "drop id").num_rows == 2
    assert altered(tables, table, "add a int4 default 7").to_pydict() == {"a": [7, 7]}


def test_a_file_without_column_numbers_is_refused(tables: Tables) -> None:
    batch = pa.record_batch({"id": pa.array([1], pa.int32())})
    with pytest.raises(DamagedError, match='does not say which column of the table "id" is'):
        conform(batch, tables.columns(tables.create("id int4")))
