"""`python -m bench.opening`: how long it takes to open archives of different age and to list their restore points."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Series
from bench.support.grown_archive import Shape, make_archive
from bench.support.report import table, verdict
from holdfast.archive import Archive
from holdfast.archive.format.checkpoint import CHECKPOINTS
from holdfast.archive.history import restore_points
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

AGES = (1_000, 10_000, 100_000)
"""Commits an archive has seen."""

FILES = 1_000_000
"""Of the blocks that are there in the end."""

BLOCKS = 1_000
"""That are there in the end: one full backup and changes; what came before was removed again, as retention does."""

TAIL = 40
"""Commits since the newest checkpoint."""

LONGEST_S = 1.0
"""That opening and listing may take together."""

FLATTEST = 1.5
"""So many times as long the oldest may take as the youngest."""


@dataclass(frozen=True)
class Opening:
    """What opening and listing took, of an archive of an age, in each round.

    :param by_checkpoint: seconds of both together, by the newest checkpoint and the commits since.
    :param by_commits: the same without checkpoints, by all commits; measured once.
    """

    age: int
    files: int
    by_checkpoint: tuple[float, ...]
    by_commits: float


@dataclass(frozen=True)
class Openings:
    """What the bench found out."""

    openings: Sequence[Opening]
    facts: dict[str, str]
    measured: str

    @property
    def flatness(self) -> float:
        """Return how many times as long the oldest archive takes as the youngest, by the best times."""
        return min(self.openings[-1].by_checkpoint) / min(self.openings[0].by_checkpoint)

    @property
    def missed(self) -> Sequence[str]:
        """Return what was not reached, in words."""
        slow = [
            f"{each.age:,} commits: {min(each.by_checkpoint):.2f} s, wanted under {LONGEST_S} s"
            for each in self.openings
            if min(each.by_checkpoint) >= LONGEST_S
        ]
        if self.flatness > FLATTEST:
            slow.append(f"the oldest takes {self.flatness:.2f} times as long as the youngest, wanted {FLATTEST}")
        return slow


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed."""
    parser = new_parser("bench.opening", "Measure how long opening archives takes.")
    parser.add_argument("--files", type=int, default=FILES, help="of the blocks that are there in the end")
    parser.add_argument("--ages", type=int, nargs="+", default=AGES, help="commits of the archives")
    given = parser.parse_args()
    return measure_and_report(
        "opening",
        given.results,
        lambda: _measure(given.ages, given.files, given.rounds),
        as_json=lambda results: json.dumps(asdict(results), indent=1),
        as_markdown=as_markdown,
    )


def _measure(ages: Sequence[int], files: int, rounds: int) -> Openings:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        made = []
        for age in ages:
            say(f"making an archive of {age:,} commits and {files:,} files")
            make_archive(Path(folder) / str(age), Shape(commits=age, blocks=BLOCKS, files=files, tail=TAIL))
        times: dict[int, list[float]] = {age: [] for age in ages}
        for _ in range(rounds):
            for age in ages:
                times[age].append(open_and_list(str(Path(folder) / str(age))))
        for age in ages:
            say(f"opening that of {age:,} commits without checkpoints")
            place = Path(folder) / str(age)
            for found in (place / CHECKPOINTS).iterdir():
                found.unlink()
            made.append(Opening(age, files, tuple(times[age]), open_and_list(str(place))))
    return Openings(made, machine.host(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))


def open_and_list(url: str) -> float:
    """Return the seconds that opening an archive and listing its restore points take."""
    began = time.perf_counter()
    archive = Archive.open(open_store(url))
    restore_points.describe(archive.state)
    return time.perf_counter() - began


def as_markdown(results: Openings) -> str:
    """Return the report for people."""
    rows = []
    for each in results.openings:
        series = Series(f"{each.age:,} commits", each.by_checkpoint)
        rows.append(
            (
                f"{each.age:,}",
                f"{each.files:,}",
                f"**{series.best:.3f}**",
                f"{series.median:.3f}",
                f"{series.worst:.3f}",
                f"{each.by_commits:.2f}",
                f"< {LONGEST_S}: {verdict(series.best < LONGEST_S)}",
            )
        )
    lines = [
        "# Opening an archive and listing its restore points",
        "",
        f"{results.measured}, {len(results.openings[0].by_checkpoint)} rounds.",
        "",
        *table(("commits", "files", "best s", "median s", "worst s", "by all commits s", "wanted"), rows),
        "",
        f"The oldest takes **{results.flatness:.2f}** times as long as the youngest (wanted ≤ {FLATTEST}: "
        f"{verdict(results.flatness <= FLATTEST)}).",
        "",
        "## How it was measured",
        "",
        f"- Each archive is a folder and has one source with {BLOCKS:,} blocks, a full backup and changes, that name "
        "all files together. What was there before was removed again, block by block. The files are not there.",
        f"- The newest checkpoint is {TAIL} commits old. `by all commits` is once, without checkpoints.",
        "- In one process, imports not counted.",
        "",
        "## Where",
        "",
        *table(("", ""), list(results.facts.items())),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
