"""Sessions with the one set of settings under which values are read, compared and loaded.

Each setting is there because a run without it lost or changed data: `row_security` on hides rows
without an error, `search_path` decides which type or function a name means, the others change how a
value is written as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.errors import HoldfastError, UsageError
from holdfast.sources.postgresql.forms import VALUE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.sources.postgresql.address import Address

SETTINGS = {
    **VALUE_SETTINGS,
    "row_security": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
}
"""What every session sets. Sources: PostgreSQL manual, 'Client Connection Defaults'; pg_dump's own."""

_OPTIONAL = {"transaction_timeout": (17, "0"), "idle_session_timeout": (14, "0")}
"""Settings that came with a later major version."""

_CONNECT_TIMEOUT_S = 15


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
    for statement in setting_statements(connection.info.server_version):
        connection.execute(statement)
    return connection


def connection_error(address: Address, error: Exception) -> HoldfastError:
    """Turn libpq's words into one sentence with what to do."""
    said = " ".join(str(error).split())
    where = address.url
    if re.search(r'database ".*" does not exist', said):
        return UsageError(
            f"there is no database {address.database!r} at {where}: correct the name, or create it with createdb"
        )
    if re.search(r'role ".*" does not exist', said):
        return UsageError(f"{where}: {_tail(said)}: correct the user name")
    if "permission denied for database" in said:
        return HoldfastError(f"{where}: this user may not connect to the database: grant it CONNECT on it")
    if "password" in said or "authentication" in said:
        return HoldfastError(
            f"{where} refused the log-in: set PGPASSWORD or ~/.pgpass, or correct the connection ({_tail(said)})"
        )
    return HoldfastError(f"cannot connect to {where}: {_tail(said)}. Is the server running and reachable from here?")


def _tail(said: str) -> str:
    """Return the part of libpq's words that says why, without the question it asks after it."""
    found = re.sub(r".*?(FATAL|failed): +", "", said).strip() or said
    return re.sub(r"\s*Is the server running .*\?$", "", found).rstrip(".")
