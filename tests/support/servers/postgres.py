"""A PostgreSQL server that follows another; and databases of any server."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect

_numbers = itertools.count(1)


def create_database(server: PostgresServer, options: str = "") -> Address:
    """Create an empty database with a name that no other has, and return its address."""
    name = f"made_{next(_numbers)}"
    with connect(Address(server.url(), server.password)) as session:
        session.execute(f"create database {name} {options}".encode())
    return Address(server.url(name), server.password)


@contextmanager
def passing_database(server: PostgresServer) -> Iterator[Address]:
    """Create an empty database, and drop it with its slots after a block that ends well."""
    address = create_database(server)
    yield address
    drop_slots(address)
    with connect(Address(server.url(), server.password)) as session:
        session.execute(f"drop database {address.database} with (force)".encode())


def drop_slots(address: Address) -> None:
    """Drop the slots of a database that nobody reads."""
    with connect(address) as session:
        session.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database() "
            "and active_pid is null"
        )


class Standby(PostgresServer):
    """A server whose data are another's, which it follows."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__(programs=primary.programs, settings={"max_standby_streaming_delay": "30s"})
        self._primary = primary
        self.password = primary.password

    def _initialise(self, base: Path, password_file: Path, identity: dict[str, Any]) -> None:
        command = [
            *(str(self.programs / "pg_basebackup"), "-D", str(base / "data"), "-R", "-X", "stream", "-c", "fast"),
            *("-d", f"postgresql://postgres@127.0.0.1:{self._primary.port}/postgres", "--no-sync"),
        ]
        password = {**os.environ, "PGPASSWORD": self._primary.password}
        subprocess.run(command, check=True, capture_output=True, cwd=base, env=password, **identity)
