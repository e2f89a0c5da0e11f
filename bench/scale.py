"""`python -m bench.scale`: how requests, bytes, seconds and memory of operations grow with an archive."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.forked import run_forked
from bench.support.grown_archive import Shape, block_of, make_archive
from bench.support.report import table
from holdfast.archive import Archive, Change
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.history import restore_points
from holdfast.archive.history.restorable_line import RestorableLine
from holdfast.archive.history.target_resolution import resolve
from holdfast.archive.maintenance.compaction import CompactionPolicy, plan_compaction
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import plan_truncation
from holdfast.status import record_of
from holdfast.storage.folder import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from locking.store import Listing, ObjectInfo

PAGE = 1_000
"""Objects that a listing of S3 returns for each request."""

GROWTH: Mapping[str, tuple[int, ...]] = {
    "commits": (1_000, 10_000, 100_000),
    "blocks": (100, 1_000, 10_000),
    "files": (10_000, 100_000, 1_000_000),
    "tables": (10, 100, 1_000),
    "partitions": (100, 1_000, 10_000),
    "sources": (1, 10, 100),
}
"""Sizes of an archive that grow, one at a time, with their values."""

BEGIN: Mapping[str, Shape] = {
    "commits": Shape(files=10_000),
    "blocks": Shape(),
    "files": Shape(),
    "tables": Shape(commits=100, blocks=100),
    "partitions": Shape(commits=10, blocks=10, tail=5),
    "sources": Shape(),
}
"""The archive whose one size grows; `blocks` have ten files each."""

NOISE = {"seconds": 0.005, "memory": 4e6}
"""Less than this says nothing of how something grows."""

MEASURES = ("requests", "bytes", "seconds", "memory")


class CountingStore(FolderStore):
    """A folder that counts what object storage would be asked: requests, and bytes to and fro."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.requests = 0
        self.moved = 0
        self._counting = threading.Lock()

    def _count(self, requests: int, moved: int = 0) -> None:
        with self._counting:
            self.requests += requests
            self.moved += moved

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        """Return all objects with a prefix."""
        found = super().list(prefix, start_after=start_after, most=most)
        self._count(1 + len(found.objects) // PAGE)
        return found

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        """Return the first objects with a prefix."""
        self._count(1)
        return super().first(prefix, count)

    def head(self, key: str) -> ObjectInfo:
        """Return size and time of an object."""
        self._count(1)
        return super().head(key)

    def get(self, key: str) -> bytes:
        """Return an object."""
        body = super().get(key)
        self._count(1, len(body))
        return body

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        self._count(1, len(body))
        super().put(key, body)

    def create(self, key: str, body: bytes) -> None:
        """Write an object that is not there."""
        self._count(1, len(body))
        super().create(key, body)


_LATER = timedelta(days=365)
"""Behind all that the archives hold, whenever this runs."""


def _open(store: CountingStore) -> Archive:
    return Archive.open(store)


def _points(archive: Archive) -> object:
    return restore_points.describe(archive.state)


def _line(archive: Archive) -> object:
    return RestorableLine(archive.state, _a_source(archive)).view(None, None)


def _latest(archive: Archive) -> object:
    return resolve(archive.state, archive.store, _a_source(archive), "latest")


def _record(archive: Archive) -> object:
    return record_of(archive, {})


def _truncation(archive: Archive) -> object:
    rules = parse_rules(["last=100", "daily=30"])
    return plan_truncation(archive.state, rules, datetime.now(UTC) + _LATER)


def _compaction(archive: Archive) -> object:
    return plan_compaction(archive.state, CompactionPolicy(), datetime.now(UTC) + _LATER)


def _checkpoint(archive: Archive) -> None:
    write_checkpoint(archive.store, archive.identity.id, archive.state)


def _commit(archive: Archive) -> object:
    sources = len(restore_points.source_names(archive.state))
    block = block_of(Shape(sources=sources), archive.state.sequence + 1, 10, snapshot=True)
    change = Change(kind="backup", add=(block.model_copy(update={"stream": None}),))
    return archive.add(lambda state: change, check=lambda: None, fence=None)


def _a_source(archive: Archive) -> str:
    return restore_points.source_names(archive.state)[0]


OPERATIONS: Mapping[str, Callable[[Archive], object]] = {
    "list restore points": _points,
    "draw the restorable-time line": _line,
    "find the newest moment": _latest,
    "record for the page": _record,
    "plan a truncation": _truncation,
    "plan a compaction": _compaction,
    "write a checkpoint": _checkpoint,
    "commit a backup of ten files": _commit,
}
"""Beside opening, which comes before each; all work on commits, and read no file of a backup."""

OPEN = "open"


@dataclass(frozen=True)
class Cost:
    """Cost of one operation.

    :param bytes: to and from the store, of documents.
    :param seconds: the best of all rounds.
    :param memory: bytes that the process grew by, at the most.
    """

    requests: int
    bytes: int
    seconds: float
    memory: int


@dataclass(frozen=True)
class Growth:
    """Costs of operations while one size of an archive grew.

    :param costs: by operation, one for each size.
    """

    size: str
    sizes: tuple[int, ...]
    costs: Mapping[str, tuple[Cost, ...]]

    def exponent(self, operation: str, measure: str) -> float | None:
        """Return the power of the size that a measure grew with; None where it is too small to tell."""
        values = [getattr(cost, measure) for cost in self.costs[operation]]
        least = NOISE.get(measure, 1)
        known = [(size, value) for size, value in zip(self.sizes, values, strict=True) if value >= least]
        return fit(known) if len(known) > 1 else None


def fit(points: Sequence[tuple[float, float]]) -> float:
    """Return the exponent k of y = a * x^k that is nearest to points, by least squares of logarithms."""
    x, y = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((each - middle_x) ** 2 for each in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread


@dataclass(frozen=True)
class Scale:
    """Results of the bench."""

    growths: Sequence[Growth]
    facts: dict[str, str]
    measured: str
    missed: Sequence[str] = field(default=())


def main() -> int:
    """Run the bench; 0 when all was measured."""
    parser = new_parser("bench.scale", "Measure how operations grow with an archive.")
    given = parser.parse_args()
    return measure_and_report(
        "scale",
        given.results,
        lambda: measure(GROWTH, given.rounds),
        as_json=lambda results: json.dumps(asdict(results), indent=1),
        as_markdown=as_markdown,
    )


def measure(growth: Mapping[str, tuple[int, ...]], rounds: int) -> Scale:
    """Measure all operations of archives whose sizes grow, one at a time."""
    growths = [_grown(size, sizes, rounds) for size, sizes in growth.items()]
    return Scale(growths, machine.host(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))


def shape_of(size: str, value: int) -> Shape:
    """Return the archive whose one size has a value."""
    begin = BEGIN[size]
    if size == "blocks":
        return replace(begin, commits=value, blocks=value, files=value * 10, tail=min(begin.tail, value - 1))
    if size in ("tables", "partitions"):
        # To an archive, a partition is a table.
        return replace(begin, tables=value, files=value * begin.blocks)
    changed: dict[str, Any] = {size: value}
    return replace(begin, **changed)


def _grown(size: str, sizes: tuple[int, ...], rounds: int) -> Growth:
    costs: dict[str, list[Cost]] = {OPEN: [], **{name: [] for name in OPERATIONS}}
    for value in sizes:
        say(f"an archive with {value:,} {size}")
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            # In a process of its own: this one stays small, and so do those that it forks to measure.
            run_forked([partial(_make, Path(folder) / "a", shape_of(size, value))])
            for name, found in _costs(str(Path(folder) / "a"), rounds).items():
                costs[name].append(found)
    return Growth(size, sizes, {name: tuple(found) for name, found in costs.items()})


def _make(place: Path, shape: Shape, _: Callable[[], None]) -> bool:
    make_archive(place, shape)
    return True


def _costs(place: str, rounds: int) -> dict[str, Cost]:
    """Measure each operation in processes of their own, which know nothing of each other's memory."""
    found: dict[str, Cost] = {}
    for name in (OPEN, *OPERATIONS):
        each = [run_forked([partial(_cost, place, name)])[0] for _ in range(rounds)]
        found[name] = replace(each[0], seconds=min(cost.seconds for cost in each))
    return found


def _cost(place: str, name: str, _: Callable[[], None]) -> Cost:
    store = CountingStore(place)
    archive = None if name == OPEN else _open(store)
    store.requests = store.moved = 0
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: proc(5)
    began = time.perf_counter()
    _open(store) if archive is None else OPERATIONS[name](archive)
    seconds = time.perf_counter() - began
    return Cost(store.requests, store.moved, seconds, max(0, _memory("VmHWM") - before))


def _memory(word: str) -> int:
    """Return what the kernel counts of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{word}:")) * 1024


_UNITS: Mapping[str, Callable[[float], str]] = {
    "requests": lambda value: f"{value:,.0f}",
    "bytes": lambda value: f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value / 1e3:,.0f} kB",
    "seconds": lambda value: f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.0f} ms",
    "memory": lambda value: f"{value / 1e6:,.0f} MB",
}


def as_markdown(results: Scale) -> str:
    """Return the report for people."""
    lines = ["# How operations grow with an archive", "", f"{results.measured}.", ""]
    for growth in results.growths:
        sizes = ", ".join(f"{size:,}" for size in growth.sizes)
        lines += [f"## {growth.size.capitalize()}: {sizes}", "", *_rows(growth), ""]
    lines += [
        "## How it was measured",
        "",
        "- One size grows at a time; the others stay (`BEGIN` in bench/scale.py). An archive is a folder of commits.",
        f"- Requests are what object storage would be asked; a listing returns {PAGE:,} objects for each.",
        "- Bytes are those of documents. Seconds are the best of all rounds. Memory is what the process grew by.",
        "- A cell has the value of the smallest archive, that of the largest, and in brackets the exponent of the "
        "growth by all three: 0 stays as it is, 1 grows with the size, 2 with its square; nothing where there is too "
        "little to tell.",
        "",
        "## Where",
        "",
        *table(("", ""), list(results.facts.items())),
        "",
    ]
    return "\n".join(lines)


def _rows(growth: Growth) -> list[str]:
    """Return a table: of each measure the first and the last value, and the exponent in brackets."""
    rows = [(operation, *(_shown(growth, operation, name) for name in MEASURES)) for operation in growth.costs]
    return list(table(("operation", *MEASURES), rows))


def _shown(growth: Growth, operation: str, name: str) -> str:
    first, last = (_UNITS[name](getattr(growth.costs[operation][place], name)) for place in (0, -1))
    exponent = growth.exponent(operation, name)
    grown = f" ({exponent:.1f})" if exponent is not None else ""
    return first if first == last and exponent in (None, 0.0) else f"{first} … {last}{grown}"


if __name__ == "__main__":
    sys.exit(main())
