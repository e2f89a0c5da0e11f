"""Whether whoever worked in a database has left nothing of it on the server."""

from __future__ import annotations

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect


def nothing_left_in(database: Address) -> bool:
    """Say whether no session but this one is in the database, and no replication slot belongs to it."""
    with connect(database) as session:
        row = session.execute(
            "select (select count(*) from pg_replication_slots where database = current_database()), "
            "(select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid())"
        ).fetchone()
    return row == (0, 0)
