"""Rows in COPY's text format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.postgresql.values.encode import encode

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables


pytestmark = pytest.mark.service


def test_text_fields_are_escaped_and_null_differs_from_empty(tables: Tables) -> None:
    table, batch = tables.written(
        "a text, b bytea", "values (E'\\\\N\\t\\n\\r\\\\.', '\\x5c00'), ('', ''), (null, null)"
    )
    assert bytes(encode(tables.columns(table), batch)) == b"\\\\N\\t\\n\\r\\\\.\t\\\\x5c00\n\t\\\\x\n\\N\t\\N\n"
