"""A database of many small tables: what a table costs however little is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from bench.support import workload
from bench.support.processes import check_rows, run

if TYPE_CHECKING:
    from pathlib import Path

    from bench.support.figures import Times
    from bench.support.holdfast_command import HoldfastCommand
    from holdfast.postgresql.connection.server import PostgresServer

JOB = "holdfast backup of small tables"
WHOLE = "holdfast backup of small tables, whole command"
DIRECTORY = "pg_dump -Fd -j2 of small tables"
SERIES = (JOB, WHOLE, DIRECTORY)

DATABASE = "bench_many"
ROWS = 20
"""In each table."""

_MAKE = """
do $$ begin for i in {first}..{last} loop
  execute format('create table t%s (id int primary key, name text not null, at timestamptz, amount numeric(10,2))', i);
  execute format('insert into t%s select g, ''row '' || g, ''2026-01-01''::timestamptz, g * 1.25
    from generate_series(1, {rows}) g', i);
end loop; end $$
"""
_AT_ONCE = 500
"""Tables made in one transaction: each holds a few locks."""


class ManyTables:
    """Takes the times of one round."""

    def __init__(self, server: PostgresServer, tables: int, holdfast: HoldfastCommand) -> None:
        self._server = server
        self._rows = tables * ROWS
        self._holdfast = holdfast
        workload.create_database(server, DATABASE)
        with psycopg.connect(server.conninfo(DATABASE), autocommit=True) as session:
            for first in range(1, tables + 1, _AT_ONCE):
                made = _MAKE.format(first=first, last=min(first + _AT_ONCE - 1, tables), rows=ROWS)
                session.execute(made.encode())
            session.execute("vacuum (freeze, analyze)")
        workload.settle(server)

    def holdfast(self, folder: Path) -> Times:
        """Back up into a new archive."""
        archive = folder / "many-archive"
        self._holdfast.init(archive)
        measured = self._holdfast.backup(archive, DATABASE)
        check_rows(JOB, measured.rows, self._rows)
        return {JOB: measured.job, WHOLE: measured.whole}

    def pg_dump(self, folder: Path) -> Times:
        """Dump into a directory by two jobs, compressed as pg_dump does by itself."""
        program = [str(self._server.programs / "pg_dump"), "--dbname", self._server.url(DATABASE), "-Fd", "-j2"]
        done = run([*program, "-f", folder / "many-directory"], {"PGPASSWORD": self._server.password})
        return {DIRECTORY: done.seconds}
