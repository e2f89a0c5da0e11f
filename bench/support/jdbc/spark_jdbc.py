"""Spark's own way: its JDBC reader and writer, with the options that their users are advised to set.

The driver comes from Maven Central through Spark's package mechanism, once, before anything is timed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support.processes import ProgramError, run
from holdfast.operations import job_process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.connection.server import PostgresServer

DRIVER = "org.postgresql:postgresql:42.7.8"
PARTITIONS = 8
MASTER = "local[*]"
CONF = {
    "spark.driver.memory": "2g",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",  # as ours; Spark's default is 3
}


@dataclass(frozen=True)
class Submitted:
    """How long an application took.

    :param seconds: its work, from the first read to the last write, in a Spark that had started.
    :param whole: the command, from start to end.
    """

    seconds: float
    whole: float
    partitions: int | None


class SparkJdbc:
    """Submits the two applications.

    :param work: folder for Spark's packages and other files of its own.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._jars: list[Path] = []

    def fetch_driver(self) -> None:
        """Let Spark fetch the JDBC driver.

        :raises ProgramError: it could not.
        """
        packages = self._work / "packages"
        self._submit(
            "start_only.py", [], {"spark.jars.packages": DRIVER, "spark.jars.ivy": str(packages)}, environment={}
        )
        self._jars = sorted((packages / "jars").glob("*.jar"))
        if not self._jars:
            raise ProgramError(f"Spark did not fetch {DRIVER}")

    def read(self, server: PostgresServer, database: str, table: str, *, upper: int, target: Path) -> Submitted:
        """Copy a table into Parquet files in `target`, in ranges of its key `id` from 1 to `upper`."""
        arguments = [*self._place(server, database, table), "--key", "id", "--upper", str(upper)]
        arguments += ["--partitions", str(PARTITIONS), "--target", str(target)]
        return self._measure("jdbc_to_parquet.py", arguments, server)

    def write(self, server: PostgresServer, database: str, table: str, *, files: Path) -> Submitted:
        """Append the Parquet files in `files` to a table."""
        arguments = [*self._place(server, database, table, "?reWriteBatchedInserts=true"), "--files", str(files)]
        return self._measure("parquet_to_jdbc.py", arguments, server)

    @staticmethod
    def _place(server: PostgresServer, database: str, table: str, options: str = "") -> list[str]:
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/{database}{options}"
        return ["--url", url, "--user", server.user, "--table", table]

    def _measure(self, application: str, arguments: Sequence[str], server: PostgresServer) -> Submitted:
        jars = ",".join(map(str, self._jars))
        whole, output = self._submit(
            application, arguments, {"spark.jars": jars}, environment={"PGPASSWORD": server.password}
        )
        figures = json.loads(output.splitlines()[-1])
        return Submitted(figures["seconds"], whole, figures.get("partitions"))

    def _submit(
        self, application: str, arguments: Sequence[str], conf: dict[str, str], environment: dict[str, str]
    ) -> tuple[float, str]:
        environment = {**spark_environment(), **environment}
        binary = shutil.which("spark-submit", path=environment["PATH"])
        if binary is None:
            raise ProgramError("spark-submit was not found: install pyspark")
        command = [binary, "--master", MASTER]
        for name, value in {**job_process.SPARK_CONF, **CONF, "spark.local.dir": str(self._work), **conf}.items():
            command += ["--conf", f"{name}={value}"]
        done = run([*command, str(Path(__file__).with_name(application)), *arguments], environment)
        return done.seconds, done.output


def spark_environment() -> dict[str, str]:
    """Return an environment in which Spark starts with this Python."""
    python = Path(sys.executable)
    return {
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
