"""What one run of the locks' bench found out: for machines as JSON, for people as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.locks.contention import WAYS
from bench.locks.latency import REQUEST, STEPS
from bench.support.figures import Comparison, Ratio, Series, collect, compare
from bench.support.report import table, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.locks.contention import Told, Way
    from bench.locks.crowd import Crowd
    from bench.locks.latency import Times

MOST_REQUESTS = 5.5
"""An uncontended acquisition may take so many times what a request takes."""

MOST_PAGES = 3
"""Pages of listings that a reader among a thousand may need to get in, or to check."""

_TOLD = ("turns/s", "longest wait s", "a writer's s", "max/median wait", "requests a turn", "not had", "met")

NAMES: Mapping[Way, str] = {"ours": "ours", "paper": "the paper's"}


@dataclass(frozen=True)
class Latency:
    """Steps of an uncontended lock in one store, round by round.

    :param wanted: whether acquiring has its bound here: listings are ordered and requests take time.
    """

    store: str
    latency: float
    rounds: Sequence[Times]
    wanted: bool

    def multiple(self, step: str) -> Ratio:
        """How many times what a request takes the step took; below is better."""
        return compare(Comparison(f"{step} in requests", REQUEST, step), collect(self.rounds))

    @property
    def reached(self) -> bool | None:
        """Whether acquiring kept to its bound, by the best times; None without one."""
        return self.multiple("acquire").best <= MOST_REQUESTS if self.wanted else None


@dataclass(frozen=True)
class Race:
    """One contest in one store by both ways, round by round."""

    contest: str
    store: str
    rounds: Sequence[Mapping[Way, Told]]

    @property
    def speedup(self) -> Ratio:
        """How many times sooner all of ours had had all of their turns."""
        series: dict[str, Series] = {way: Series(way, tuple(each[way].seconds for each in self.rounds)) for way in WAYS}
        return compare(Comparison(self.contest, "ours", "paper"), series)

    @property
    def complete(self) -> bool:
        """Whether each of ours had each turn, and nobody met."""
        return not any(each["ours"].refused or each["ours"].met for each in self.rounds)


@dataclass(frozen=True)
class LockResults:
    """One run.

    :param date: when it began, ISO 8601.
    :param loads: the machine's load average before each round: above its cores, figures are disturbed.
    """

    date: str
    machine: Mapping[str, str]
    loads: Sequence[float]
    latencies: Sequence[Latency]
    races: Sequence[Race]
    crowds: Sequence[Crowd]

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        slow = [f"acquire in {each.store}, {_ms(each.latency)}" for each in self.latencies if each.reached is False]
        left = [f"every turn of {each.contest} in {each.store}" for each in self.races if not each.complete]
        pages = [max((*each.pages, *each.check_pages)) for each in self.crowds]
        return slow + left + [f"{most} pages for a reader" for most in pages if most > MOST_PAGES]


def as_json(results: LockResults) -> str:
    """Return everything as JSON, times to a tenth of a millisecond: there are thousands."""
    value = json.loads(json.dumps(asdict(results)), parse_float=lambda digits: round(float(digits), 4))
    return json.dumps(value, separators=(",", ":")) + "\n"


def as_markdown(results: LockResults, notes: Sequence[str]) -> str:
    """Return everything as Markdown.

    :param notes: how it was measured, a sentence or two each.
    """
    return "\n".join(_lines(results, notes)) + "\n"


def _lines(results: LockResults, notes: Sequence[str]) -> Iterator[str]:
    yield "# Locks"
    yield ""
    loads = ", ".join(f"{load:.1f}" for load in results.loads)
    yield f"{results.date}, {len(results.loads)} rounds, interleaved. Load average before each round: {loads}."
    yield from ("", "## An uncontended lock", "")
    yield (
        "How many times what one request to the same store takes: of the best times; in brackets the least and the "
        f"most of the single rounds. Acquiring may take {MOST_REQUESTS} where listings are ordered and requests take "
        "20 ms or more."
    )
    yield ""
    yield from table(
        ["store", "added", "a request ms", *STEPS, "wanted"], [_latency_row(each) for each in results.latencies]
    )
    yield from ("", "## Many who want one lock, beside a plain port of the paper's", "")
    yield "Sooner: how many times sooner all of ours had had their turns; above one, ours is the faster one."
    yield ""
    yield from table(
        ["contest", "store", "sooner", "rounds", "all had their turns"], [_race_row(each) for each in results.races]
    )
    yield from ("", "Of the single rounds, the least and the most:", "")
    yield from table(
        [
            "contest",
            "store",
            "",
            "turns/s",
            "longest wait s",
            "a writer's s",
            "max/median wait",
            "requests a turn",
            "not had",
            "met",
        ],
        [_way_row(race, way) for race in results.races for way in WAYS],
    )
    yield from ("", "## A thousand readers at once", "")
    yield from table(
        ["", "all in s", "median s", "slowest s", "pages at most", "with ≤ 3 pages", "a check ms", "its pages"],
        [_crowd_row(number, each) for number, each in enumerate(results.crowds, 1)],
    )
    yield from ("", "## How it was measured", "")
    yield from (f"- {note}" for note in notes)
    yield from ("", "## Where", "")
    yield from table(["", ""], [[name, value] for name, value in results.machine.items()])


def _latency_row(latency: Latency) -> list[str]:
    series = collect(latency.rounds)
    multiples = [latency.multiple(step) for step in STEPS]
    cells = [f"**{each.best:.1f}** ({each.least:.1f} to {each.most:.1f})" for each in multiples]
    wanted = "" if latency.reached is None else f"acquire ≤ {MOST_REQUESTS}: {verdict(latency.reached)}"
    return [latency.store, _ms(latency.latency), f"{series[REQUEST].best * 1000:.1f}", *cells, wanted]


def _race_row(race: Race) -> list[str]:
    ratio = race.speedup
    return [
        race.contest,
        race.store,
        f"**{ratio.best:.2f}**",
        f"({ratio.least:.2f} to {ratio.most:.2f})",
        verdict(race.complete),
    ]


def _way_row(race: Race, way: Way) -> list[str]:
    told = [each[way] for each in race.rounds]
    return [
        race.contest,
        race.store,
        NAMES[way],
        _range([each.rate for each in told], "{:.1f}"),
        _range([max(each.waits) for each in told], "{:.1f}"),
        _range([max(each.writers_waits) for each in told], "{:.1f}"),
        _range([each.unfairness for each in told], "{:.1f}"),
        _range([each.requests / len(each.waits) for each in told], "{:.0f}"),
        str(sum(each.refused for each in told)),
        str(sum(each.met for each in told)),
    ]


def _crowd_row(number: int, crowd: Crowd) -> list[str]:
    return [
        f"round {number}",
        f"{crowd.seconds:.1f}",
        f"{crowd.median_wait:.1f}",
        f"{max(crowd.waits):.1f}",
        str(max(crowd.pages)),
        f"{crowd.within_three:.1%}",
        f"{crowd.median_check * 1000:.0f}",
        str(max(crowd.check_pages)),
    ]


def _range(values: Sequence[float], form: str) -> str:
    """The least and the most of a few values."""
    return f"{form.format(min(values))} to {form.format(max(values))}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
