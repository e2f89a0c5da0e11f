"""One PostgreSQL server with a small shop, for the tests of the demo's parts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from demo import shop
from holdfast.postgresql.connection.server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture(scope="session")
def original(server: PostgresServer) -> str:
    """The conninfo of a shop that no test changes."""
    return shop.create(server.conninfo(), "original", scale=0.02)


@pytest.fixture
def make_copy(server: PostgresServer, original: str) -> Callable[[], str]:
    """Make a copy of the original by PostgreSQL's own means, and give its conninfo."""

    def copy() -> str:
        name = f"copy{next(_numbers)}"
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute(sql.SQL("create database {} template original").format(sql.Identifier(name)))
        return make_conninfo(original, dbname=name)

    return copy
