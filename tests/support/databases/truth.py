"""What a database held after each of its transactions, told by the server itself, to judge restores by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import qualified

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.postgresql.connection.address import Address

Rows = dict[str, list[str]]
"""The rows of each table as text, in order."""

_TABLES = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
order by 1, 2
"""


def rows_of(address: Address, leave_out: Iterable[str] = ()) -> Rows:
    """Return all rows of a database, as it is now."""
    with connect(address) as session:
        session.execute("begin isolation level repeatable read")
        found = {}
        for schema, name in session.execute(_TABLES).fetchall():
            label = f"{schema}.{name}"
            if label not in leave_out:
                query = f"select t::text from {qualified(schema, name)} t order by 1"
                found[label] = [row[0] for row in session.execute(query.encode())]
        session.execute("rollback")
        return found


@dataclass
class Truth:
    """Runs transactions one after the other and keeps what was there after each.

    :param moments: position just behind a transaction, and the rows then.
    """

    address: Address
    moments: list[tuple[str, Rows]] = field(default_factory=list)

    def run(self, *statements: str) -> str:
        """Run statements in one transaction; returns the position behind it."""
        with connect(self.address) as session:
            session.execute("set search_path = public")
            session.execute("begin")
            for statement in statements:
                session.execute(statement.encode())
            session.execute("commit")
            position = self._position(session)
        self.moments.append((position, rows_of(self.address)))
        return position

    @staticmethod
    def _position(session: Any) -> str:
        row = session.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        return str(row[0])
