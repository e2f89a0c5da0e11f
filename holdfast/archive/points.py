"""Restore points: the moments an archive can bring a source back to, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.archive.model import iso
from holdfast.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from holdfast.archive.state import Placed, State


@dataclass(frozen=True)
class Interval:
    """Every moment from `start` to `end` is restorable; one moment where they are equal."""

    start: datetime
    end: datetime
    placed: Placed

    def __str__(self) -> str:
        return f"{iso(self.end)} (commit:{self.placed.commit})"


def intervals(state: State, source: str) -> tuple[Interval, ...]:
    """Return a source's restorable intervals in order of time."""
    found = [
        Interval(placed.block.covers.from_time, placed.block.covers.to_time, placed)
        for placed in state.blocks.values()
        if placed.block.source.name == source
    ]
    return tuple(sorted(found, key=lambda interval: (interval.end, interval.placed.commit)))


def source_names(state: State) -> tuple[str, ...]:
    """Return the names of the sources that have backups here."""
    return tuple(sorted({placed.block.source.name for placed in state.blocks.values()}))


def describe(state: State) -> dict[str, Any]:
    """Return intervals and gaps of every source, as `points --json` prints them."""
    return {"sources": [_describe_source(state, name) for name in source_names(state)]}


def _describe_source(state: State, name: str) -> dict[str, Any]:
    found = intervals(state, name)
    return {
        "source": name,
        "intervals": [
            {
                "from": iso(interval.start),
                "to": iso(interval.end),
                "commit": interval.placed.commit,
                "position": interval.placed.block.covers.to_position,
                "whole": interval.placed.block.whole,
            }
            for interval in found
        ],
        "gaps": [
            {
                "from": iso(before.end),
                "to": iso(after.start),
                "reason": "no change backup joins these two full backups",
            }
            for before, after in pairwise(found)
        ],
    }


def only_source(state: State, name: str | None) -> str:
    """Return the source meant: the one named, or the only one there is.

    :raises UsageError: no such source, none at all, or several and none was named.
    """
    names = source_names(state)
    if name is not None and name in names:
        return name
    if not names:
        raise UsageError("this archive holds no backups yet: run 'holdfast backup' first")
    known = ", ".join(names)
    if name is not None:
        raise UsageError(f"this archive holds no backups of {name!r}; it has: {known}")
    if len(names) > 1:
        raise UsageError(f"this archive holds several sources ({known}): say which with --source")
    return names[0]


def resolve(state: State, source: str, at: str) -> Placed:
    """Find what restores `source` to the moment `at`.

    `latest` is the newest backup of the whole database; where only chosen tables were ever backed up, the
    newest of those.

    :param at: `latest`, `commit:N`, or a time in ISO 8601 with its zone.
    :raises UsageError: not such an expression, or a time without a zone.
    :raises RefusedError: that moment is not restorable; the nearest ones are named.
    """
    found = intervals(state, source)
    if at == "latest":
        whole = [interval for interval in found if interval.placed.block.whole]
        return (whole or found)[-1].placed
    if at.startswith("commit:"):
        return _by_commit(found, source, at)
    return _by_time(found, source, _parse_time(at))


def _by_commit(found: tuple[Interval, ...], source: str, at: str) -> Placed:
    number = at.removeprefix("commit:")
    for interval in found:
        if number == str(interval.placed.commit):
            return interval.placed
    known = ", ".join(f"commit:{interval.placed.commit}" for interval in found[-10:])
    raise RefusedError(f"{at} is no restore point of {source}; it has: {known}")


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read {text!r} as a moment: use latest, commit:N, or a time such as 2026-03-01T12:00:00Z"
        ) from error
    if moment.tzinfo is None:
        raise UsageError(f"{text} names no time zone: write {text}Z for UTC, or add an offset such as +02:00")
    return moment


def _by_time(found: tuple[Interval, ...], source: str, moment: datetime) -> Placed:
    for interval in reversed(found):
        if interval.start <= moment <= interval.end:
            return interval.placed
    before = [f"before it {interval}" for interval in found if interval.end < moment]
    after = [f"after it {interval}" for interval in found if interval.start > moment]
    nearest = " and ".join([*before[-1:], *after[:1]])
    raise RefusedError(f"{source} cannot be restored to {iso(moment)}; the nearest restorable moments are: {nearest}")
