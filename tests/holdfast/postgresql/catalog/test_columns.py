from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from holdfast.postgresql.catalog.columns import Column, read_columns
from holdfast.postgresql.values.stored_columns import output_text
from tests.support.databases.every_type import OBJECTS, VALUES

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables

pytestmark = pytest.mark.service


@pytest.fixture(scope="module", autouse=True)
def types(tables: Tables) -> None:
    tables.session.execute(
        'create schema "other Schema"; create type "other Schema"."Mood" as enum (\'x\');'
        "create domain public.money_like as numeric(12,2) not null; create domain public.price as public.money_like;"
    )
    tables.session.execute(OBJECTS)


def test_plain_columns_say_what_they_are(tables: Tables) -> None:
    table = tables.create('id int8 generated always as identity primary key, "a ""b""" varchar(7)')
    assert tables.columns(table) == (
        Column(
            name="id", number=1, type="bigint", base="int8", base_schema="pg_catalog", kind="b", is_array=False,
            output="pg_catalog.int8out", precision=None, scale=None, not_null=True, generated="", identity="a",
        ),
        Column(
            name='a "b"', number=2, type="character varying(7)", base="varchar", base_schema="pg_catalog", kind="b",
            is_array=False, output="pg_catalog.varcharout", precision=None, scale=None, not_null=False, generated="",
            identity="",
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("definition", "precision", "scale"),
    [
        ("numeric", None, None),
        ("numeric(12,2)", 12, 2),
        ("numeric(1000,1000)", 1000, 1000),
        ("numeric(3,-2)", 3, -2),
        ("numeric(2,1000)", 2, 1000),
        ("public.money_like", 12, 2),
        ("public.price", 12, 2),
        ("varchar(12)", None, None),
    ],
)
def test_precision_and_scale_come_through_domains(
    tables: Tables, definition: str, precision: int | None, scale: int | None
) -> None:
    [column] = tables.columns(tables.create(f"x {definition}"))
    assert (column.precision, column.scale) == (precision, scale)


def test_types_of_other_schemas_arrays_and_domains_show_what_lies_below(tables: Tables) -> None:
    mood, moods, price = tables.columns(
        tables.create('a "other Schema"."Mood", b "other Schema"."Mood"[], c public.price')
    )
    assert (mood.base, mood.base_schema, mood.kind, mood.is_array) == ("Mood", "other Schema", "e", False)
    assert (moods.base, moods.base_schema, moods.is_array) == ("_Mood", "other Schema", True)
    assert moods.type == '"other Schema"."Mood"[]'
    assert (price.type, price.base, price.output) == ("public.price", "numeric", "pg_catalog.numeric_out")


def test_dropped_columns_are_gone_and_the_others_keep_their_numbers(tables: Tables) -> None:
    table = tables.create("a int, b int, c int generated always as (a + 1) stored")
    tables.session.execute(f"alter table {table} drop column b".encode())
    assert [(column.name, column.number, column.generated) for column in tables.columns(table)] == [
        ("a", 1, ""),
        ("c", 3, "s"),
    ]


def test_tables_without_columns_and_unknown_tables_have_none(tables: Tables) -> None:
    assert tables.columns(tables.create("")) == ()
    assert read_columns(tables.session, [4_000_000_000]) == {4_000_000_000: ()}


def test_a_column_survives_json(tables: Tables) -> None:
    [column] = tables.columns(tables.create("x public.price"))
    assert Column.from_dict(json.loads(json.dumps(column.to_dict()))) == column


@pytest.mark.parametrize("kind", sorted(VALUES.keys() - {"regrole"}))  # which may not be in a default
def test_the_value_that_older_rows_have_is_known_exactly_whatever_its_type(tables: Tables, kind: str) -> None:
    table = tables.create("id int4")
    tables.fill(table, "values (1)")
    for value in VALUES[kind]:
        tables.session.execute(f"alter table {table} add added {kind} default ({value})::{kind}".encode())
        *_, added = tables.columns(table)
        [found] = tables.session.execute(f"select {output_text(added)} from {table}".encode())
        [rewritten] = tables.session.execute(
            "select not atthasmissing from pg_attribute where attrelid = %s::regclass and attname = 'added'", (table,)
        )
        assert added.missing == (None if rewritten[0] else found[0])
        tables.session.execute(f"alter table {table} drop added".encode())


def test_columns_of_records_that_do_not_tell_what_older_rows_have_can_be_read(tables: Tables) -> None:
    [column] = tables.columns(tables.create("x int4"))
    values = column.to_dict()
    del values["missing"]
    assert Column.from_dict(values) == column
