"""A database that is followed, and a server that knows prepared transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from tests.support.following.followed import Followed, open_followed
from tests.support.servers.versions import running


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        yield opened


@pytest.fixture(scope="module")
def prepared() -> Iterator[PostgresServer]:
    """A server that knows prepared transactions."""
    settings = {"max_prepared_transactions": "5", "max_wal_senders": "20", "max_replication_slots": "20"}
    with running(PostgresServer(settings=settings)) as server:
        yield server
