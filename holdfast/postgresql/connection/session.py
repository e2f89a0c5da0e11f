"""Sessions with fixed settings for reading, comparing and loading values.

The settings hold from the first statement on, also the driver's: they are in the packet that begins a connection
(`Address.link`). Else the database's owner would say by its `search_path` what a driver's own first queries mean.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.common.postgresql_tls import tls_advice
from holdfast.postgresql.connection.session_errors import remedy, words
from holdfast.postgresql.connection.sql import literal
from holdfast.postgresql.connection.value_settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.postgresql.connection.address import Address

Connection = psycopg.Connection[tuple[Any, ...]]
"""A session, whose rows are tuples."""

_OPTIONAL = {"transaction_timeout": "0", "idle_session_timeout": "0"}
"""Settings that not every supported version has."""

NOTICE_CLIENTS = "set client_connection_check_interval = '5s'"
"""Else a long statement goes on for a client that was killed, and keeps its locks, or its slot."""

_MAY_PASS = ("40", "53", "57", "25006", "25P", "55P03", "58030", "XX001", "XX002")
"""How SQLSTATEs begin of what another try may not meet: conflicts, resources, operators, locks, a standby, disks.

What a foreign server or a function says (08, HV, 58P01, …) lies in the statement. Source: PostgreSQL manual, 'Error
Codes'.
"""

_CONNECT_TIMEOUT_S = 15

_OF_POOLERS = re.compile(r"unsupported startup parameter|RDS Proxy")
"""What PgBouncer, and what Amazon's proxy, say of `options` and of `replication`."""


def _settings_query() -> str:
    made = [f"pg_catalog.set_config({literal(name)}, {literal(value)}, false)" for name, value in SETTINGS.items()]
    made += [
        f"case when pg_catalog.current_setting({literal(name)}, true) is not null "
        f"then pg_catalog.set_config({literal(name)}, {literal(value)}, false) end"
        for name, value in _OPTIONAL.items()
    ]
    return f"select {', '.join(made)}"


SETTINGS_QUERY = _settings_query()
"""Makes all settings of a session, by one request: also those that not every version knows at the beginning of one, and
those that libpq sends for PGTZ and the like."""

_BEGIN = SETTINGS_QUERY.replace("select ", "select pg_catalog.current_setting('search_path'), ", 1)
"""Tells first what the session began with."""


def connect(address: Address, **options: Any) -> Connection:
    """Open a session with the settings made, in autocommit mode.

    :raises HoldfastError: one sentence that says what to do.
    :raises UsageError: what is connected to is a pooler that does not begin sessions as it is told.
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
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise connection_error(address, error) from error
    with ExitStack() as opened:
        opened.callback(connection.close)
        began_with = connection.execute(_BEGIN.encode()).fetchone()
        if began_with is None or began_with[0] != address.search_path:
            raise _pooler(address, "does not pass on 'options'")
        opened.pop_all()
    return connection


def session_role(session: Connection) -> str:
    """Return the session's current role.

    It is another one than has logged in where that was altered by SET role.
    """
    row = session.execute("select current_user").fetchone()
    return str(row[0]) if row else session.info.user


def _pooler(address: Address, what: str) -> UsageError:
    return UsageError(
        f"{address.url} is no server but a pooler or proxy, and {what}, without which the database's owner could say "
        "what our statements mean: connect to the server itself"
    )


def connection_error(address: Address, error: Exception) -> HoldfastError:
    """Return a failed connection as an error of one sentence with a remedy."""
    said = " ".join(str(error).split())
    where = address.url
    if re.search(r'database ".*" does not exist', said):
        return UsageError(
            f"there is no database {address.database!r} at {where}: correct the name, or create it with createdb"
        )
    if re.search(r'role ".*" does not exist', said):
        return UsageError(f"{where}: {_tail(said)}: correct the user name")
    if re.search(r"invalid URI query parameter|invalid \w+ value: |for connection option|bad value for", said):
        return UsageError(f"{where} cannot be used: {_tail(said)}: correct the address")
    if _OF_POOLERS.search(said):
        return _pooler(address, f"refuses how sessions begin ({_tail(said)})")
    if "permission denied for database" in said:
        return HoldfastError(f"{where}: this user may not connect to the database: grant it CONNECT on it")
    if advice := tls_advice(said):
        return HoldfastError(f"cannot connect to {where}: {_tail(said)}: {advice}")
    if "password" in said or "authentication" in said:
        return HoldfastError(
            f"{where} refused the log-in: set PGPASSWORD or ~/.pgpass, or correct the connection ({_tail(said)})"
        )
    return HoldfastError(f"cannot connect to {where}: {_tail(said)}. Is the server running and reachable from here?")


def server_error(what: str, error: psycopg.Error) -> HoldfastError:
    """Return a server's error in its own words.

    It is a refusal where the server would refuse each time it is asked.

    Lost connections, full disks, time-outs and the like may be gone when it is tried again.
    """
    kind = HoldfastError if isinstance(error, psycopg.OperationalError) else RefusedError
    return kind(": ".join(filter(None, (what, words(error), remedy(error)))))


def is_refusal(session: psycopg.Connection[Any], error: BaseException | None) -> bool:
    """Return whether a server refused a statement for its text or its rows.

    Such a refusal would be repeated.

    A lost connection, a full disk, a lock that others hold and the like are none.
    """
    if session.broken or not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return False
    return not error.sqlstate.startswith(_MAY_PASS)


def first_value(session: Connection, query: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> Any:
    """Return the first value of a query's first row; None where there is no row."""
    row = session.execute(query.encode(), values).fetchone()
    return row[0] if row else None


def first_column(session: Connection, query: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> list[Any]:
    """Return the first value of each row of a query."""
    return [row[0] for row in session.execute(query.encode(), values)]


def refusal_of(session: Connection, statement: str) -> psycopg.Error | None:
    """Run a statement in a subtransaction; return the server's refusal, if any."""
    try:
        with session.transaction():
            session.execute(statement.encode())
    except psycopg.Error as error:
        if not is_refusal(session, error):
            raise
        return error
    return None


def _tail(said: str) -> str:
    """Return the reason in libpq's message, without its closing question."""
    found = re.sub(r".*?(FATAL|failed|is bad): +", "", said).strip() or said
    return re.sub(r"\s*Is the server running .*\?$", "", found).rstrip(".")
