"""`python -m bench.changes`: measure backups of changes and restores to a moment; report in bench/results/."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.changes import catch_up, streams, to_moments
from bench.changes.streams import ChangeStream
from bench.changes.to_moments import Moments
from bench.support import machine, workload
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Ratio, Series, collect, compare
from bench.support.holdfast_command import HoldfastCommand
from bench.support.report import ratio_row, table, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.changes.catch_up import CaughtUp
    from bench.support.figures import Times
    from holdfast.postgresql.connection.server import PostgresServer

COMPARISONS = (*streams.COMPARISONS, *to_moments.COMPARISONS)

NOTES = (
    "Each round makes a database, an archive and its stream, then the changes, in transactions of 500,000 rows. All "
    "ways read the same log, one after the other, the backup last: it lets go of it. pg_recvlogical moves its slot and "
    "has a copy. Before each way a checkpoint took away what the one before had left to write. In the second stream's "
    "log half of the rows are of a table that is not published.",
    "`holdfast backup --kind changes` is the job's own time from the run's records, from the moment Spark has started: "
    "schema, windows of 256 MiB of log, two at a time, files, commits, and letting go of the log. `decoded and "
    "written` is one window, in one process without Spark.",
    "Ours gives the session that decodes 256 MB for transactions; PostgreSQL's own 64 MB make the server write those "
    "of 500,000 rows to its disk. `count(*)` is shown with both, and is compared with its own default.",
    "MB/s are of the log.",
    "Temporary disk is what was in the server's `pgsql_tmp` and in the spill files of its slots, looked at ten times a "
    "second. Memory is the kernel's high-water mark (VmHWM) of the worker and of the driver's Python.",
    f"Restores to a moment: {to_moments.TABLES} tables of {to_moments.ROWS:,} rows, of each of which every fourth row "
    "is updated; the same log is archived in about 1, 10 and 100 blocks (the size of a window is set for that), and "
    "restored by the command; the times are the job's own. `the rows alone` is of a full backup after "
    "the changes.",
    "The load average counts the bench itself and whatever else ran on the machine.",
)


@dataclass(frozen=True)
class Found:
    """One run.

    :param wal: bytes of the log and rows of a stream's series, by name.
    :param blocks: how many blocks of changes the archives of the restores had, by the name of their series.
    """

    date: str
    machine: Mapping[str, str]
    settings: Mapping[str, str]
    loads: Sequence[float]
    series: Mapping[str, Series]
    wal: Mapping[str, tuple[int, int]]
    blocks: Mapping[str, int]
    caught_up: CaughtUp

    @property
    def ratios(self) -> list[Ratio]:
        """Return all comparisons."""
        return [compare(each, self.series) for each in COMPARISONS]

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        return [each.comparison.what for each in self.ratios if each.reached is False] + self.caught_up.missed


def measure(rows: int, rounds: int, *, many: int) -> Found:
    """Measure everything and clean up, whatever happens.

    :param rows: changes of a stream; `many` of the one that is caught up with.
    :raises ProgramError: a way failed or did not bring every row.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, workload.server() as server:
        work, command = Path(name), HoldfastCommand(server)
        times: list[Times] = []
        loads: list[float] = []
        wal: dict[str, tuple[int, int]] = {}
        with Moments(server, command, work / "moments") as moments:
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                loads.append(machine.load())
                times.append(_restores(server, moments))
        for number, each in enumerate(times):
            for mixed in (False, True):
                say(f"round {number + 1} of {rounds}: a stream of {rows:,} changes")
                with ChangeStream(server, command, work / f"stream-{number}-{mixed:d}", rows, mixed=mixed) as stream:
                    each |= _round(server, work, stream)
                    wal |= stream.measured
        say(f"a stream of {many:,} changes")
        caught_up = catch_up.measure(server, command, work / "many", many)
        return Found(
            date=date,
            machine=machine.facts(server),
            settings=server.settings,
            loads=loads,
            series=collect(times),
            wal=wal,
            blocks=moments.blocks,
            caught_up=caught_up,
        )


def _restores(server: PostgresServer, moments: Moments) -> Times:
    times: Times = {}
    for way in moments.ways:
        workload.settle(server)
        times |= _told(way())
    return times


def _round(server: PostgresServer, work: Path, stream: ChangeStream) -> Times:
    times: Times = {}
    for way in stream.ways:
        workload.settle(server)
        with tempfile.TemporaryDirectory(dir=work) as folder:
            times |= _told(way(Path(folder)))
    return times


def _told(found: Times) -> Times:
    say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()))
    return found


def as_markdown(found: Found) -> str:
    """Return everything as Markdown."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Found) -> Iterator[str]:
    yield "# Backups of changes, and restores to a moment"
    loads = ", ".join(f"{load:.1f}" for load in found.loads)
    yield from ("", f"{found.date}, {len(found.loads)} rounds. Load average before each round: {loads}.")
    yield from ("", "## How many times faster", "")
    yield from ("Of the best times; in brackets the least and the most of the single rounds.", "")
    yield from table(["what", "times", "rounds", "wanted"], [ratio_row(each) for each in found.ratios])
    yield from ("", "## Times", "")
    head = ["what", "best s", "median s", "worst s", "rows/s", "MB/s of the log", "blocks of changes"]
    yield from table(head, [_series_row(each, found) for each in found.series.values()])
    done = found.caught_up
    yield from ("", f"## Catching up with {done.rows:,} changes", "")
    yield (
        f"{done.seconds:.1f} s, {done.rows / done.seconds:,.0f} rows/s, {done.wal / 1e6:,.0f} MB of log at "
        f"{done.wal / 1e6 / done.seconds:,.0f} MB/s, {done.commits} commits."
    )
    yield ""
    limits = [(f"memory of {each.what}", each.peak, each.limit, each.reached) for each in done.memory]
    limits.append(("temporary disk of the source", done.disk, done.most_disk, done.disk <= done.most_disk))
    yield from table(
        ["what", "peak MB", "limit MB", ""],
        [[what, f"{peak / 1e6:,.0f}", f"{limit / 1e6:,.0f}", verdict(ok)] for what, peak, limit, ok in limits],
    )
    yield from ("", "## How it was measured", "")
    yield from (f"- {note}" for note in NOTES)
    yield from ("", "## Where", "")
    yield from table(["", ""], [[name, value] for name, value in found.machine.items()])
    settings = ", ".join(f"`{name} = {value}`" for name, value in found.settings.items())
    yield from ("", f"PostgreSQL's settings beside its defaults: {settings}.")


def _series_row(series: Series, found: Found) -> list[str]:
    size, rows = found.wal.get(series.name, (0, 0))
    return [
        series.name,
        f"{series.best:.2f}",
        f"{series.median:.2f}",
        f"{series.worst:.2f}",
        f"{rows / series.best:,.0f}" if rows else "",
        f"{size / 1e6 / series.best:,.0f}" if size else "",
        str(found.blocks.get(series.name, "")),
    ]


def as_json(found: Found) -> str:
    """Return everything as JSON."""
    return json.dumps({**asdict(found), "ratios": [asdict(each) for each in found.ratios]}, indent=1) + "\n"


def main() -> int:
    """Run the bench; 0 when all targets were reached, 1 when one was missed or something failed."""
    parser = new_parser("bench.changes", "Measure backups of changes.")
    parser.add_argument("--rows", type=int, default=2_000_000, help="changes of a stream")
    parser.add_argument("--many", type=int, default=10_000_000, help="changes to catch up with")
    given = parser.parse_args()
    return measure_and_report(
        "changes",
        given.results,
        lambda: measure(given.rows, given.rounds, many=given.many),
        as_json=as_json,
        as_markdown=as_markdown,
    )


if __name__ == "__main__":
    sys.exit(main())
