"""A run that only compares times: what was found, and its report. Benches with more to tell add fields."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.support.figures import Comparison, Ratio, Series, compare
from bench.support.report import comparison_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Timed:
    """One run.

    :param loads: the load average before each round.
    """

    comparisons: ClassVar[Sequence[Comparison]]
    notes: ClassVar[Sequence[str]]

    date: str
    machine: Mapping[str, str]
    loads: Sequence[float]
    series: Mapping[str, Series]

    @property
    def title(self) -> str:
        """Return what was measured, in words."""
        raise NotImplementedError

    @property
    def details(self) -> str:
        """Return what is said behind the loads; empty: nothing."""
        return ""

    @property
    def ratios(self) -> list[Ratio]:
        """Return all comparisons."""
        return [compare(each, self.series) for each in self.comparisons]

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        return [each.comparison.what for each in self.ratios if each.reached is False]


def as_markdown(found: Timed) -> str:
    """Return everything as Markdown."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Timed) -> Iterator[str]:
    loads = ", ".join(f"{load:.1f}" for load in found.loads)
    said = f"{found.date}, {len(found.loads)} rounds. Load average before each round: {loads}. {found.details}"
    yield from (f"# {found.title}", "", said.rstrip())
    yield from comparison_lines(found.ratios, found.series, found.notes, found.machine)


def as_json(found: Timed) -> str:
    """Return everything as JSON."""
    return json.dumps({**asdict(found), "ratios": [asdict(each) for each in found.ratios]}, indent=1) + "\n"
