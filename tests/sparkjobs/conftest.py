"""Databases on a server that is set up as it is installed, and archives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import connect
from holdfast.storage import ObjectStore, open_store

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def plain_postgres() -> Iterator[PostgresServer]:
    """A server without wal_level=logical: a snapshot waits for nobody there."""
    with PostgresServer(settings={"wal_level": "replica"}) as server:
        yield server


@pytest.fixture(scope="session")
def create_database(plain_postgres: PostgresServer) -> Callable[..., Address]:
    """Makes a database, runs statements in it and returns its address."""

    def create(*statements: str) -> Address:
        name = f"db_{next(_numbers)}"
        with connect(Address(plain_postgres.url(), plain_postgres.password)) as session:
            session.execute(f"create database {name}".encode())
        address = Address(plain_postgres.url(name), plain_postgres.password)
        with connect(address) as session:
            for statement in ("set search_path = public", *statements):
                session.execute(statement.encode())
        return address

    return create


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An empty archive in a folder."""
    return Archive.create(open_store(str(tmp_path / "archive")), name="shop").store
