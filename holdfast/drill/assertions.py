"""Assertions about a restored database: queries that return one row with the value true."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.connection.address import Address

_SHOWN = 200
"""Characters of a statement, in a message."""


# The path of the database's users: RESET would give that of our session's start.
_ITS_OWN_PATH = """
select pg_catalog.set_config('search_path', coalesce((
    select pg_catalog.substr(made, 13)
    from pg_catalog.pg_db_role_setting s
    join pg_catalog.pg_roles r on r.rolname = session_user
    join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
    cross join pg_catalog.unnest(s.setconfig) made
    where s.setdatabase in (0, d.oid) and s.setrole in (0, r.oid) and made like 'search_path=%'
    order by s.setrole <> 0 desc, s.setdatabase <> 0 desc limit 1
  ), (select boot_val from pg_catalog.pg_settings where name = 'search_path')), false)
"""


@dataclass(frozen=True)
class Asserted:
    """Outcome of one asserted statement; `said` is the reason if it does not hold."""

    sql: str
    holds: bool
    said: str = ""

    def __str__(self) -> str:
        return f"{shorten(self.sql, _SHOWN, placeholder=' …')}: {self.said or 'holds'}"

    def describe(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        return asdict(self)


def check(address: Address, statements: Sequence[str]) -> tuple[Asserted, ...]:
    """Run every statement in a read-only transaction of its own; a failing one does not hold.

    :raises HoldfastError: the database cannot be reached.
    """
    return tuple(_check(address, sql) for sql in statements)


def _check(address: Address, sql: str) -> Asserted:
    with connect(address) as session:
        session.execute(_ITS_OWN_PATH)
        session.execute("begin read only")
        try:
            cursor = session.execute(sql.encode())
            if cursor.description is None:
                return Asserted(sql, False, "is no query")
            said = _why_not(cursor.fetchmany(2), len(cursor.description))
        except psycopg.Error as error:
            said = words(error)
        session.execute("rollback")
    return Asserted(sql, not said, said)


def _why_not(rows: Sequence[tuple[Any, ...]], columns: int) -> str:
    """Return the reason why a result fails an assertion; it shows no values but false and null."""
    if len(rows) != 1:
        return "returned no row" if not rows else "returned more than one row"
    if columns != 1:
        return f"returned {columns} columns"
    (value,) = rows[0]
    if value is True:
        return ""
    return f"returned {'false' if value is False else 'null' if value is None else 'a value that is no boolean'}"
