"""PostgreSQL servers that go through something, one restarted and one following another; and databases of any."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.server import PostgresServer
from holdfast.sources.postgresql.connection.session import connect

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


class RestartedServer(PostgresServer):
    """A server that can be ended and started again, with its data, at its port."""

    def end(self, how: signal.Signals) -> None:
        """End the server.

        :param how: SIGINT ends its sessions and writes a checkpoint; SIGQUIT ends it as a crash does.
        """
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)

    def start_again(self) -> None:
        """Start the server that was ended."""
        assert self._base is not None
        with (self._base / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self._base / "data"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._base, start_new_session=True,
                env=self._environment(), **self._identity(self._base),
            )  # fmt: skip
        self._wait_until_ready(self._base)

    def restart(self, how: signal.Signals) -> None:
        """End the server, as above, and start it again."""
        self.end(how)
        self.start_again()


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
