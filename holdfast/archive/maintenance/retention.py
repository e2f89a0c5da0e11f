"""Retention: the restore points that stay, by rules, by holds, and as the newest backups.

The rules, such as `daily=14`, are those of restic and Borg: each keeps the newest points of its periods, and a point
stays if one of them keeps it. Periods are those of UTC; one without a backup does not count.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.history.coverage import to_of
from holdfast.archive.history.holds import standing
from holdfast.archive.history.restore_points import points_of
from holdfast.archive.history.table_bases import TableBases
from holdfast.common.errors import RefusedError, UsageError
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.model import Hold
    from holdfast.archive.history.coverage import CoveredRange
    from holdfast.archive.history.restore_points import RestorePoint

HOW: Final = "write rules as last=2, hourly=48, daily=14, weekly=8, monthly=12, yearly=5 or within=7d"

_PERIODS: Final[Mapping[str, Callable[[datetime], Any]]] = {
    "hourly": lambda at: (at.date(), at.hour),
    "daily": lambda at: at.date(),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
    "yearly": lambda at: at.year,
}

_LAST, _WITHIN = "last", "within"
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_SPAN: Final = re.compile(r"([0-9]{1,6})([hdwmy])", re.ASCII)
_UNITS: Final = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=31),
    "y": timedelta(days=366),
}
"""A month and a year are the longest ones there are: what is to stay for so long never goes a day too early."""


@dataclass(frozen=True)
class Rules:
    """Rules on the restore points that stay."""

    counts: Mapping[str, int]  # how many points each rule keeps, by its name
    within: str = ""  # as written, such as `7d`: everything that is no older stays. "" without this rule.

    @property
    def window(self) -> timedelta:
        """Return how far back everything stays; zero without that rule."""
        match = _SPAN.fullmatch(self.within)
        return int(match[1]) * _UNITS[match[2]] if match else timedelta()

    def __str__(self) -> str:
        within = [f"{_WITHIN}={self.within}"] if self.within else []
        return ", ".join([*(f"{name}={count}" for name, count in self.counts.items()), *within]) or "nothing"


NOTHING: Final = Rules({})  # keeps no restore point, not even the newest: for a source that is removed


def parse_rules(words: Iterable[str]) -> Rules:
    """Read rules such as `daily=14`; UsageError: unknown, or two different ones; RefusedError: they keep nothing."""
    values: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        _check_rule(word, name, value)
        if values.setdefault(name, value) != value:
            raise UsageError(f"{name} is given as {values[name]} and as {value}: say it once")
    within = values.pop(_WITHIN, "")
    rules = Rules({name: int(value) for name, value in values.items()}, within)
    if not values and not within:
        raise RefusedError(f"nothing says what is to stay, so that nothing would: {HOW}")
    if not any(rules.counts.values()) and not rules.window:
        raise RefusedError(f"{rules} keeps nothing: {HOW}")
    return rules


def _check_rule(word: str, name: str, value: str) -> None:
    if name == _WITHIN:
        if not _SPAN.fullmatch(value):
            raise UsageError(f"cannot read {word!r}: write a number and h, d, w, m or y, such as within=7d")
        return
    if name != _LAST and name not in _PERIODS:
        raise UsageError(f"there is no rule {name!r}: {HOW}")
    if not _COUNT.fullmatch(value):
        raise UsageError(f"cannot read {word!r}: write how many are to stay, such as {name}=7")


@dataclass(frozen=True)
class Kept:
    """Positions of a covered range that stay, and why."""

    covered: CoveredRange
    # low, high: from the one to the other; without an end, everything behind the first, and what is joined to it
    low: int
    high: int | None
    why: str  # in words, such as `daily=14`

    def holds(self, point: RestorePoint) -> bool:
        return (
            point.covered.chain is self.covered.chain
            and self.low <= point.position
            and (self.high is None or point.position <= self.high)
        )


def kept(
    ranges: Sequence[CoveredRange], rules: Rules, holds: Iterable[Hold], now: datetime, min_chains: int
) -> Iterator[Kept]:
    """Yield the positions of a source that stay.

    Chosen tables only neither take the place of the whole database nor lose theirs to it: the rules are applied to the
    ones and to the others.

    :param ranges: what of it is covered, in order of time.
    :param now: by the store's clock.
    :param min_chains: so many of the newest full backups stay, with all that follows them.
    """
    points = points_of(ranges)
    for is_whole in (True, False):
        yield from _by_rules([point for point in points if point.covered.whole is is_whole], rules)
    if rules.window:
        yield from _by_age(ranges, _since(now, rules.window), f"{_WITHIN}={rules.within}")
    for hold in holds:
        yield from _by_hold(ranges, hold)
    for covered, full in last_good(ranges, min_chains):
        yield Kept(covered, to_of(full.head), None, "last chain")


def _since(now: datetime, window: timedelta) -> datetime:
    return now - min(window, now - datetime.min.replace(tzinfo=UTC))


def _by_rules(points: Sequence[RestorePoint], rules: Rules) -> Iterator[Kept]:
    for name, count in rules.counts.items():
        seen: set[Any] = set()
        for point in reversed(points):
            period = _PERIODS[name](point.at.astimezone(UTC)) if name in _PERIODS else point
            if len(seen) < count and period not in seen:
                seen.add(period)
                yield Kept(point.covered, point.position, point.position, f"{name}={count}")


def _by_age(ranges: Iterable[CoveredRange], since: datetime, why: str) -> Iterator[Kept]:
    """Yield the newest full backup of each range before a time, and all that follows it."""
    for covered in ranges:
        if covered.end >= since:
            before = [placed for placed in covered.snapshots if placed.head.covers.to_time <= since]
            yield Kept(covered, to_of((before or covered.snapshots[:1])[-1].head), None, why)


def _by_hold(ranges: Iterable[CoveredRange], hold: Hold) -> Iterator[Kept]:
    """Yield the positions that a hold keeps, which also cover the time it stands for."""
    _, covered = standing(ranges, hold)
    if covered is None:
        return
    position = parse_position(hold.position)
    before = [placed.head for placed in covered.snapshots if to_of(placed.head) <= position]
    early = [block for block in before if block.covers.to_time <= hold.at]
    low = to_of(early[-1]) if early and early[-1] is not before[-1] else position
    is_alone = to_of(before[-1]) == position and before[-1].covers.to_time >= hold.at
    high = position if is_alone else _reaching(covered.chain.changes, position, hold.at)
    yield Kept(covered, low, high, f"hold {hold.id}")


def _reaching(changes: Sequence[Placed], position: int, at: datetime) -> int:
    """Return the end of the changes that cover a time: the position, or one behind it."""
    first = bisect_left(changes, position, key=lambda placed: to_of(placed.head))
    if first == len(changes) or changes[first].head.covers.to_time >= at:
        return position
    later = (to_of(placed.head) for placed in changes[first:] if placed.head.covers.to_time >= at)
    return next(later, position)


def last_good(ranges: Sequence[CoveredRange], min_chains: int) -> Iterator[tuple[CoveredRange, Placed]]:
    """Yield the full backups that always stay, with their covered ranges.

    Those are the one of the newest range, that of `latest`, the newest ones, and the newest of every table that is
    still there: one of chosen tables does not stand for the others.
    """
    full = [(covered, placed) for covered in ranges for placed in covered.snapshots]
    full.sort(key=lambda pair: pair[1].head.after or pair[1].number)
    whole = [pair for pair in full if pair[1].head.whole] or full
    newest = [covered for covered in ranges if covered.whole] or ranges
    chosen = {placed.id: covered for covered, placed in whole[-min_chains:]}
    chosen.update((covered.snapshots[-1].id, covered) for covered in (*ranges[-1:], *newest[-1:]))
    live = TableBases()
    for _, placed in full:
        live.add(placed)
    having = {placed.id for placed in live.blocks()}
    for covered, placed in full:
        if placed.id in having or chosen.get(placed.id) is covered:
            yield covered, placed
