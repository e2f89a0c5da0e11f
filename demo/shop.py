"""The sample shop database of the demo and the tests: every kind of object, and values that break careless copies."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from demo import every_type

_SQL = Path(__file__).with_name("sql")
_ROWS_A_TURN = 50


def create(conninfo_admin: str, database: str, scale: float = 1.0) -> str:
    """Create the database and fill it; at scale 1.0 with about 400,000 rows. The same scale gives the same rows.

    :param conninfo_admin: how to reach the server, as someone who may create databases.
    :return: the conninfo of the new database, with the password in it if there was one.
    """
    create_empty(conninfo_admin, database)
    conninfo = make_conninfo(conninfo_admin, dbname=database)
    with psycopg.connect(conninfo) as connection:
        connection.execute("select set_config('shop.scale', %s, false)", [str(scale)])
        connection.execute("set timezone = 'UTC'")
        _run(connection, "tables")
        every_type.create(connection)
        _run(connection, "rows")
        _run(connection, "constraints")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("analyze")
    return conninfo


def create_empty(conninfo_admin: str, database: str) -> None:
    """Create a database with nothing in it."""
    with psycopg.connect(conninfo_admin, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(database)))


def drop(conninfo_admin: str, database: str) -> None:
    """Drop the database, and end the sessions that use it."""
    with psycopg.connect(conninfo_admin, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(database)))


def write_more(
    conninfo: str, *, rows: int | None = None, seconds: float | None = None, stop: threading.Event | None = None
) -> int:
    """Insert, update and delete rows in several tables, in many small transactions.

    Ends when so many rows are changed, after so many seconds or when `stop` is set, whichever comes first;
    at least one of them must be given.

    :return: how many rows were changed.
    """
    if rows is None and seconds is None and stop is None:
        raise ValueError("say when to stop: rows, seconds or stop")
    deadline = None if seconds is None else time.monotonic() + seconds
    changed = 0
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for turn in itertools.count():
            if (
                (rows is not None and changed >= rows)
                or (deadline is not None and time.monotonic() >= deadline)
                or (stop is not None and stop.is_set())
            ):
                break
            changed += _one_turn(connection, turn)
        # A restore fills materialised views from the restored tables, so a stale one would not come back stale.
        connection.execute("refresh materialized view shop.sales_by_product")
    return changed


def _run(connection: psycopg.Connection, name: str) -> None:
    connection.execute((_SQL / f"{name}.sql").read_bytes())


def _one_turn(connection: psycopg.Connection, turn: int) -> int:
    """Change rows in one transaction, other ones each turn; return how many."""
    given = {"turn": turn, "rows": _ROWS_A_TURN}
    statements = (_SQL / "turn.sql").read_text().split(";\n")
    with connection.transaction():
        return sum(connection.execute(text, given).rowcount for text in statements if text.strip())
