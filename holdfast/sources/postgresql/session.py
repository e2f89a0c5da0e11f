"""Sessions with the one set of settings under which values are read, compared and loaded.

Each setting is there because a run without it lost or changed data: `row_security` on hides rows
without an error, `search_path` decides which type or function a name means, the others change how a
value is written as text.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg

from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS = {
    "row_security": "off",
    "search_path": "",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
}
"""What every session sets. Sources: PostgreSQL manual, 'Client Connection Defaults'; pg_dump's own."""

_OPTIONAL = {"transaction_timeout": (17, "0"), "idle_session_timeout": (14, "0")}
"""Settings that came with a later major version."""

_CONNECT_TIMEOUT_S = 15


@dataclass(frozen=True)
class Address:
    """Where a database is and who connects; the password is kept out of `url` and out of repr.

    :param url: `postgresql://user@host:port/database`, with libpq parameters in its query part.
    """

    url: str
    password: str | None = None

    @classmethod
    def parse(cls, url: str, password: str | None = None) -> Address:
        """Read a connection URL; a password in it is taken out.

        :raises UsageError: not a PostgreSQL URL, or one without a database name.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise UsageError(f"{_masked(url)} is no PostgreSQL address: write postgresql://user@host:port/database")
        if not parts.path.strip("/"):
            raise UsageError(f"{_masked(url)} names no database: add /database to it")
        given = parts.password
        login = quote(parts.username) + "@" if parts.username else ""
        host = parts.netloc.rpartition("@")[2]
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        given = query.pop("password", given)
        clean = urlunsplit(("postgresql", login + host, parts.path, urlencode(query), ""))
        return cls(clean, password or given)

    @property
    def database(self) -> str:
        """Return the name of the database."""
        return urlsplit(self.url).path.strip("/")

    def __repr__(self) -> str:
        return f"Address({self.url})"

    def conninfo(self) -> str:
        """Return a libpq URL with the password in it: for connecting only, never for a message."""
        secret = self.password or os.environ.get("PGPASSWORD")
        if not secret:
            return self.url
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        if not at:
            query = urlencode([*parse_qsl(parts.query), ("password", secret)])
            return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
        return urlunsplit((parts.scheme, f"{user}:{quote(secret, safe='')}@{host}", parts.path, parts.query, ""))

    def at_database(self, database: str) -> Address:
        """Return the same server and user with another database."""
        parts = urlsplit(self.url)
        return Address(urlunsplit((parts.scheme, parts.netloc, "/" + quote(database), parts.query, "")), self.password)

    def environment(self) -> dict[str, str]:
        """Return the environment in which PostgreSQL's programs connect without asking."""
        secret = self.password or os.environ.get("PGPASSWORD")
        kept = {key: value for key, value in os.environ.items() if key not in ("PGOPTIONS", "PGPASSWORD")}
        return {**kept, **({"PGPASSWORD": secret} if secret else {})}


def _masked(url: str) -> str:
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:***@", re.sub(r"(password=)[^&]*", r"\1***", url))


def setting_statements(server_version: int) -> Iterable[str]:
    """Return the SET statements for a server.

    :param server_version: as libpq gives it, such as 180006.
    """
    major = server_version // 10000
    for name, value in SETTINGS.items():
        yield f"SET {name} = '{value}'"
    for name, (since, value) in _OPTIONAL.items():
        if major >= since:
            yield f"SET {name} = '{value}'"


def connect(address: Address, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a session with the settings made, in autocommit mode.

    :raises HoldfastError: one sentence that says what to do.
    """
    try:
        connection = psycopg.connect(
            address.conninfo(),
            autocommit=True,
            connect_timeout=_CONNECT_TIMEOUT_S,
            application_name="holdfast",
            client_encoding="UTF8",
            prepare_threshold=None,
            **options,
        )
    except psycopg.OperationalError as error:
        raise connection_error(address, error) from error
    if "replication" not in options:
        for statement in setting_statements(connection.info.server_version):
            connection.execute(statement)
    return connection


def connection_error(address: Address, error: Exception) -> HoldfastError:
    """Turn libpq's words into one sentence with what to do."""
    said = " ".join(str(error).split())
    where = address.url
    if "password" in said or "authentication" in said:
        return HoldfastError(
            f"{where} refused the log-in: set PGPASSWORD or ~/.pgpass, or correct the connection ({_tail(said)})"
        )
    if "does not exist" in said and "database" in said:
        return UsageError(
            f"there is no database {address.database!r} at {where}: correct the name, or create it with createdb"
        )
    if "role" in said and "does not exist" in said:
        return UsageError(f"{where}: {_tail(said)}: correct the user name")
    return HoldfastError(f"cannot connect to {where}: {_tail(said)}. Is the server running and reachable from here?")


def _tail(said: str) -> str:
    return re.sub(r".*?(FATAL|failed): +", "", said).strip() or said
