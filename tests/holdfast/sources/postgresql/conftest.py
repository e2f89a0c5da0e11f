"""A real server for everything that must agree with PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tables import Tables, open_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.sources.postgresql.server import PostgresServer


@pytest.fixture(scope="module")
def tables(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Tables]:
    """A database of the test module."""
    with open_tables(postgres, request.module.__name__) as opened:
        yield opened
