"""Times of one measurement over several rounds, and how two of them compare."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Times = dict[str, float]
"""Seconds of one round, by the name of what took them."""


@dataclass(frozen=True)
class Series:
    """What one thing took in each round, in seconds, in the order of the rounds."""

    name: str
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        if not self.seconds or min(self.seconds) <= 0:
            raise ValueError(f"{self.name}: times must be there and above zero, not {self.seconds}")

    @property
    def best(self) -> float:
        """The shortest time: what the noise of the machine disturbed least."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The time in the middle."""
        return statistics.median(self.seconds)

    @property
    def worst(self) -> float:
        """The longest time."""
        return max(self.seconds)

    @property
    def spread(self) -> float:
        """How far the longest lies above the shortest, as a part of the shortest."""
        return self.worst / self.best - 1


@dataclass(frozen=True)
class Comparison:
    """Which two series are compared, and how many times faster ours must be.

    :param what: for people.
    :param ours: the name of the series that should be fast.
    :param theirs: the name of the series it is compared with.
    :param target: the least ratio wanted; None where the ratio is only told.
    """

    what: str
    ours: str
    theirs: str
    target: float | None = None


@dataclass(frozen=True)
class Ratio:
    """How many times faster: above one, ours is the faster one.

    :param best: of the best times of both.
    :param least: of the round that was worst for us: both ran in it, one soon after the other.
    :param most: of the round that was best for us.
    """

    comparison: Comparison
    best: float
    least: float
    most: float

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached by the best times; None without a target."""
        target = self.comparison.target
        return None if target is None else self.best >= target


def compare(comparison: Comparison, series: Mapping[str, Series]) -> Ratio:
    """Return how two series compare.

    :raises ValueError: they are not of the same rounds.
    """
    ours, theirs = series[comparison.ours], series[comparison.theirs]
    rounds = [slow / fast for slow, fast in zip(theirs.seconds, ours.seconds, strict=True)]
    return Ratio(comparison, theirs.best / ours.best, min(rounds), max(rounds))


def collect(rounds: Sequence[Mapping[str, float]]) -> dict[str, Series]:
    """Turn rounds of named times into series, in the order in which they first came up.

    :raises ValueError: a round lacks a time that others have.
    """
    names = list(dict.fromkeys(name for each in rounds for name in each))
    for number, each in enumerate(rounds):
        if missing := [name for name in names if name not in each]:
            raise ValueError(f"round {number + 1} lacks {', '.join(missing)}")
    return {name: Series(name, tuple(each[name] for each in rounds)) for name in names}
