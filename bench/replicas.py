"""`python -m bench.replicas`: how work on an archive grows with the number of its replicas."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.scale import fit
from bench.silent_replica import back_up
from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.timed import Timed, as_json, as_markdown
from holdfast.archive import Archive
from holdfast.replication.log.replicas import replica
from holdfast.replication.log.status import status
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import membership
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.membership import begin_membership as first_replica
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

COUNTS = (2, 20, 200)

STATUS, SYNC, BACKUP, ENTRY, READ = (
    "status of all",
    "a sync of nothing on one",
    "a backup's commit by one",
    "one entry executed by another",
    "opening a sequential read",
)
WORKS = (STATUS, SYNC, BACKUP, ENTRY, READ)


def _name(work: str, count: int) -> str:
    return f"{work}, {count} replicas"


COMPARISONS = tuple(
    Comparison(f"{work}: {COUNTS[-1]} replicas against {COUNTS[0]}", _name(work, COUNTS[-1]), _name(work, COUNTS[0]))
    for work in WORKS
)

NOTES = (
    "Replicas are folders of this machine, the coordination store is SQLite. All of them are members and can be read. "
    "A commit, a sync and a sequential read ask every one of them whether it contradicts the log, side by side.",
    "Each time is that of one call in a process that has everything imported.",
)


@dataclass(frozen=True)
class Replicas(Timed):
    """Times of work on archives with few and with many replicas."""

    comparisons = COMPARISONS
    notes = NOTES

    @property
    def title(self) -> str:
        """Return what was measured."""
        return "Work beside many replicas"

    @property
    def details(self) -> str:
        """Return the exponents."""
        return "Exponents of the growth: " + "; ".join(f"{work} {self._exponent(work):.2f}" for work in WORKS) + "."

    def _exponent(self, work: str) -> float:
        return fit([(count, self.series[_name(work, count)].best) for count in COUNTS])


def main() -> int:
    """Run the bench; 0 when all was measured, 1 when something failed."""
    given = new_parser("bench.replicas", "Measure how work grows with the number of replicas.").parse_args()
    return measure_and_report(
        "replicas", given.results, lambda: measure(given.rounds), as_json=as_json, as_markdown=as_markdown
    )


def measure(rounds: int) -> Replicas:
    """Make archives with few and with many replicas, and measure each in turn."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = [{} for _ in range(rounds)]
    loads = [0.0] * rounds
    for count in COUNTS:
        say(f"an archive with {count} replicas")
        with (
            tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
            CoordinationStore.open(f"sqlite:///{folder}/coordination.db") as store,
        ):
            archive = _begun(store, Path(folder), count)
            for number in range(rounds):
                loads[number] = machine.load()
                found = {_name(work, count): seconds for work, seconds in _round(store, archive, Path(folder))}
                say("  " + ", ".join(f"{name} {seconds:.3f} s" for name, seconds in found.items()))
                times[number] = {**times[number], **found}
    return Replicas(date, machine.host(), loads, collect(times))


def _begun(store: CoordinationStore, folder: Path, count: int) -> str:
    near = open_store(str(folder / "r0"))
    archive = Archive.create(near, name="bench").identity.id
    first_replica(store, near, "r0")
    back_up(store, near.url)
    for number in range(1, count):
        membership.add(store, archive, f"r{number}", str(folder / f"r{number}"))
        recover(store, archive, f"r{number}")
    return archive


def _round(store: CoordinationStore, archive: str, folder: Path) -> Iterator[tuple[str, float]]:
    near = str(folder / "r0")

    def sync(name: str) -> object:
        return sync_replica(store, archive, store.run(lambda c: replica(c, archive, name)), wait=0)

    works: dict[str, Callable[[], object]] = {
        STATUS: lambda: store.run(lambda c: status(c, archive)),
        SYNC: lambda: sync("r0"),
        BACKUP: lambda: back_up(store, near),
        ENTRY: lambda: sync("r1"),
        READ: lambda: open_to_read(open_store(near), "sequential", address=store.url),
    }
    for name, work in works.items():
        began = time.perf_counter()
        work()
        yield name, time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
