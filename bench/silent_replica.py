"""`python -m bench.silent_replica`: work beside a replica whose server is stopped; report in bench/results/."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support import machine
from bench.support.blocks import make_block
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.timed import Timed, as_json, as_markdown
from bench.support.versitygw import S3Server, running_versitygw
from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import write_bytes
from holdfast.replication.log import schema
from holdfast.replication.log.consistency_check import LIMIT_S
from holdfast.replication.log.replicas import replica
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import membership
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.membership import begin_membership as first_replica
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MORE = 1.3
"""Time allowed beside a stopped server, as a multiple of that beside one that answers."""

SYNC, BACKUP, READ = "a sync of nothing", "a backup's commit", "opening a sequential read"
WORKS = (SYNC, BACKUP, READ)


def _names(work: str) -> tuple[str, str, str, str]:
    return f"{work}, all answer", f"{work}, first beside it", f"{work}, later", f"{work}: what is allowed at first"


COMPARISONS = tuple(
    each
    for healthy, first, later, allowed in map(_names, WORKS)
    for each in (
        Comparison(f"{first}, against {MORE} times healthy and {LIMIT_S:g} s", first, allowed, 1.0),
        Comparison(f"{later}, against healthy", later, healthy, 1 / MORE),
    )
)

NOTES = (
    "Three replicas: two in folders, and one at an S3 server whose process is stopped (SIGSTOP): it takes connections "
    "and answers nothing. `first`: nobody has noticed yet. `later`: the coordination store knows.",
)


@dataclass(frozen=True)
class Found(Timed):
    """Times beside a replica that answers and one that does not."""

    comparisons = COMPARISONS
    notes = NOTES

    @property
    def title(self) -> str:
        """Return what was measured, in words."""
        return "Replicas beside one that does not answer"


def measure(rounds: int) -> Found:
    """Measure everything and clean up, whatever happens."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with running_versitygw() as server, tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        os.environ.update(server.environment)
        server.make_bucket("replicas")
        with CoordinationStore.open(f"sqlite:///{folder}/coordination.db") as store:
            archive = _begun(store, Path(folder))
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                loads.append(machine.load())
                times.append(_round(store, archive, Path(folder), server))
    return Found(date, machine.host(), loads, collect(times))


def _begun(store: CoordinationStore, folder: Path) -> str:
    near = open_store(str(folder / "near"))
    archive = Archive.create(near, name="bench").identity.id
    first_replica(store, near, "near")
    for name, url in (("far", str(folder / "far")), ("off", "s3://replicas/off")):
        membership.add(store, archive, name, url)
        recover(store, archive, name)
    return archive


def _round(store: CoordinationStore, archive: str, folder: Path, server: S3Server) -> dict[str, float]:
    near = str(folder / "near")
    works: dict[str, Callable[[], object]] = {
        SYNC: lambda: sync_replica(store, archive, store.run(lambda c: replica(c, archive, "near")), wait=0),
        BACKUP: lambda: back_up(store, near),
        READ: lambda: open_to_read(open_store(near), "sequential", address=store.url),
    }
    taken: dict[str, float] = {}
    for name, work in works.items():
        healthy, first, later, allowed = _names(name)
        _forget_silence(store)
        taken[healthy] = _timed(work)
        with _stopped(server):
            taken[first] = _timed(work)
            taken[later] = _timed(work)
        taken[allowed] = MORE * taken[healthy] + LIMIT_S
        say(f"  {name}: {taken[healthy]:.2f} s, {taken[first]:.2f} s, {taken[later]:.2f} s")
    return taken


def _forget_silence(store: CoordinationStore) -> None:
    store.run(lambda c: c.execute(schema.replicas.update().values(silent_since=0.0, ask_again_at=0.0)))


def back_up(store: CoordinationStore, url: str) -> None:
    """Commit a backup through a replica, of a block of no rows."""
    archive = ReplicatedArchive.begin(open_store(url), store)
    identity = os.urandom(16).hex()
    catalog = write_bytes(archive.store, f"data/bench/schema/{identity}/catalog-a.json", b"{}")
    made = make_block(identity=identity, source="bench", position=f"0/{archive.state.sequence:X}")
    block = made.model_copy(update={"catalog": catalog})
    archive.add(lambda state: Change("backup", add=(block,)), check=lambda: None, fence=None)


@contextmanager
def _stopped(server: S3Server) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    given = new_parser("bench.silent_replica", "Measure work beside a replica that does not answer.").parse_args()
    return measure_and_report(
        "silent_replica", given.results, lambda: measure(given.rounds), as_json=as_json, as_markdown=as_markdown
    )


if __name__ == "__main__":
    sys.exit(main())
