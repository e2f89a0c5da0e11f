"""What one run of the bench found out, as it is kept: for machines as JSON, for people as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.support.figures import Comparison, Ratio, Series, compare
from bench.support.report import ratio_row, table, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.backup_restore.hashes import Rate
    from bench.support.memory import Memory


@dataclass(frozen=True)
class Results:
    """One run.

    :param date: when it began, ISO 8601.
    :param size: bytes of the table's heap.
    :param loads: the machine's load average before each round: above its cores, figures are disturbed.
    :param series: by name.
    :param tables: small ones, in a database of their own.
    :param small: names of the series that are of those: rows and sizes a second are the large table's.
    :param stored: bytes on disk, by the name of a backup.
    """

    date: str
    rows: int
    size: int
    machine: Mapping[str, str]
    settings: Mapping[str, str]
    loads: Sequence[float]
    series: Mapping[str, Series]
    stored: Mapping[str, int]
    comparisons: Sequence[Comparison]
    memory: Sequence[Memory]
    rates: Sequence[Rate]
    tables: int
    small: Sequence[str] = ()

    @property
    def ratios(self) -> list[Ratio]:
        """Return all comparisons of this run."""
        return [compare(each, self.series) for each in self.comparisons]

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        slow = [ratio.comparison.what for ratio in self.ratios if ratio.reached is False]
        slow += [each.what for each in self.rates if not each.reached]
        return slow + [f"memory of {each.what}" for each in self.memory if not each.reached]


def as_json(results: Results) -> str:
    """Return everything as JSON."""
    return json.dumps({**asdict(results), "ratios": [asdict(each) for each in results.ratios]}, indent=1) + "\n"


def as_markdown(results: Results, notes: Sequence[str]) -> str:
    """Return everything as Markdown.

    :param notes: how it was measured, a sentence or two each.
    """
    return "\n".join(_lines(results, notes)) + "\n"


def _lines(results: Results, notes: Sequence[str]) -> Iterator[str]:
    rounds = len(results.loads)
    yield f"# Backup and restore of {results.rows:,} rows"
    yield ""
    yield (
        f"{results.date}, {rounds} rounds, interleaved. The table: 10 columns, {results.size / 1e6:,.0f} MB in "
        f"PostgreSQL without its index; beside it {results.tables:,} small tables. Load average before each round: "
        f"{', '.join(f'{load:.1f}' for load in results.loads)}."
    )
    yield from ("", "## How many times faster", "")
    yield "Of the best times; in brackets the least and the most of the single rounds."
    yield ""
    yield from table(["what", "times", "rounds", "wanted"], [ratio_row(ratio) for ratio in results.ratios])
    yield from ("", "## Times", "")
    yield from table(
        ["what", "best s", "median s", "worst s", "rows/s", "MB/s", "stored MB"],
        [_series_row(each, results) for each in results.series.values()],
    )
    yield from ("", "## Memory of a Spark worker process", "")
    yield from table(
        ["what", "peak MB", "limit MB", ""],
        [
            [each.what, f"{each.peak / 1e6:,.0f}", f"{each.limit / 1e6:,.0f}", verdict(each.reached)]
            for each in results.memory
        ],
    )
    yield from ("", "## Content hash", "")
    yield from table(
        ["what", "rows/s", "wanted", ""],
        [
            [each.what, f"{each.rows_a_second:,.0f}", f"{each.wanted:,.0f}", verdict(each.reached)]
            for each in results.rates
        ],
    )
    yield from ("", "## How it was measured", "")
    yield from (f"- {note}" for note in notes)
    yield from ("", "## Where", "")
    yield from table(["", ""], [[name, value] for name, value in results.machine.items()])
    settings = ", ".join(f"`{name} = {value}`" for name, value in results.settings.items())
    yield from ("", f"PostgreSQL's settings beside its defaults: {settings}.")


def _series_row(series: Series, results: Results) -> list[str]:
    stored = results.stored.get(series.name)
    rated = series.name not in results.small
    return [
        series.name,
        f"{series.best:.2f}",
        f"{series.median:.2f}",
        f"{series.worst:.2f}",
        f"{results.rows / series.best:,.0f}" if rated else "",
        f"{results.size / 1e6 / series.best:,.0f}" if rated else "",
        f"{stored / 1e6:,.0f}" if stored else "",
    ]
