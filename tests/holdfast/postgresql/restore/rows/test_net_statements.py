"""Statements that apply changes, as text; what they do on a real server is in test_apply.py."""

from __future__ import annotations

import pytest

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.restore.rows.net_statements import STAGE, NetStatements
from tests.support.databases.records import column, table

ID, WORD, PRICE = column("id"), column("Word", 2, "text"), column("price", 4, "numeric", precision=9, scale=2)
TWICE, SEEN = column("twice", 5, generated="s"), column("seen", 6, generated="v")
KEYED = NetStatements(table(ID, WORD, PRICE, TWICE, SEEN), (1,), "UTF8")
KEYLESS = NetStatements(table(ID, WORD), (), "UTF8")


def test_changes_are_staged_without_generated_columns_and_beside_what_was_done() -> None:
    assert [each.name for each in KEYED.plain] == ["id", "Word", "price"]
    assert [each.name for each in KEYED.staged] == ["c1", "c2", "c4", "op", "unchanged"]
    assert [each.name for each in KEYLESS.staged] == ["c1", "c2", "op", "copies"]
    assert KEYLESS.create() == (
        f'create temporary table {STAGE} ("c1" "pg_catalog"."int4", "c2" "pg_catalog"."text", '
        '"op" "pg_catalog"."text", "copies" "pg_catalog"."int8") on commit drop'
    )


def test_staged_columns_have_names_that_the_table_has_not() -> None:
    taken = table(column("c2", 1), column("c2_", 2), column("op", 3), column("unchanged", 4), column("copies", 5))
    names = [each.name for each in NetStatements(taken, (1,), "UTF8").staged]
    assert names == ["c1", "c2__", "c3", "c4", "c5", "op_", "unchanged_"]
    assert NetStatements(taken, (), "UTF8").more.name == "copies_"


def test_a_stored_formula_alone_makes_hashes_of_ordinary_columns_worth_computing() -> None:
    assert KEYED.has_generated
    assert not NetStatements(table(ID, SEEN), (1,), "UTF8").has_generated
    assert KEYLESS.insert_and_hash().endswith(", 0) select count(*), coalesce(sum(whole), 0), coalesce(sum(plain), 0) "
                                              "from came")  # fmt: skip


@pytest.mark.parametrize("number", [5, 9], ids=["generated", "dropped"])
def test_a_key_that_changes_do_not_tell_is_refused_by_the_tables_name(number: int) -> None:
    with pytest.raises(HoldfastError, match=r"shop\.orders: a column that tells its rows apart is not in its changes"):
        NetStatements(KEYED.table, (1, number), "UTF8").delete()


def test_keys_are_compared_byte_by_byte_where_they_are_text() -> None:
    by_word = NetStatements(KEYED.table, (2, 1), "UTF8").complete([4])
    assert 'collate "C" = ("c2"::pg_catalog.text) collate "C"' in by_word
    assert 'and "id"::"pg_catalog"."int4" = "c1"::"pg_catalog"."int4"' in by_word


def test_unchanged_values_are_completed_and_what_was_dropped_since_is_no_value() -> None:
    assert KEYED.complete([4, 9]).startswith(
        f'update {STAGE} set "c4" = case when pg_catalog.strpos("unchanged", \',4,\') > 0 then "price" else "c4" end '
        'from only "shop"."orders" t where "op" = \'U\' and '
    )
    assert KEYED.complete([9]).startswith(f'update {STAGE} set "op" = "op" from')


def test_rows_are_inserted_into_ordinary_columns_as_often_as_they_came() -> None:
    assert KEYED.insert() == (
        'insert into "shop"."orders" ("id", "Word", "price") overriding system value select "c1", "c2", "c4" '
        f"from {STAGE} where not \"op\" = 'D'"
    )
    assert 'pg_catalog.generate_series(1, "copies")' in KEYLESS.insert()
    assert NetStatements(table(), (), "UTF8").insert().startswith('insert into "shop"."orders" select  from')


def test_only_the_table_itself_is_emptied_and_only_what_is_joined_by_is_analyzed() -> None:
    assert KEYED.empty() == 'truncate only "shop"."orders"'
    # What was done has no number of its own, nor has what stays.
    assert KEYED.analyze() == f'analyze {STAGE} ("c1", "op", "unchanged")'
