"""COPY FROM STDIN of encoded rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.postgresql.values.encode import copy_in, copy_statement

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables


pytestmark = pytest.mark.service


def test_statements_leave_generated_columns_out(tables: Tables) -> None:
    table = tables.create('"a ""b""" int, c int generated always as ("a ""b""" + 1) stored')
    assert copy_statement("public.t", tables.columns(table)) == 'copy public.t ("a ""b""") from stdin'
    assert copy_statement("public.t", (), binary=True) == "copy public.t from stdin (format binary)"


@pytest.mark.parametrize("definition", ["a int4, b text", "a int4[], b text"])
def test_loading_nothing_loads_nothing(tables: Tables, definition: str) -> None:
    table = tables.create(definition)
    with tables.session.cursor() as cursor:
        assert copy_in(cursor, table, tables.columns(table), []) == 0
