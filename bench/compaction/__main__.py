"""`python -m bench.compaction`: measure compaction and consolidation; report in bench/results/."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from bench.compaction.paper_archive import PaperArchive
from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.forked import run_forked
from bench.support.holdfast_command import working_seconds
from bench.support.jdbc.spark_jdbc import spark_environment
from bench.support.memory import WorkerMemory
from bench.support.processes import ProgramError, run
from bench.support.timed import Timed, as_json, as_markdown
from holdfast.archive.format.runs import RunRecord
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

JOIN, SNAPSHOT = "joining changes", "making a snapshot"
COMMAND = "holdfast compact{}, the command, Spark's start included"
JOB = "holdfast compact{}, the job in a Spark that had started"
DUCKDB = "one DuckDB process, {}"
OPTION = {JOIN: "", SNAPSHOT: " --consolidate"}

COMPARISONS = tuple(
    Comparison(f"{what}, {how}, against one DuckDB process", name.format(OPTION[what]), DUCKDB.format(what), target)
    for what in (JOIN, SNAPSHOT)
    for how, name, target in (("Spark's start excluded", JOB, 1.0), ("Spark's start included", COMMAND, None))
)

TASK_BYTES = 700 * 10**6
"""That a task may hold."""

NOTES = (
    "One table: a whole number as its key, a time, a numeric(12,2) with its sidecar, and a text of 32 characters. The "
    "changes are updates of rows drawn at random, in blocks of as many; each holds all of its row. What is "
    "measured is made anew for each round, and was just written, so that reading is from the memory of the system.",
    "Ours joins all blocks, sorted by key and position, into as few as the default policy has (of 512 MiB), with a "
    "commit for each; and it makes a full snapshot of the older one and the changes, from blocks that are not joined. "
    "It checks the SHA-256 of each file that it reads, and takes that of each that it writes; of a snapshot also the "
    "content hash of every row.",
    "DuckDB does the same with the files alone: `copy (… order by id, __lsn, __seq)`, and the snapshot's rows without "
    "those that were changed and the last change of each; zstd, all cores, and as much memory as it likes. It checks "
    "and hashes nothing.",
    "`the job` is the time from the run's records, from the moment Spark has started; `the command` is all of it.",
    "The load average counts the bench itself and whatever else ran on the machine.",
)

Times = dict[str, float]


@dataclass(frozen=True)
class Found(Timed):
    """:param size: stored bytes of the changes before.
    :param held: the most bytes that a task held, by what was done.
    """

    comparisons = COMPARISONS
    notes = NOTES

    changes: int
    rows: int
    blocks: int
    size: int
    held: Mapping[str, int]

    @property
    def title(self) -> str:
        """Return what was compacted."""
        return f"Compaction of {self.changes:,} changes, and a snapshot of {self.rows:,} rows and these"

    @property
    def details(self) -> str:
        """Return in what the changes were."""
        held = ", ".join(f"{size / 1e6:,.0f} MB {what}" for what, size in self.held.items())
        return (
            f"The changes are in {self.blocks} blocks, {self.size / 1e6:,.0f} MB. A task held at most: {held} "
            f"(wanted: < {TASK_BYTES / 1e6:,.0f} MB)."
        )

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        return super().missed + [f"memory of {what}" for what, size in self.held.items() if size >= TASK_BYTES]


def measure(changes: int, rows: int, blocks: int, rounds: int) -> Found:
    """Measure everything and clean up, whatever happens.

    :raises ProgramError: a way failed or did not keep every row.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Times] = []
    loads: list[float] = []
    held = dict.fromkeys((SNAPSHOT, JOIN), 0)
    size = 0
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
            made = PaperArchive.make(Path(name) / "archive", changes=changes, rows=rows, blocks=blocks)
            size = made.size
            loads.append(machine.load())
            # The snapshot first: joining the blocks leaves others.
            ways: list[Callable[[], Times]] = [
                partial(_in_duckdb, SNAPSHOT, made.snapshot_query, made.expected_rows, Path(name)),
                partial(_in_duckdb, JOIN, made.join_query, changes, Path(name)),
                partial(_by_command, SNAPSHOT, made, made.expected_rows, held),
                partial(_by_command, JOIN, made, changes, held),
            ]
            found: Times = {}
            for way in ways:
                found |= _told(way())
            times.append(found)
    facts = machine.host() | {"DuckDB": duckdb.__version__}
    return Found(date, facts, loads, collect(times), changes, rows, blocks, size, held)


def _told(found: Times) -> Times:
    say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()))
    return found


def _by_command(what: str, made: PaperArchive, expected: int, held: dict[str, int]) -> Times:
    """Let the command do it, and note the most that a task has held by now."""
    store = open_store(str(made.folder))
    before = {found.key for found in store.list("runs/").objects}
    # Who makes a snapshot is to join nothing: of so many blocks there is no group.
    fewest = "2" if what == JOIN else str(made.blocks + 1)
    options = ["--json", "--min-blocks", fewest, *OPTION[what].split()]
    program = Path(sys.executable).with_name("holdfast")
    memory = WorkerMemory()
    done = run([program, "compact", made.folder, *options], spark_environment(), watch=memory)
    held[what] = max(held[what], memory.most)
    result = json.loads(done.output)
    counted = [each["changes"] for each in result["joined"]] or [each["rows"] for each in result["consolidated"]]
    _check(what, sum(counted), expected)
    keys = [found.key for found in store.list("runs/").objects if found.key not in before]
    seconds = working_seconds([RunRecord.from_bytes(store.get(key), key) for key in keys])
    return {JOB.format(OPTION[what]): seconds, COMMAND.format(OPTION[what]): done.seconds}


def _in_duckdb(what: str, query: str, expected: int, folder: Path) -> Times:
    """Let a process of its own write the rows of a query."""
    target = folder / "duckdb.parquet"

    def work(meet: Callable[[], None]) -> float:
        began = time.monotonic()
        with duckdb.connect(config={"temp_directory": str(folder / "spill")}) as connection:
            connection.execute(f"copy ({query}) to '{target}' (format parquet, compression zstd)")
        return time.monotonic() - began

    (seconds,) = run_forked([work])
    with duckdb.connect() as connection:
        (kept,) = connection.execute(f"select count(*) from '{target}'").fetchall()[0]
    _check(what, kept, expected)
    target.unlink()
    return {DUCKDB.format(what): seconds}


def _check(what: str, kept: int, expected: int) -> None:
    if kept != expected:
        raise ProgramError(f"{what}: {kept} rows are left of {expected}")


def main() -> int:
    """Run the bench; 0 when it is done, 1 when something failed."""
    parser = new_parser("bench.compaction", "Measure compaction and consolidation.")
    parser.add_argument("--changes", type=int, default=20_000_000, help="in all blocks")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the snapshot")
    parser.add_argument("--blocks", type=int, default=64, help="of changes")
    given = parser.parse_args()
    return measure_and_report(
        "compaction",
        given.results,
        lambda: measure(given.changes, given.rows, given.blocks, given.rounds),
        as_json=as_json,
        as_markdown=as_markdown,
    )


if __name__ == "__main__":
    sys.exit(main())
