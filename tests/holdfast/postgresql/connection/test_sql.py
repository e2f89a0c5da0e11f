from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.postgresql.connection.sql import ident, literal, qualified

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables

NAMES = ("plain", 'a "quoted" name', "select", "ünïcode 😀", "back\\slash", "it's", " ", "x" * 63)


def test_a_qualified_name_quotes_both_parts() -> None:
    assert qualified('my "schema"', "t.a") == '"my ""schema"""."t.a"'


@pytest.mark.service
@pytest.mark.parametrize("name", NAMES)
def test_the_server_reads_an_identifier_as_the_same_name(tables: Tables, name: str) -> None:
    cursor = tables.session.execute(f"select 1 as {ident(name)}".encode())
    assert cursor.description is not None
    assert cursor.description[0].name == name


@pytest.mark.service
@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("text", [*NAMES, "", "'", "\\'", "a\nb"])
def test_the_server_reads_a_literal_as_the_same_text_under_any_setting(
    tables: Tables, text: str, conforming: str
) -> None:
    tables.session.execute(f"set standard_conforming_strings = {conforming}")
    row = tables.session.execute(f"select {literal(text)}".encode()).fetchone()
    tables.session.execute("set standard_conforming_strings = on")
    assert row == (text,)
