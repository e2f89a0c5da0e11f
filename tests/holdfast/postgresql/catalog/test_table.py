"""What a table's record says of its rows, and of those of an earlier record."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.large_objects import KEPT_PAGES, LARGE_OBJECTS
from tests.support.databases.records import column, table

ID, WORD = column("id", 2), column("word", 5, "text")


@pytest.mark.parametrize(
    ("identity", "numbers"), [("d", (5, 2)), ("f", (5, 2)), ("i", (9,)), ("n", ())], ids=["default", "f", "i", "n"]
)
def test_rows_are_told_apart_as_the_replica_identity_says(identity: str, numbers: tuple[int, ...]) -> None:
    found = table(ID, WORD, key=("word", "id"), identity=(9,), replica_identity=identity)
    assert found.primary == (5, 2)
    assert found.key_numbers == numbers


@pytest.mark.parametrize(
    ("kind", "has_rows"), [("r", True), ("p", False), ("f", False)], ids=["plain", "partitioned", "foreign"]
)
def test_only_ordinary_tables_have_rows_of_their_own(kind: str, has_rows: bool) -> None:
    assert table(ID, kind=kind).has_rows is has_rows


@pytest.mark.parametrize(
    ("columns", "form", "last"),
    [((ID, WORD), "8:123", 8), ((ID, WORD), "", 5), ((), "", 0), ((), "3:1", 3)],
    ids=["recorded", "not recorded", "nothing", "all dropped"],
)
def test_the_last_number_counts_dropped_columns_where_it_is_recorded(
    columns: tuple[Column, ...], form: str, last: int
) -> None:
    assert table(*columns, form=form).last_number == last


def test_a_key_made_anew_is_another_one_only_where_changes_do_not_show_it() -> None:
    old, new = ({"key": ("id",), "key_oid": oid} for oid in (70, 71))
    assert table(ID, **new).has_key_of(table(ID, **old))
    assert not table(ID, **new).has_primary_of(table(ID, **old))
    full = {"replica_identity": "f"}
    assert not table(ID, **new, **full).has_key_of(table(ID, **old, **full))
    assert table(ID, **old, **full).has_key_of(table(ID, **old, **full))
    # Which constraint it was, older releases did not record.
    assert table(ID, **new, **full).has_key_of(table(ID, key=("id",), **full))


@pytest.mark.parametrize(
    "changed",
    [{"key": ("word",)}, {"key": ("id", "word")}, {"key": ()}, {"replica_identity": "n"}, {"identity": (5,)}],
    ids=str,
)
def test_another_key_or_another_replica_identity_tells_rows_apart_otherwise(changed: dict[str, Any]) -> None:
    before = {"key": ("id",), "identity": (2,)}
    assert table(ID, WORD, **before).has_key_of(table(ID, WORD, **before))
    assert not table(ID, WORD, **{**before, **changed}).has_key_of(table(ID, WORD, **before))


@pytest.mark.parametrize(
    ("told", "own"),
    [
        ({"base_schema": "shop", "kind": "e"}, True),
        ({"base_schema": "shop", "kind": "c"}, True),
        ({"base_schema": "shop", "kind": "b", "is_array": True}, True),
        ({"base_schema": "shop", "kind": "b"}, False),
        ({"base_schema": "pg_catalog", "kind": "b", "is_array": True}, False),
    ],
    ids=["enum", "composite", "array of somebody's", "base type of somebody's", "array of PostgreSQL's"],
)
def test_types_of_ones_own_have_labels_or_attributes(told: dict[str, Any], own: bool) -> None:
    assert table(ID, column("x", 3, "x", **told)).has_own_types is own


BEFORE = {"filenode": 1, "form": "2:a", "toast": 0}


@pytest.mark.parametrize(
    ("changed", "rewritten"),
    [
        ({"form": "3:b"}, False),
        ({"filenode": 2}, False),
        ({"filenode": 2, "form": "3:b"}, True),
        ({"filenode": 2, "form": ""}, True),
    ],
    ids=["columns alone", "TRUNCATE", "ALTER TABLE", "columns not recorded"],
)
def test_rows_are_written_anew_where_both_the_file_and_the_columns_changed(
    changed: dict[str, Any], rewritten: bool
) -> None:
    before = table(ID, **BEFORE)
    assert table(ID, **{**BEFORE, **changed}).is_rewritten(before) is rewritten


def test_the_table_of_large_values_tells_that_rows_were_not_written_anew_unless_a_column_has_no_record() -> None:
    before = table(ID, **{**BEFORE, "toast": 9})
    changed = {"filenode": 2, "form": "3:b"}
    assert not table(ID, **{**BEFORE, **changed, "toast": 9}).is_rewritten(before)
    assert table(ID, **{**BEFORE, **changed, "toast": 10}).is_rewritten(before)
    told, untold = column("more", 3, missing="1"), column("more", 3)
    assert not table(ID, told, **{**BEFORE, **changed, "toast": 9}).is_rewritten(before)
    assert table(ID, untold, **{**BEFORE, **changed, "toast": 9}).is_rewritten(before)


@pytest.mark.parametrize(
    ("bound", "filenode", "toast", "perhaps"),
    [
        ("DEFAULT", 2, 0, True),
        (None, 2, 0, False),
        ("DEFAULT", 1, 0, False),
        ("DEFAULT", 2, 9, False),
        ("DEFAULT", 2, 10, True),
    ],
    ids=["partition", "no partition", "same file", "same large values", "other large values"],
)
def test_only_a_partition_in_another_file_may_have_been_unlogged(
    bound: str | None, filenode: int, toast: int, perhaps: bool
) -> None:
    before = table(ID, bound=bound, filenode=1, toast=9 if toast else 0)
    assert table(ID, bound=bound, filenode=filenode, toast=toast).may_have_been_unlogged(before) is perhaps


def test_rows_stay_valid_unless_they_were_written_anew_or_a_formula_was_dropped() -> None:
    rewritten = {"filenode": 2, "form": "3:b"}
    before = table(ID, WORD, **BEFORE)
    assert table(ID, WORD, **{**BEFORE, **rewritten}).holds(before)
    assert not table(ID, column("word", 5, "varchar"), **{**BEFORE, **rewritten}).holds(before)
    computed, filled = column("twice", 6, generated="s"), column("twice", 6)
    was = table(ID, computed, expressions=("6 (id * 2)",), **BEFORE)
    assert table(ID, computed, expressions=("6 (id * 2)",), **{**BEFORE, **rewritten}).holds(was)
    assert not table(ID, computed, expressions=("6 (id * 3)",), **{**BEFORE, **rewritten}).holds(was)
    assert table(ID, filled, **BEFORE).is_filled(was)
    assert not table(ID, filled, **BEFORE).holds(was)
    assert not table(ID, **BEFORE).is_filled(was)


def test_of_large_objects_not_every_row_is_kept() -> None:
    assert table(ID, oid=LARGE_OBJECTS).kept_rows == KEPT_PAGES
    assert table(ID).kept_rows == ""
    assert table(ID).label == "shop.orders"
