"""A real server for everything that must agree with PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from holdfast.postgresql.connection.server import PostgresServer
from tests.support.databases.tables import Tables, open_tables
from tests.support.servers.versions import programs_of, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def older() -> Iterator[Callable[[int], PostgresServer]]:
    """Gives the one server of an older version, with wal_level=logical; who wants more of it starts one of his own."""
    with ExitStack() as opened:
        servers: dict[int, PostgresServer] = {}

        def get(major: int) -> PostgresServer:
            if major not in servers:
                server = PostgresServer(programs=programs_of(major), settings={"jit": "off"})
                servers[major] = opened.enter_context(running(server))
            return servers[major]

        yield get


@pytest.fixture(scope="module")
def tables(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Tables]:
    """A database of the test module."""
    with open_tables(postgres, request.module.__name__) as opened:
        yield opened
