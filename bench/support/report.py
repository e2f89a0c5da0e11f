"""The parts of a report: tables of comparisons and times, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.support.figures import Ratio, Series


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


def verdict(reached: bool) -> str:
    """Say whether something was reached."""
    return "yes" if reached else "**no**"
