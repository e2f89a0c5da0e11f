"""Backup and restore of one large table: ours beside raw COPY, pg_dump, and Spark's JDBC."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.backup_restore import backups, hashes, many_tables, restores
from bench.backup_restore.backups import Backups
from bench.backup_restore.many_tables import ManyTables
from bench.backup_restore.restores import Restores
from bench.backup_restore.results import Results
from bench.support import machine, workload
from bench.support.command import say
from bench.support.figures import Comparison, collect
from bench.support.holdfast_command import HoldfastCommand
from bench.support.jdbc.spark_jdbc import PARTITIONS, SparkJdbc
from bench.support.memory import MIB, Memory, WorkerMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.backup_restore.hashes import Rate
    from bench.support.figures import Times
    from holdfast.postgresql.connection.server import PostgresServer

LARGE_ROWS = 40
LARGE_VALUE = 64 * MIB

COMPARISONS = (
    Comparison("backup against Spark JDBC to Parquet", backups.JOB, backups.JDBC, 1.7),
    Comparison("the same, whole commands with Spark's start", backups.WHOLE, backups.JDBC_WHOLE),
    Comparison("backup against COPY TO STDOUT, 2 streams", backups.JOB, backups.COPY_2, 0.40),
    Comparison("backup against COPY TO STDOUT, 1 stream", backups.JOB, backups.COPY_1),
    Comparison("backup against pg_dump -Fd -Z0 -j2", backups.JOB, backups.DIRECTORY, 0.8),
    Comparison("backup against pg_dump -Fc", backups.JOB, backups.CUSTOM),
    Comparison("restore, load alone, against Spark's JDBC writer", restores.LOAD, restores.JDBC, 4),
    Comparison("restore against Spark's JDBC writer, then key and statistics", restores.JOB, restores.JDBC_KEYED),
    Comparison("the whole command against the writer's, which makes no key", restores.WHOLE, restores.JDBC_WHOLE),
    Comparison(
        "restore, without its comparison, against pg_restore -j2", restores.UNCOMPARED, restores.PG_RESTORE, 1.0
    ),
    Comparison("restore, compared with the archive, against pg_restore -j2", restores.JOB, restores.PG_RESTORE),
    Comparison("backup of small tables against pg_dump -Fd -j2", many_tables.JOB, many_tables.DIRECTORY, 0.5),
    Comparison("the same, whole commands", many_tables.WHOLE, many_tables.DIRECTORY),
)

NOTES = (
    "All ways ran once in each round, one after the other, against the same server on the same machine; before each, "
    "a checkpoint and a sync took away what the one before had left to write. A round's restores read what its "
    "backups wrote. Each way was checked to bring every row.",
    "`holdfast backup` is the job's own time from the run's records: from the moment Spark has started, through "
    "schema, rows with their content hash and checksum, to the commit; the command has taken the snapshot before, in "
    "a few tenths of a second, and what workers import is imported while Java starts. It is compared with Spark JDBC "
    "to Parquet without Spark's start as well: from the first read to the last write. The whole commands are from "
    "start to end, ours with locks and the command's own start.",
    "`COPY TO STDOUT` is psql's `\\copy` to `/dev/null`, in text; two streams read one half of the pages each. "
    "pg_dump's two jobs cannot share one table.",
    f"Spark's reader: {PARTITIONS} ranges of the key on `local[*]`, fetchsize 10000, zstd at level 1 as ours. Its "
    "writer: batchsize 10000, reWriteBatchedInserts, a table without a key. 2 GB for its JVM; the driver's package "
    "was fetched before. The reader was tried with 2, 4, 8 and 16 ranges, twice each, on a machine that was busy with "
    "other work: they differed by less than the two tries of one did.",
    "The load average counts the bench itself and whatever else ran on the machine: rounds that were disturbed are "
    "kept, and show in the worst times.",
    "`holdfast restore` is from the moment Spark has started: tables, rows, key, statistics, and the comparison of "
    "count and content hash that no other way makes; `load alone` ends before the comparison and the key, and "
    "includes creating the table. pg_restore makes the key and no statistics.",
    f"The small tables have {many_tables.ROWS} rows each, four columns and a key; pg_dump compresses its files there, "
    "as it does by itself.",
    "The content hash is taken of the large table by one session without parallel workers, and by one process of what "
    "two of its files hold, which is in memory by then.",
    "Memory is the kernel's own high-water mark (VmHWM) of each Python worker of Spark, shared libraries included, in "
    "runs of their own that were not timed.",
)


def measure(rows: int, rounds: int, *, tables: int, large_rows: int, large_value: int) -> Results:
    """Measure everything and clean up, whatever happens.

    :param tables: small ones, in a database of their own.
    :param large_rows: in the table of large values; `large_value` is the size of each in bytes.
    :raises ProgramError: a way failed or did not bring every row.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    with _work_folder() as work, workload.server() as server:
        say("fetching the JDBC driver")
        jdbc = SparkJdbc(work)
        jdbc.fetch_driver()
        say(f"making a table of {rows:,} rows")
        facts = workload.create_source(server, rows)
        command = HoldfastCommand(server)
        out = Backups(server, facts, command, jdbc)
        back = Restores(server, rows, command, jdbc)
        say(f"making {tables:,} tables of {many_tables.ROWS} rows")
        many = ManyTables(server, tables, command)
        ways = [out.holdfast, out.copy_1, out.jdbc, out.copy_2, out.pg_dump_directory, out.pg_dump_custom]
        ways += [back.holdfast, back.pg_restore, back.jdbc, many.holdfast, many.pg_dump]
        times: list[Times] = []
        loads: list[float] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            loads.append(machine.load())
            times.append(_round(server, work / f"round-{number}", ways))
        say("hashing")
        rates = _rates(server, command, work / "hashes", rounds)
        memory = [
            *_memory(server, command, work / "many-rows", workload.SOURCE, f"{rows:,} rows", 0),
            *_large_values(server, command, work / "large-values", large_rows, large_value),
        ]
        return Results(
            date=date,
            rows=rows,
            size=facts.size,
            machine=machine.facts(server),
            settings=server.settings,
            loads=loads,
            series=collect(times),
            stored=out.stored,
            comparisons=COMPARISONS,
            memory=memory,
            rates=rates,
            tables=tables,
            small=many_tables.SERIES,
        )


@contextmanager
def _work_folder() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _round(server: PostgresServer, folder: Path, ways: Sequence[Callable[[Path], Times]]) -> Times:
    """Let every way have its turn; what they wrote is removed afterwards."""
    folder.mkdir()
    times: Times = {}
    for way in ways:
        _settle(server)
        found = way(folder)
        say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()))
        times |= found
    shutil.rmtree(folder)
    return times


def _settle(server: PostgresServer) -> None:
    """Have everything written that others left: nobody should wait for their bytes."""
    workload.settle(server)
    os.sync()


def _rates(server: PostgresServer, command: HoldfastCommand, folder: Path, tries: int) -> list[Rate]:
    command.init(folder)
    command.backup(folder, workload.SOURCE)
    found = hashes.measure(server, folder, tries)
    shutil.rmtree(folder)
    return found


def _large_values(
    server: PostgresServer, command: HoldfastCommand, folder: Path, rows: int, value: int
) -> Iterator[Memory]:
    """Measure a table of a few large values."""
    say(f"making {rows} values of {value // MIB} MiB")
    workload.create_large(server, rows, value)
    yield from _memory(server, command, folder, workload.LARGE, f"{rows} values of {value // MIB} MiB", value)


def _memory(
    server: PostgresServer, command: HoldfastCommand, folder: Path, database: str, what: str, largest_value: int
) -> Iterator[Memory]:
    """Back up and restore a database, and yield what the workers held."""
    target = f"{database}_back"
    command.init(folder)
    workload.create_database(server, target)
    for operation, run, place in (
        ("backup", command.backup, database),
        ("restore", command.restore, target),
    ):
        workers = WorkerMemory()
        run(folder, place, workers)
        found = Memory(f"{operation} of {what}", workers.most, largest_value)
        say(f"  {found.what}: {found.peak / 1e6:,.0f} MB at most, {found.limit / 1e6:,.0f} MB allowed")
        yield found
    workload.drop_database(server, target)
    shutil.rmtree(folder)
