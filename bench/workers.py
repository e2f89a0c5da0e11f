"""`python -m bench.workers`: a backup by two Spark workers beside the same by one; report in bench/results/."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.support import machine, workload
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.holdfast_command import working_seconds
from bench.support.jdbc.spark_jdbc import spark_environment
from bench.support.processes import check_rows, run
from bench.support.slow_link import Distance, slow_link
from bench.support.spark_cluster import running_cluster
from bench.support.timed import Timed, as_json, as_markdown
from bench.support.versitygw import running_versitygw
from holdfast.archive.format.runs import RunRecord
from holdfast.postgresql.snapshot.table_reader import PIECE_BYTES
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.support.spark_cluster import SparkCluster
    from bench.support.versitygw import S3Server
    from holdfast.postgresql.connection.server import PostgresServer

BUCKET = "workers"

SOURCE = Distance(latency=0.002, rate=4e6)
STORE = Distance(latency=0.02, rate=8e6)

FAR, HERE = "far away", "here"


def _name(where: str, workers: int) -> str:
    return f"{where}, {'two workers' if workers == 2 else 'one worker'}"


COMPARISONS = (
    Comparison("two workers against one, source and store far away", _name(FAR, 2), _name(FAR, 1), 1.6),
    Comparison("two workers against one, source and store on this machine", _name(HERE, 2), _name(HERE, 1), 1.0),
)

NOTES = (
    "A full backup of one table, by clusters of Spark's standalone mode with one worker, and with two; each worker has "
    f"one core. Both clusters are there all the time, and one of them has work. A task reads {PIECE_BYTES >> 20} MiB "
    "of the table.",
    f"Far away: each connection to the source carries {SOURCE.rate / 1e6:g} MB/s with {SOURCE.latency * 1e3:g} ms in "
    f"each direction, each to the S3 server {STORE.rate / 1e6:g} MB/s with {STORE.latency * 1e3:g} ms. Cores are idle "
    "then; what two workers save is waiting. Here: no delay, and the two cores of this machine have to carry "
    "PostgreSQL, the S3 server, the driver and both workers.",
    "Times are the job's own, from the moment Spark has started, to the commit. Each backup goes into a new archive "
    "and was checked to bring every row.",
)


@dataclass(frozen=True)
class Workers(Timed):
    """Times of backups by one worker and by two.

    :param size: bytes of the table's heap.
    """

    comparisons = COMPARISONS
    notes = NOTES

    rows: int
    size: int

    @property
    def title(self) -> str:
        """Return what was measured."""
        return "Two Spark workers beside one"

    @property
    def details(self) -> str:
        """Return how much was backed up."""
        return f"{self.rows:,} rows, {self.size / 1e6:.0f} MB."


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    parser = new_parser("bench.workers", "Measure a backup by two Spark workers beside one.")
    parser.add_argument("--rows", type=int, default=1_800_000, help="of the table")
    given = parser.parse_args()
    return measure_and_report(
        "workers", given.results, lambda: measure(given.rows, given.rounds), as_json=as_json, as_markdown=as_markdown
    )


def measure(rows: int, rounds: int) -> Workers:
    """Back up by one worker and by two, in turn."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with ExitStack() as stack:
        server = stack.enter_context(workload.server())
        say(f"making a table of {rows:,} rows")
        facts = workload.create_source(server, rows)
        s3 = stack.enter_context(running_versitygw())
        s3.make_bucket(BUCKET)
        clusters = {workers: stack.enter_context(running_cluster(workers=workers)) for workers in (1, 2)}
        here = _Way(server.port, s3.endpoint)
        far = _Way(
            stack.enter_context(slow_link(server.port, SOURCE)),
            f"http://127.0.0.1:{stack.enter_context(slow_link(urlsplit(s3.endpoint).port or 80, STORE))}",
        )
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            loads.append(machine.load())
            found: dict[str, float] = {}
            for where, way in ((FAR, far), (HERE, here)):
                for workers, cluster in clusters.items():
                    name = _name(where, workers)
                    archive = f"s3://{BUCKET}/{number}-{where.replace(' ', '-')}-{workers}"
                    found[name] = _backup(cluster, server, s3, way, archive, rows)
                    say(f"  {name}: {found[name]:.2f} s")
            times.append(found)
    return Workers(date, machine.host(), loads, collect(times), facts.rows, facts.size)


@dataclass(frozen=True)
class _Way:
    """Where source and store are reached.

    :param port: of the source.
    :param endpoint: of the store.
    """

    port: int
    endpoint: str


def _backup(cluster: SparkCluster, server: PostgresServer, s3: S3Server, way: _Way, archive: str, rows: int) -> float:
    """Back up into a new archive, and return the seconds of the job."""
    environment = {
        **spark_environment(),
        **cluster.environment,
        **s3.environment,
        "AWS_ENDPOINT_URL": way.endpoint,
        "PGPASSWORD": server.password,
    }
    holdfast = str(Path(sys.executable).with_name("holdfast"))
    run([holdfast, "init", archive], {**environment, "AWS_ENDPOINT_URL": s3.endpoint})
    source = server.url(workload.SOURCE).replace(f":{server.port}/", f":{way.port}/")
    done = run([holdfast, "backup", archive, "--source", source, "--kind", "full", "--json"], environment)
    check_rows(f"the backup into {archive}", json.loads(done.output)["rows"], rows)
    os.environ.update(s3.environment)
    store = open_store(archive)
    records = [RunRecord.from_bytes(store.get(found.key), found.key) for found in store.list("runs/").objects]
    return working_seconds(records)


if __name__ == "__main__":
    sys.exit(main())
