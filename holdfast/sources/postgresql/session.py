"""Sessions with the one set of settings under which values are read, compared and loaded.

Each setting is there because a run without it lost or changed data: `row_security` on hides rows
without an error, `search_path` decides which type or function a name means, the others change how a
value is written as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.errors import HoldfastError, RefusedError, UsageError
from holdfast.sources.postgresql.outages import remedy, words
from holdfast.sources.postgresql.sql import literal
from holdfast.sources.postgresql.value_settings import VALUE_SETTINGS

if TYPE_CHECKING:
    from holdfast.sources.postgresql.address import Address

SETTINGS = {
    **VALUE_SETTINGS,
    "row_security": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "transform_null_equals": "off",
    # The locks of a session whose client lost its power or its network end with it, within two minutes.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""What every session sets. Sources: PostgreSQL manual, 'Client Connection Defaults'; pg_dump's own."""

_OPTIONAL = {"transaction_timeout": "0", "idle_session_timeout": "0"}
"""Settings that not every supported version has."""

NOTICE_CLIENTS = "set client_connection_check_interval = '5s'"
"""Else a long statement goes on for a client that was killed, and keeps its locks, or its slot."""

BY_ROWS = (
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.ProgrammingError,
    psycopg.errors.RaiseException,
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.ProgramLimitExceeded,  # an index of a value that is too long for it
)
"""What a server says where rows are in the way, or what needs something that is not there; no disk that is full."""

_CONNECT_TIMEOUT_S = 15


def _settings_query() -> str:
    made = [f"pg_catalog.set_config({literal(name)}, {literal(value)}, false)" for name, value in SETTINGS.items()]
    made += [
        f"case when pg_catalog.current_setting({literal(name)}, true) is not null "
        f"then pg_catalog.set_config({literal(name)}, {literal(value)}, false) end"
        for name, value in _OPTIONAL.items()
    ]
    return f"select {', '.join(made)}"


SETTINGS_QUERY = _settings_query()
"""Makes all settings of a session, by one request."""


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
    connection.execute(SETTINGS_QUERY)
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


def server_error(what: str, error: psycopg.Error) -> HoldfastError:
    """Say what the server did not do, in its words: refused, where it would do so each time it is asked.

    Lost connections, full disks, time-outs and the like may be gone when it is tried again.
    """
    kind = HoldfastError if isinstance(error, psycopg.OperationalError) else RefusedError
    return kind(": ".join(filter(None, (what, words(error), remedy(error)))))


def _tail(said: str) -> str:
    """Return the part of libpq's words that says why, without the question it asks after it."""
    found = re.sub(r".*?(FATAL|failed): +", "", said).strip() or said
    return re.sub(r"\s*Is the server running .*\?$", "", found).rstrip(".")
