"""The ways to get a table back into PostgreSQL, from what the backups of the same round left."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.support import workload
from bench.support.processes import check_rows, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.support.figures import Times
    from bench.support.holdfast_command import HoldfastCommand
    from bench.support.jdbc.spark_jdbc import SparkJdbc
    from holdfast.postgresql.connection.server import PostgresServer

LOAD = "holdfast restore, load alone"
UNCOMPARED = "holdfast restore, without its comparison"
JOB = "holdfast restore"
WHOLE = "holdfast restore, whole command"
PG_RESTORE = "pg_restore -j2"
JDBC = "Spark JDBC writer, load alone"
JDBC_KEYED = "Spark JDBC writer, then key and statistics"
JDBC_WHOLE = "Spark JDBC writer, whole command"

_TARGET = "bench_target"


class Restores:
    """Takes the times of one round; every way has a database of its own, which is dropped afterwards.

    :param rows: how many must come back.
    """

    def __init__(self, server: PostgresServer, rows: int, holdfast: HoldfastCommand, jdbc: SparkJdbc) -> None:
        self._server = server
        self._rows = rows
        self._holdfast = holdfast
        self._jdbc = jdbc

    def holdfast(self, folder: Path) -> Times:
        """Restore the archive: schema, rows, key, statistics, and the comparison with the archive."""
        with self._target(JOB):
            measured = self._holdfast.restore(folder / "archive", _TARGET)
        # Creating the table is in it: Spark tasks have no record at the very moment when they begin.
        load = measured.between("creating tables", "building indexes and constraints")
        compared = measured.between("comparing with the archive", "refreshing views and statistics")
        return {LOAD: load, UNCOMPARED: measured.job - compared, JOB: measured.job, WHOLE: measured.whole}

    def pg_restore(self, folder: Path) -> Times:
        """Restore pg_dump's directory by two jobs; it makes no statistics of its own and compares nothing."""
        program = [str(self._server.programs / "pg_restore"), "--dbname", self._server.url(_TARGET), "-j2"]
        with self._target(PG_RESTORE):
            done = run([*program, "--exit-on-error", str(folder / "directory")], {"PGPASSWORD": self._server.password})
        return {PG_RESTORE: done.seconds}

    def jdbc(self, folder: Path) -> Times:
        """Append Spark's Parquet files to a table that has no key yet, which is kindest; then add the key."""
        with self._target(JDBC):
            workload.create_table(self._server, _TARGET)
            done = self._jdbc.write(self._server, _TARGET, workload.TABLE, files=folder / "parquet")
            started = time.monotonic()
            workload.add_key(self._server, _TARGET)
            keyed = time.monotonic() - started
        return {JDBC: done.seconds, JDBC_KEYED: done.seconds + keyed, JDBC_WHOLE: done.whole}

    @contextmanager
    def _target(self, name: str) -> Iterator[None]:
        """Give an empty database; check its rows at the end and drop it."""
        workload.create_database(self._server, _TARGET)
        try:
            yield
            check_rows(name, workload.count(self._server, _TARGET), self._rows)
        finally:
            workload.drop_database(self._server, _TARGET)
