"""A PostgreSQL server that takes connections with TLS alone, with a certificate of the test's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from holdfast.postgresql.connection.server import PostgresServer
from tests.support.servers.certificates import Authority
from tests.support.servers.versions import programs_of

CERTIFIED = "certified"
"""User who needs a certificate of this name, too, by the authority of the server's clients."""

MAJOR = 15
"""Debian's, which has TLS and a pg_dump with it; the wheels' have none."""

_HBA = f"""
hostssl all {CERTIFIED} 127.0.0.1/32 scram-sha-256 clientcert=verify-full
hostssl all,replication all 127.0.0.1/32 scram-sha-256
"""


class TlsServer(PostgresServer):
    """A server on loopback; a context manager.

    :param certificate: paths of its certificate and key.
    :param clients: whose certificates of clients it takes.
    """

    def __init__(self, certificate: tuple[Path, Path], clients: Authority) -> None:
        settings = {"jit": "off", "ssl": "on", "ssl_ca_file": "clients.crt"}
        super().__init__(programs=programs_of(MAJOR), settings=settings)
        self._files = {
            "server.crt": certificate[0],
            "server.key": certificate[1],
            "clients.crt": clients.certificate,
        }

    def at(self, host: str, database: str = "postgres", **parameters: str) -> str:
        """Return the address of a database by a name of the server."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://{self.user}@{host}:{self.port}/{database}" + (f"?{query}" if query else "")

    def _initialise(self, base: Path, password_file: Path, identity: dict[str, Any]) -> None:
        super()._initialise(base, password_file, identity)
        (base / "data" / "pg_hba.conf").write_text(_HBA)
        self._put_files(base, identity)

    def _put_files(self, base: Path, identity: dict[str, Any]) -> None:
        for name, source in self._files.items():
            path = base / "data" / name
            shutil.copyfile(source, path)
            path.chmod(0o600)
            if identity:
                os.chown(path, identity["user"], identity["group"])
