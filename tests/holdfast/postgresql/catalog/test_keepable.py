"""Values that the server cannot read back are refused, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from holdfast.postgresql.catalog.columns import UnkeepableTypeError, check_keepable
from tests.support.databases.records import column

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables


@pytest.mark.parametrize("base", ["pg_node_tree", "pg_mcv_list", "gtsvector", "_gtsvector"])
def test_a_type_without_a_way_back_is_refused_by_name(base: str) -> None:
    with pytest.raises(UnkeepableTypeError) as caught:
        check_keepable([column("id"), column("odd", 2, base)])
    assert str(caught.value) == (
        f'column "odd" has type {base}, which PostgreSQL writes but cannot read back: leave the table out or drop the '
        "column"
    )


def test_a_type_of_somebodys_own_may_have_such_a_name() -> None:
    check_keepable([column("odd", base="pg_node_tree", base_schema="shop")])


def test_a_virtual_column_has_no_values_to_keep_and_a_stored_one_has() -> None:
    check_keepable([column("odd", base="pg_node_tree", generated="v")])
    with pytest.raises(UnkeepableTypeError):
        check_keepable([column("odd", base="pg_node_tree", generated="s")])


@pytest.mark.service
def test_what_is_refused_is_what_the_server_reads_back_in_no_form(tables: Tables) -> None:
    rows = tables.session.execute(
        "select typname::text from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b'"
    ).fetchall()
    unread, refused = set(), set()
    for (name,) in rows:
        text = "{x}" if name.startswith("_") else "x"
        try:
            tables.session.execute(f"select '{text}'::pg_catalog.\"{name}\"".encode())
        except psycopg.Error as error:  # the others do not like this text
            if "cannot accept a value of type" in str(error):
                unread.add(name)
        try:
            check_keepable([column("x", base=name)])
        except UnkeepableTypeError:
            refused.add(name)
    assert len(rows) > 100
    assert refused == unread
