"""Connections of type `holdfast_postgres`: a PostgreSQL database to back up, or to restore into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseHook

from holdfast.common.errors import HoldfastError
from holdfast_airflow.connections import database_address

if TYPE_CHECKING:
    import psycopg

    from holdfast.postgresql.connection.address import Address


class HoldfastPostgresHook(BaseHook):
    """Hook for a PostgreSQL database, with the session settings of backups and restores.

    Connections of type `postgres`, of Airflow's own provider, are taken as well.
    """

    conn_name_attr: ClassVar[str] = "postgres_conn_id"
    default_conn_name: ClassVar[str] = "holdfast_postgres_default"
    conn_type: ClassVar[str] = "holdfast_postgres"
    hook_name: ClassVar[str] = "Holdfast PostgreSQL"

    def __init__(self, postgres_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.postgres_conn_id = postgres_conn_id

    @property
    def address(self) -> Address:
        """Return the address of the database. Its password is kept apart, and masked in logs."""
        return database_address(self.postgres_conn_id)

    def get_conn(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a session, in autocommit mode."""
        from holdfast.postgresql.connection.session import connect

        return connect(self.address)

    def test_connection(self) -> tuple[bool, str]:
        try:
            with self.get_conn() as session:
                row = session.execute(
                    "select current_setting('server_version'), current_setting('wal_level'), current_user, "
                    "coalesce((select case when ssl then version end from pg_catalog.pg_stat_ssl "
                    "where pid = pg_catalog.pg_backend_pid()), 'no TLS')"
                ).fetchone()
        except HoldfastError as error:
            return False, str(error)
        version, level, user, tls = row or ("?", "?", "?", "?")
        incremental = "possible" if level == "logical" else f"not possible with wal_level {level}"
        return True, f"PostgreSQL {version} as {user}, {tls}; incremental backups are {incremental}"
