"""`python -m bench.verification`: reading a whole archive, beside reading its files; report in bench/results/."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.support import machine
from bench.support.blocks import make_block
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.processes import ProgramError
from bench.support.timed import Timed, as_json, as_markdown
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import TableRecord
from holdfast.archive.maintenance.verify import Scope, verify_and_remember
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore

FILES, ROWS = 12, 6_000_000
READERS = max(4, min(8, 2 * (os.cpu_count() or 2)))
"""As many as a verification has."""

_ROWS_AT_ONCE = 1_000_000
_CHUNK_BYTES = 4 << 20

READ = "reading all files"
FIRST, AGAIN = "the first deep verification", "a later one"
COMPARISONS = (
    Comparison("deep verification of what was decoded before, against reading the files", AGAIN, READ, 0.8),
    Comparison("the first one, which decodes every page, against reading the files", FIRST, READ),
)

NOTES = (
    f"The archive has one block of {FILES} Parquet files of {ROWS:,} rows, whose numbers cannot be compressed. Before "
    "each way the system is told to forget them, so that all are read from the disk.",
    f"`{READ}` is by Python, {READERS} at a time, {_CHUNK_BYTES >> 20} MiB each time, into memory that is used again. "
    "A verification also looks at the commits, and checks each file's SHA-256.",
)


@dataclass(frozen=True)
class Found(Timed):
    """:param size: bytes of the files."""

    comparisons = COMPARISONS
    notes = NOTES

    size: int

    @property
    def title(self) -> str:
        """Return how much was read."""
        return f"Deep verification of {self.size / 1e6:,.0f} MB"


def measure(rounds: int) -> Found:
    """Measure everything and clean up, whatever happens."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        store = open_store(name)
        say("making an archive")
        make_verifiable(store, FILES, ROWS)
        files = sorted(Path(name).rglob("*.parquet"))
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            loads.append(machine.load())
            for key in [found.key for found in store.list("runs/").objects]:
                store.delete(key)  # as if none had been verified yet
            found = {FIRST: _verify(store, files), AGAIN: _verify(store, files), READ: _read(files)}
            say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()))
            times.append(found)
        size = sum(file.stat().st_size for file in files)
    return Found(date, machine.host(), loads, collect(times), size)


def make_verifiable(store: ObjectStore, files: int, rows: int) -> None:
    """Make an archive with one block of files that can be verified.

    :param rows: of each file.
    """
    archive = Archive.create(store, name="bench")
    random = np.random.default_rng(1)
    records: list[FileRecord] = []
    for number in range(files):
        columns = {name: pa.array(random.integers(-(2**63), 2**63 - 1, rows)) for name in ("a", "b")}
        batch = pa.record_batch(columns)
        stem = f"data/bench/1/snapshot/b/{number:05d}"
        batches = (batch.slice(first, _ROWS_AT_ONCE) for first in range(0, rows, _ROWS_AT_ONCE))
        records += write_parquet(store, stem, batch.schema, batches)
    table = TableRecord(id="1", table_schema="public", name="t", rows=files * rows, digest="0:0", files=tuple(records))
    catalog = write_bytes(store, "data/bench/schema/b/catalog-a.json", b"{}")
    block = make_block(identity="b", source="bench", tables=(table,)).model_copy(update={"catalog": catalog})
    archive.add(lambda state: Change("backup", add=(block,)), check=lambda: None, fence=None)


def _forget(files: Sequence[Path]) -> None:
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _verify(store: ObjectStore, files: Sequence[Path]) -> float:
    _forget(files)
    began = time.perf_counter()
    found = verify_and_remember(Archive.open(store), Scope(deep=True, new=True, budget=1 << 50))
    seconds = time.perf_counter() - began
    if found.damage or found.files < FILES:
        raise ProgramError(f"the verification looked at {found.files} files and found {found.damage}")
    return seconds


def _read(files: Sequence[Path]) -> float:
    def read(file: Path) -> None:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass

    _forget(files)
    began = time.perf_counter()
    with ThreadPoolExecutor(READERS) as pool:
        for _ in pool.map(read, files):
            pass
    return time.perf_counter() - began


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    given = new_parser("bench.verification", "Measure deep verification.").parse_args()
    return measure_and_report(
        "verification", given.results, lambda: measure(given.rounds), as_json=as_json, as_markdown=as_markdown
    )


if __name__ == "__main__":
    sys.exit(main())
