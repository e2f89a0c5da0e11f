"""What two databases are compared by, beside what a restore compares itself."""

from __future__ import annotations

import subprocess

from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import need_program
from holdfast.postgresql.restore.rows.load import content_hash


def schema_of(address: Address, *more: str) -> list[str]:
    """Return what PostgreSQL's own pg_dump says of a database, line by line.

    :param more: options.
    """
    options = ["--schema-only", "--encoding=UTF8", "--restrict-key=same", *more, "--dbname", address.url]
    program = need_program("pg_dump", at_least=18)
    done = subprocess.run(
        [program, *options], env=address.environment(), capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout.splitlines()


def hashes(address: Address) -> dict[str, str]:
    """Return the content hash of every table, computed by its server."""
    with connect(address) as session:
        return {table.label: str(content_hash(session, table)) for table in read_tables(session) if table.has_rows}
