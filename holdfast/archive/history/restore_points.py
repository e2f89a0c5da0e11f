"""Restore points of an archive, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.document import iso
from holdfast.archive.history import schema_history
from holdfast.archive.history.timeline import Chain, chains, names_of, to_of, told, why_left
from holdfast.archive.history.waiting_tables import waiting_tables
from holdfast.common.errors import UsageError
from holdfast.common.lsn import show_position
from holdfast.common.words import human_span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from holdfast.archive.format.block import Mark
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.archive.history.timeline import Moment

_FRESH = timedelta(minutes=1)
"""A newest restore point of that age is as new as a backup can be."""


@dataclass(frozen=True)
class Interval:
    """Restorable positions of a chain, from `first` to `last`.

    Where both are equal it is one position.

    :param placed: the newest block in it.
    """

    chain: Chain
    first: int
    last: int
    start: datetime
    end: datetime
    placed: Placed

    def __str__(self) -> str:
        return f"{iso(self.end)} (commit:{self.placed.number})"

    @cached_property
    def whole(self) -> bool:
        """Return whether it has the whole source, not only chosen tables."""
        return any(placed.head.whole for placed in self.snapshots)

    @cached_property
    def snapshots(self) -> tuple[Placed, ...]:
        """Return its snapshots that a restore can begin with."""
        return tuple(placed for placed in self.chain.full if self.first <= to_of(placed.head) <= self.last)


def intervals(state: State, source: str) -> tuple[Interval, ...]:
    """Return a source's restorable intervals in order of time."""
    found = [interval for chain in chains(state, source) for interval in _of_chain(chain)]
    return tuple(sorted(found, key=lambda interval: (interval.end, interval.placed.number)))


def _of_chain(chain: Chain) -> list[Interval]:
    """Return the intervals of a chain.

    The changes make one interval. Each snapshot behind them, to which none are joined yet, is one of its own.
    """
    full, end_of_changes = chain.full, chain.end
    joined = [placed for placed in full if to_of(placed.head) <= end_of_changes] if chain.changes else []
    alone = full[len(joined) :]  # they are in the order of positions
    found = []
    if joined:
        first, last = joined[0], chain.changes[-1]
        start, end = first.head.covers.to_time, max(last.head.covers.to_time, joined[-1].head.covers.to_time)
        newest = max(joined[-1], last, key=lambda placed: (to_of(placed.head), placed.number))
        found.append(Interval(chain, to_of(first.head), chain.end, start, end, newest))
    for placed in alone:
        at, when = to_of(placed.head), placed.head.covers.to_time
        found.append(Interval(chain, at, at, when, when, placed))
    return found


def source_names(state: State) -> tuple[str, ...]:
    """Return the names of the sources with backups here."""
    return tuple(sorted({placed.source for placed in state.blocks.values()}))


def describe(state: State) -> dict[str, Any]:
    """Return intervals, gaps and marks of every source.

    This is what `points --json` prints.
    """
    return {"sources": [_describe_source(state, name) for name in source_names(state)]}


def _describe_source(state: State, name: str) -> dict[str, Any]:
    found = intervals(state, name)
    newest = told(state, name)[-1]
    return {
        "source": name,
        "intervals": [_describe_interval(interval) for interval in found],
        "gaps": [
            {"from": iso(before.end), "to": iso(after.start), "reason": why_gap(before, after, found)}
            for before, after in pairwise(found)
        ]
        + [gap for interval in found for gap in table_gaps(interval)],
        "marks": [
            {"name": mark.name, "at": iso(mark.at), "position": mark.position}
            for mark in marks_of(state, name).values()
        ],
        "not_followed": dict(newest.head.stream.not_followed) if newest.head.stream else {},
        "waiting": [each.model_dump(mode="json") for each in waiting_tables(state, name)],
    }


def _describe_interval(interval: Interval) -> dict[str, Any]:
    return {
        "from": iso(interval.start),
        "to": iso(interval.end),
        "commit": interval.placed.number,
        "position": show_position(interval.last),
        "whole": interval.whole,
        "schema_approximate": list(_approximate(interval)),
    }


def _approximate(interval: Interval) -> Iterator[dict[str, Any]]:
    """Yield the spans without a certainly known schema.

    Each has its times, and also its positions where the log records the changes. `by_object`: it also records what they
    touched, so that the schema is approximate only for objects that were touched on both sides of a position.
    """
    for between in schema_history.stretches(interval.chain):
        before, after = between.before.head, between.after.head
        if between.is_known or to_of(before) >= interval.last or to_of(after) <= interval.first:
            continue
        span = {"from": iso(before.covers.to_time), "to": iso(after.covers.to_time)}
        if between.told:
            span |= {"first": show_position(between.told[0]), "last": show_position(between.told[-1])}
        yield {**span, "changed_back": not between.differ, "by_object": between.touches is not None}


def why_gap(before: Interval, after: Interval, found: Sequence[Interval]) -> str:
    """Return why no moment between two neighbouring intervals can be restored.

    :param found: all intervals of the source.
    """
    if after.chain is not before.chain:
        return after.chain.gap or _why_separate(after.chain)
    later = (each.chain for each in found if each.chain is not after.chain and each.placed.number > after.placed.number)
    begun_anew = next((chain for chain in later if chain.opened), None)
    if begun_anew is not None:
        return f"the changes since the first of them were lost before they were backed up: {begun_anew.gap}"
    return "the changes since the first of them are not backed up yet: the next change backup closes it"


def _why_separate(chain: Chain) -> str:
    first = chain.snapshots[0].head.stream
    if first is not None and not first.opened:  # it was joined to changes when it was made
        return "the backups in between were removed"
    return "no change backup joins these two full backups"


def table_gaps(interval: Interval) -> list[dict[str, Any]]:
    """Return the gaps in an interval when tables were not followed.

    Restores to a gap give the table's rows as they were before, or none. Each ends with the table's next snapshot, or
    when it was dropped. Of tables that are never followed there is only the time before their first snapshot.
    """
    chain = interval.chain
    # Changes from before the first snapshot are in it, and none of their moments is restorable.
    since = (interval.first, True)
    blocks = [placed for placed in _in_order(chain) if (to_of(placed.head), placed.head.kind == "snapshot") >= since]
    names = names_of(chain)
    told = [(placed, {record.id for record in placed.head.tables}) for placed in telling(blocks)]
    return [
        {**gap, "from": max(gap["from"], iso(interval.start)), "to": gap.get("to", iso(interval.end))}
        for table, known in names.items()
        for gap in _gaps_of(table, tuple(known), told)
    ]


def telling(blocks: Iterable[Placed]) -> Iterator[Placed]:
    """Yield blocks, without changes that repeat the list of tables.

    Most of very many changes say the same of all tables as those just before them.
    """
    before = None
    for placed in blocks:
        stream = placed.head.stream if placed.head.kind == "changes" else None
        now = (stream.followed, stream.not_followed, stream.dropped) if stream else None
        if now is None or now != before:
            yield placed
        before = now


def _gaps_of(table: str, names: Sequence[str], told: Iterable[tuple[Placed, Collection[str]]]) -> list[dict[str, Any]]:
    """Return the gaps of a table.

    The last one may have no end.

    :param names: of it, the newest first.
    :param told: blocks, each with the ids of the tables that it has rows of.
    """
    found: list[dict[str, Any]] = []
    is_open = has_rows = was_followed = False
    for placed, tables in told:
        block = placed.head
        stream = block.stream
        is_followed = stream is not None and int(table) in stream.followed
        if block.kind == "snapshot" and table in tables:
            if is_open:
                found[-1]["to"] = iso(block.covers.to_time)
            is_open, has_rows = False, True
        elif block.kind == "changes" and stream is not None and not is_open and not is_followed:
            is_told = not stream.not_followed.keys().isdisjoint(names)
            if was_followed or (is_told and not has_rows):
                start = iso(block.covers.from_time)
                found.append({"table": names[0], "from": start, "reason": why_left(stream, names)})
                is_open = True
        if placed.begins:  # of other tables it tells what is so behind the block that it begins
            continue
        if stream is not None and int(table) in stream.dropped:
            if is_open:
                found[-1]["to"] = iso(block.covers.to_time)
            break
        was_followed = is_followed
    return found


def _in_order(chain: Chain) -> list[Placed]:
    """Return a chain's blocks in the order of the log.

    Changes up to a snapshot come before it, whenever they were backed up.
    """
    blocks = (*chain.snapshots, *chain.changes)
    return sorted(blocks, key=lambda placed: (to_of(placed.head), placed.head.kind == "snapshot", placed.number))


def only_source(state: State, name: str | None, at: str = "") -> str:
    """Return the named source, or the only one there is.

    :param at: a recovery target; a commit names its source.
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
    having = {placed.source for placed in state.blocks.values() if at == f"commit:{placed.number}"}
    if len(having) == 1:
        return having.pop()
    if len(names) > 1:
        raise UsageError(f"say which source; this archive holds several: {known}")
    return names[0]


def marks_of(state: State, source: str) -> dict[str, Mark]:
    """Return a source's marks by name.

    Of several with one name it is the newest.
    """
    found: dict[str, Mark] = {}
    for placed in told(state, source):
        found.update((mark.name, mark) for mark in placed.head.marks)
    return found


def age_of_newest(state: State, moment: Moment, now: datetime) -> str:
    """Return a sentence on what the source may have more than its newest restore point.

    It is "" where that is younger than a minute, or where the recovery target is an earlier one.
    """
    newest = intervals(state, moment.source)[-1]
    age = now - newest.end
    if moment.position != newest.last or age < _FRESH:
        return ""
    return (
        f"the newest restorable moment of {moment.source} is {human_span(age)} old: if the source has changed since, "
        f"run 'holdfast backup ARCHIVE --source {moment.source}' first"
    )
