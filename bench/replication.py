"""`python -m bench.replication`: replicas, their log and their store; report in bench/results/."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support import machine
from bench.support.blocks import make_block
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.timed import Timed, as_json, as_markdown
from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import TableRecord
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log import log, replicas, schema
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.status import status
from holdfast.replication.log.store import PASSWORD, CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.membership import begin_membership as first_replica
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

FILES, FILE_BYTES = 72, 24 << 20
AT_ONCE = 8
ARCHIVES, REPLICAS = 10, 200
STATUS_S = 1.0

SYNC, COPY = "sync of a new block", "plain copy of its files"
QUORUM = "waiting for the quorum of a backup as large"
ALONE, TRIMMED = "1,000 appends, each as slow as the slowest 1 %", "the same while the log is trimmed"
TRIM, STATUS = "trimming", "status"
COMPARISONS = (
    Comparison("a sync, against a plain copy of the same files", SYNC, COPY, 0.8),
    Comparison("what a quorum adds to a backup, against one sync of the same bytes", QUORUM, SYNC, 0.95),
    Comparison("p99 of appends while the log is trimmed, against that without", TRIMMED, ALONE, 0.5),
)

NOTES = (
    f"The block has {FILES} files of {FILE_BYTES >> 20} MiB that cannot be compressed. The copy reads and writes as "
    f"many of them at a time as a sync does ({AT_ONCE}), by Python, each on disk (fsync) before it counts; a sync "
    "checks every file's SHA-256, takes locks, commits, and tells the store. Both find the files in the machine's "
    "memory; which of them comes first changes with each round.",
    "The quorum is of two, and who waits for it syncs the other replica itself: there is no pause in between.",
    "The log lies in a PostgreSQL of its own on this machine, whose commits wait for its disk. One thread appends, one "
    "transaction after the other; another thread trims meanwhile, in a session of its own, as another machine would. "
    "What appends take alone is measured before that and after it.",
    f"`status` is of {ARCHIVES} archives with {REPLICAS} replicas each.",
)


@dataclass(frozen=True)
class Found(Timed):
    """:param entries: that the log had."""

    comparisons = COMPARISONS
    notes = NOTES

    entries: int

    @property
    def title(self) -> str:
        """Return how long the log was."""
        return f"Replicas, and a log of {self.entries:,} entries"

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        slow = [f"status in {STATUS_S:.0f} s"] if self.series[STATUS].best > STATUS_S else []
        return super().missed + slow


def measure(entries: int, rounds: int) -> Found:
    """Measure everything and clean up, whatever happens."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with PostgresServer(settings={"fsync": "on"}) as server:
        os.environ[PASSWORD] = server.password
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            loads.append(machine.load())
            with CoordinationStore.open(server.url()) as store:
                found = {
                    **_sync(store, copy_first=number % 2 == 0),
                    **_log(store, server.url(), entries),
                    STATUS: _status(store),
                }
                store.run(_empty)
            say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()))
            times.append(found)
    return Found(date, machine.host(), loads, collect(times), entries)


def _empty(connection: Connection) -> None:
    for table in reversed(schema.metadata.sorted_tables):
        connection.execute(table.delete())


def _sync(store: CoordinationStore, *, copy_first: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        near, far = (open_store(str(folder / each)) for each in ("near", "far"))
        archive = Archive.create(near, name="bench").identity.id
        first_replica(store, near, "near")
        store.run(lambda c: replicas.add(c, archive, name="far", url=far.url))
        recover(store, archive, "far")
        block = _back_up(near, store)
        row = store.run(lambda c: replicas.replica(c, archive, "far"))
        ways: list[tuple[str, Callable[[], object]]] = [
            (COPY, lambda: _copy(folder / "near", folder / "copy", block)),
            (SYNC, lambda: sync_replica(store, archive, row, wait=0)),
        ]
        found = {name: _timed(work) for name, work in (ways if copy_first else ways[::-1])}
        block = _back_up(near, store, QuorumRequest(2))
        waiting = QuorumWait(store, archive, block.id, "near")
        return {**found, QUORUM: _timed(lambda: waiting.check_success(waiting.decided()))}


def _back_up(near: ObjectStore, store: CoordinationStore, quorum_request: QuorumRequest | None = None) -> Block:
    """Make a backup of files of random bytes; return its block."""
    block = _block(near)
    archive = ReplicatedArchive.begin(near, store)
    archive.quorum_request = quorum_request

    def plan(state: State) -> Change:
        return Change("backup", add=(block,), expected_ends={block.source.name: state.ends.get(block.source.name)})

    archive.add(plan, check=lambda: None, fence=None)
    return block


def _block(store: ObjectStore) -> Block:
    identity = uuid.uuid4().hex
    paths = (f"data/bench/1/snapshot/{identity}/{number:05d}-a.parquet" for number in range(FILES))
    files = tuple(write_bytes(store, path, os.urandom(FILE_BYTES)) for path in paths)
    table = TableRecord(id="1", table_schema="public", name="t", rows=0, digest="0:0", files=files)
    catalog = write_bytes(store, f"data/bench/schema/{identity}/catalog-a.json", b"{}")
    return make_block(identity=identity, source="bench", tables=(table,)).model_copy(update={"catalog": catalog})


def _copy(source: Path, target: Path, block: Block) -> None:
    def copy(path: str) -> None:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        with (source / path).open("rb") as incoming, (target / path).open("wb") as outgoing:
            while chunk := incoming.read(4 << 20):
                outgoing.write(chunk)
            outgoing.flush()
            os.fsync(outgoing.fileno())

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(copy, [file.path for file in block.files()]):
            pass


def _log(store: CoordinationStore, url: str, entries: int) -> dict[str, float]:
    archive = uuid.uuid4().hex

    def begin(c: Connection) -> replicas.Acting:
        state = replicas.LogState(archive, "log", "s", 0, 1)
        replicas.register(c, state, name="near", url="near", ends={}, streams={})
        return replicas.activate(c, archive, "near")

    acting = store.run(begin)
    for first in range(0, entries, 10_000):
        store.run(partial(_fill, archive=archive, indexes=range(first + 1, min(entries, first + 10_000) + 1)))
    alone = _appends(store, acting, threading.Event(), least=2000)
    ended = threading.Event()
    trimmed: list[float] = []

    def run() -> None:
        with CoordinationStore.open(url) as other:
            trimmed.append(_timed(lambda: trim(other, archive, min_keep=0, max_keep=0)))
        ended.set()

    store.run(lambda c: replicas.move_pointer(c, acting, index=entries))
    thread = threading.Thread(target=run)
    thread.start()
    meanwhile = _appends(store, acting, ended, least=1)
    thread.join()
    alone += _appends(store, acting, threading.Event(), least=2000)
    return {ALONE: 1000 * _p99(alone), TRIMMED: 1000 * _p99(meanwhile), TRIM: trimmed[0]}


def _fill(connection: Connection, archive: str, indexes: range) -> None:
    rows = [
        {
            "archive": archive,
            "index": index,
            "entry": f"{archive}-{index}",
            "kind": "backup",
            "change": '{"kind": "backup"}',
            "size": 0,
            "appended_by": "near",
            "appended_at": 0.0,
        }
        for index in indexes
    ]
    connection.execute(schema.entries.insert(), rows)
    connection.execute(schema.archives.update().where(schema.archives.c.archive == archive).values(head=indexes[-1]))


def _appends(store: CoordinationStore, acting: replicas.Acting, ended: threading.Event, *, least: int) -> list[float]:
    """Append until the other one has ended, and so often at least; return what each took."""
    times: list[float] = []
    while len(times) < least or (least == 1 and not ended.is_set()):
        draft = log.Draft(uuid.uuid4().hex, log.EntryChange(kind="backup"), planned_at=0)
        times.append(_timed(partial(store.run, partial(log.append, acting=acting, draft=draft))))
    return times


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98] if len(times) > 1 else times[0]


def _status(store: CoordinationStore) -> float:
    def fill(c: Connection) -> None:
        for number in range(ARCHIVES):
            state = replicas.LogState(f"a{number}", f"a{number}", "s", 0, 1)
            replicas.register(c, state, name="r0", url=f"{number}/r0", ends={}, streams={})
            for other in range(1, REPLICAS):
                replicas._insert(c, state.archive, f"r{other}", f"{number}/r{other}", pointer=1)
            acting = replicas.activate(c, state.archive, "r0")
            for _ in range(10):
                log.append(c, acting, log.Draft(uuid.uuid4().hex, log.EntryChange(kind="backup"), planned_at=0))

    store.run(fill)
    return _timed(lambda: store.run(status))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    parser = new_parser("bench.replication", "Measure replicas and their log.")
    parser.add_argument("--entries", type=int, default=1_000_000, help="of the log that is trimmed")
    given = parser.parse_args()
    return measure_and_report(
        "replication",
        given.results,
        lambda: measure(given.entries, given.rounds),
        as_json=as_json,
        as_markdown=as_markdown,
    )


if __name__ == "__main__":
    sys.exit(main())
