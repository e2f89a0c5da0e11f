"""What one run of the bench found out, as it is kept: for machines as JSON, for people as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.figures import Comparison, Ratio, Series, compare
from bench.memory import limit_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.hashes import Rate


@dataclass(frozen=True)
class Memory:
    """The most that one Spark worker held, in bytes.

    :param largest_value: of the table, which the limit depends on; 0 where values are small.
    """

    what: str
    peak: int
    largest_value: int

    @property
    def limit(self) -> int:
        """Return what it may hold, in bytes."""
        return limit_bytes(self.largest_value)

    @property
    def reached(self) -> bool:
        """Say whether it stayed within."""
        return self.peak < self.limit


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


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def comparison_lines(
    ratios: Sequence[Ratio], series: Mapping[str, Series], notes: Sequence[str], machine: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a report that only compares times: what was faster, all times, how and where."""
    yield from ("", "## How many times faster", "")
    yield from ("Of the best times; in brackets the least and the most of the single rounds.", "")
    yield from table(["what", "times", "rounds", "wanted"], [ratio_row(each) for each in ratios])
    yield from ("", "## Times", "", *series_rows(series), "", "## How it was measured", "")
    yield from (f"- {note}" for note in notes)
    yield from ("", "## Where", "")
    yield from table(["", ""], [[name, value] for name, value in machine.items()])


def series_rows(series: Mapping[str, Series]) -> Iterator[str]:
    """Yield the lines of a table of times."""
    yield from table(
        ["what", "best s", "median s", "worst s", "spread"],
        [
            [each.name, f"{each.best:.2f}", f"{each.median:.2f}", f"{each.worst:.2f}", f"{each.spread:.0%}"]
            for each in series.values()
        ],
    )


def ratio_row(ratio: Ratio) -> list[str]:
    """Return the cells of a comparison."""
    target = ratio.comparison.target
    wanted = f"≥ {target:g}: {verdict(bool(ratio.reached))}" if target is not None else ""
    return [ratio.comparison.what, f"**{ratio.best:.2f}**", f"({ratio.least:.2f} to {ratio.most:.2f})", wanted]


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


def verdict(reached: bool) -> str:
    """Say whether something was reached."""
    return "yes" if reached else "**no**"
