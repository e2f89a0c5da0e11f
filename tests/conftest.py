"""What many tests share: one PostgreSQL server a session, a database of its own a test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import connect
from tests.support.servers import drop_slots
from tests.support.versions import running

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server with wal_level=logical, slots and senders to spare, and the locales of the tests."""
    with running(PostgresServer(settings={"max_wal_senders": "20", "max_replication_slots": "20"})) as server:
        yield server


@pytest.fixture
def new_database(postgres: PostgresServer) -> Iterator[Callable[..., Address]]:
    """Makes an empty database and returns its address; slots that a test leaves in it are dropped."""
    admin = Address(postgres.url(), postgres.password)
    made: list[str] = []

    def make(options: str = "") -> Address:
        name = f"test_{next(_numbers)}"
        with connect(admin) as session:
            session.execute(f"create database {name} {options}".encode())
        made.append(name)
        return Address(postgres.url(name), postgres.password)

    yield make
    with connect(admin) as session:
        left = session.execute(
            "select distinct database::text from pg_replication_slots where database = any(%s) and active_pid is null",
            (made,),
        ).fetchall()
    for (name,) in left:
        drop_slots(Address(postgres.url(name), postgres.password))


@pytest.fixture
def address(new_database: Callable[..., Address]) -> Address:
    """The address of an empty database."""
    return new_database()
