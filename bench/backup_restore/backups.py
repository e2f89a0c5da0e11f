"""The ways to get a table out of PostgreSQL. Each checks that it got every row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.dataset

from bench.support.processes import check_rows, run, run_together
from bench.support.workload import SOURCE, TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from bench.support.figures import Times
    from bench.support.holdfast_command import HoldfastCommand
    from bench.support.jdbc.spark_jdbc import SparkJdbc
    from bench.support.workload import TableFacts
    from holdfast.postgresql.connection.server import PostgresServer

JOB = "holdfast backup"
WHOLE = "holdfast backup, whole command"
COPY_1 = "COPY TO STDOUT, 1 stream"
COPY_2 = "COPY TO STDOUT, 2 streams"
DIRECTORY = "pg_dump -Fd -Z0 -j2"
CUSTOM = "pg_dump -Fc"
JDBC = "Spark JDBC to Parquet"
JDBC_WHOLE = "Spark JDBC to Parquet, whole command"


class Backups:
    """Takes the times of one round; what it writes stays in `folder` for the restores of the same round.

    :param stored: bytes that each way left on disk, by name.
    """

    def __init__(self, server: PostgresServer, facts: TableFacts, holdfast: HoldfastCommand, jdbc: SparkJdbc) -> None:
        self._server = server
        self._facts = facts
        self._holdfast = holdfast
        self._jdbc = jdbc
        self.stored: dict[str, int] = {}

    def holdfast(self, folder: Path) -> Times:
        """Back up into a new archive."""
        archive = folder / "archive"
        self._holdfast.init(archive)
        measured = self._holdfast.backup(archive, SOURCE)
        self._check(JOB, measured.rows)
        self.stored[JOB] = measured.stored
        return {JOB: measured.job, WHOLE: measured.whole}

    def copy_1(self, folder: Path) -> Times:
        """Read everything by one COPY and throw it away."""
        return self._copy(COPY_1, [""])

    def copy_2(self, folder: Path) -> Times:
        """Read one half of the pages by each of two."""
        middle = f"'({self._facts.pages // 2},0)'::tid"
        return self._copy(COPY_2, [f"where ctid < {middle}", f"where ctid >= {middle}"])

    def pg_dump_directory(self, folder: Path) -> Times:
        """Dump into files without compression, by two jobs (a single table keeps only one of them busy)."""
        target = folder / "directory"
        done = run([*self._program("pg_dump"), "-Fd", "-Z0", "-j2", "-f", target], self._secret)
        self._check(DIRECTORY, sum(rows_of_data_file(path) for path in target.glob("[0-9]*.dat")))
        self.stored[DIRECTORY] = sum(path.stat().st_size for path in target.iterdir())
        return {DIRECTORY: done.seconds}

    def pg_dump_custom(self, folder: Path) -> Times:
        """Dump into one compressed file, as most people do."""
        target = folder / "custom.dump"
        done = run([*self._program("pg_dump"), "-Fc", "-f", target], self._secret)
        script = folder / "custom.sql"
        run([self._server.programs / "pg_restore", "--data-only", "-f", script, target], {})
        self._check(CUSTOM, rows_of_script(script))
        self.stored[CUSTOM] = target.stat().st_size
        target.unlink()
        script.unlink()
        return {CUSTOM: done.seconds}

    def jdbc(self, folder: Path) -> Times:
        """Read by Spark's JDBC reader and write Parquet with the same compression as ours."""
        target = folder / "parquet"
        done = self._jdbc.read(self._server, SOURCE, TABLE, upper=self._facts.rows, target=target)
        self._check(JDBC, pyarrow.dataset.dataset(target, format="parquet").count_rows())
        self.stored[JDBC] = sum(path.stat().st_size for path in target.glob("*.parquet"))
        return {JDBC: done.seconds, JDBC_WHOLE: done.whole}

    def _copy(self, name: str, conditions: list[str]) -> Times:
        # \copy, unlike COPY typed into psql, says how many rows came.
        copies = [f"\\copy (select * from {TABLE} {condition}) to '/dev/null'" for condition in conditions]
        done = run_together([[*self._program("psql"), "-X", "-c", each] for each in copies], self._secret)
        self._check(name, sum(int(re.findall(r"COPY (\d+)", each.output)[0]) for each in done))
        return {name: max(each.seconds for each in done)}

    def _program(self, name: str) -> list[str]:
        return [str(self._server.programs / name), "--dbname", self._server.url(SOURCE)]

    @property
    def _secret(self) -> dict[str, str]:
        return {"PGPASSWORD": self._server.password}

    def _check(self, name: str, rows: int) -> None:
        check_rows(name, rows, self._facts.rows)


def rows_of_data_file(path: Path) -> int:
    """Count the rows of a dump's data file, whose last line is the mark of its end."""
    with path.open("rb") as file:
        return sum(not line.startswith((b"\\.", b"\n")) for line in file)


def rows_of_script(path: Path) -> int:
    """Count the rows of the one COPY in a script."""
    rows, inside = 0, False
    with path.open("rb") as file:
        for line in file:
            if inside and line == b"\\.\n":
                break
            rows += inside
            inside = inside or line.startswith(b"COPY ")
    return rows
