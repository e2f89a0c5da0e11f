"""Restore points of an archive, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.document import iso
from holdfast.archive.history import schema_history
from holdfast.archive.history.coverage import blocks_of, covered_ranges, to_of, why_gap
from holdfast.archive.history.recovery_target import names_of, why_left
from holdfast.common.errors import UsageError
from holdfast.common.lsn import show_position
from holdfast.common.words import human_span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from holdfast.archive.format.block import Mark, WaitingTable
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import Chain, CoveredRange
    from holdfast.archive.history.recovery_target import RecoveryTarget

_FRESH = timedelta(minutes=1)  # a newest restore point of that age is as new as a backup can be


@dataclass(frozen=True, eq=False)
class RestorePoint:
    """End of a backup that can be restored, named as in `commit:N`."""

    covered: CoveredRange
    position: int
    at: datetime
    commit: int


def points_of(ranges: Iterable[CoveredRange]) -> list[RestorePoint]:
    """Return the ends of all backups in covered ranges, the oldest first; one a position, named by the full one."""
    points = []
    for covered in ranges:
        ends = {to_of(placed.head): placed for placed in (*covered.changes, *covered.snapshots)}
        points += [
            RestorePoint(covered, position, placed.head.covers.to_time, placed.number)
            for position, placed in ends.items()
        ]
    return sorted(points, key=lambda point: (point.at, point.commit))


def source_names(state: State) -> tuple[str, ...]:
    return tuple(sorted({placed.source for placed in state.blocks.values()}))


def describe(state: State) -> dict[str, Any]:
    """Return covered ranges, gaps and marks of every source, as `points --json` prints them."""
    return {"sources": [_describe_source(state, name) for name in source_names(state)]}


def _describe_source(state: State, name: str) -> dict[str, Any]:
    ranges = covered_ranges(state, name)
    newest = blocks_of(state, name)[-1]
    return {
        "source": name,
        "intervals": [_describe_range(covered) for covered in ranges],
        "gaps": [
            {"from": iso(before.end), "to": iso(after.start), "reason": why_gap(before, after, ranges)}
            for before, after in pairwise(ranges)
        ]
        + [gap for covered in ranges for gap in table_gaps(covered)],
        "marks": [
            {"name": mark.name, "at": iso(mark.at), "position": mark.position}
            for mark in marks_of(state, name).values()
        ],
        "not_followed": dict(newest.head.stream.not_followed) if newest.head.stream else {},
        "waiting": [each.model_dump(mode="json") for each in waiting_tables(state, name)],
    }


def _describe_range(covered: CoveredRange) -> dict[str, Any]:
    return {
        "from": iso(covered.start),
        "to": iso(covered.end),
        "commit": covered.placed.number,
        "position": show_position(covered.last),
        "whole": covered.whole,
        "schema_approximate": list(_approximate(covered)),
    }


def _approximate(covered: CoveredRange) -> Iterator[dict[str, Any]]:
    """Yield the times without a certainly known schema, with positions where the log records the changes.

    `by_object`: it also records what they touched, so that the schema is approximate only for objects that were touched
    on both sides of a position.
    """
    for between in schema_history.schema_changes(covered.chain):
        before, after = between.before.head, between.after.head
        if between.is_known or to_of(before) >= covered.last or to_of(after) <= covered.first:
            continue
        span = {"from": iso(before.covers.to_time), "to": iso(after.covers.to_time)}
        if between.changed_at:
            span |= {"first": show_position(between.changed_at[0]), "last": show_position(between.changed_at[-1])}
        yield {**span, "changed_back": not between.differ, "by_object": between.touches is not None}


def table_gaps(covered: CoveredRange) -> list[dict[str, Any]]:
    """Return the gaps in a covered range when tables were not followed.

    Restores to a gap give the table's rows as they were before, or none. Each ends with the table's next snapshot, or
    when it was dropped. Of tables that are never followed there is only the time before their first snapshot.
    """
    chain = covered.chain
    # Changes from before the first snapshot are in it, and none of their moments is restorable.
    since = (covered.first, True)
    blocks = [placed for placed in _in_order(chain) if (to_of(placed.head), placed.head.kind == "snapshot") >= since]
    names = names_of(chain)
    blocks_with_tables = [(placed, {record.id for record in placed.head.tables}) for placed in telling(blocks)]
    return [
        {**gap, "from": max(gap["from"], iso(covered.start)), "to": gap.get("to", iso(covered.end))}
        for table, labels in names.items()
        for gap in _gaps_of(table, tuple(labels), blocks_with_tables)
    ]


def telling(blocks: Iterable[Placed]) -> Iterator[Placed]:
    """Yield blocks, without changes that repeat the list of tables of those just before, as most do."""
    before = None
    for placed in blocks:
        stream = placed.head.stream if placed.head.kind == "changes" else None
        now = (stream.followed, stream.not_followed, stream.dropped) if stream else None
        if now is None or now != before:
            yield placed
        before = now


def _gaps_of(
    table: str, names: Sequence[str], blocks: Iterable[tuple[Placed, Collection[str]]]
) -> list[dict[str, Any]]:
    """Return the gaps of a table, of which the last may have no end.

    :param names: of it, the newest first.
    :param blocks: blocks, each with the ids of the tables that it has rows of.
    """
    gaps: list[dict[str, Any]] = []
    is_open = has_rows = was_followed = False
    for placed, tables in blocks:
        block = placed.head
        stream = block.stream
        is_followed = stream is not None and int(table) in stream.followed
        if block.kind == "snapshot" and table in tables:
            if is_open:
                gaps[-1]["to"] = iso(block.covers.to_time)
            is_open, has_rows = False, True
        elif block.kind == "changes" and stream is not None and not is_open and not is_followed:
            is_told = not stream.not_followed.keys().isdisjoint(names)
            if was_followed or (is_told and not has_rows):
                start = iso(block.covers.from_time)
                gaps.append({"table": names[0], "from": start, "reason": why_left(stream, names)})
                is_open = True
        if placed.begins:  # of other tables it tells what is so behind the block that it begins
            continue
        if stream is not None and int(table) in stream.dropped:
            if is_open:
                gaps[-1]["to"] = iso(block.covers.to_time)
            break
        was_followed = is_followed
    return gaps


def _in_order(chain: Chain) -> list[Placed]:
    """Return a chain's blocks in the order of the log: changes up to a snapshot come before it."""
    blocks = (*chain.snapshots, *chain.changes)
    return sorted(blocks, key=lambda placed: (to_of(placed.head), placed.head.kind == "snapshot", placed.number))


def waiting_tables(state: State, source: str) -> tuple[WaitingTable, ...]:
    """Return the tables that wait to start over, by name: their newest rows are in no backup."""
    backups = [placed.head for placed in blocks_of(state, source) if placed.head.after is None]
    newest = backups[-1] if backups else None
    if newest is None or newest.stream is None or (newest.kind == "snapshot" and not newest.supplement):
        return ()
    return tuple(sorted(newest.stream.waiting.values(), key=lambda waiting: waiting.table))


def only_source(state: State, name: str | None, at: str = "") -> str:
    """Return the named source, the only one, or that of the commit which the recovery target names.

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
    """Return a source's marks by name; of several with one name the newest."""
    marks: dict[str, Mark] = {}
    for placed in blocks_of(state, source):
        marks.update((mark.name, mark) for mark in placed.head.marks)
    return marks


def age_of_newest(state: State, target: RecoveryTarget, now: datetime) -> str:
    """Return what the source may have more than its newest restore point; "" for a fresh or earlier target."""
    newest = covered_ranges(state, target.source)[-1]
    age = now - newest.end
    if target.position != newest.last or age < _FRESH:
        return ""
    return (
        f"the newest restorable moment of {target.source} is {human_span(age)} old: if the source has changed since, "
        f"run 'holdfast backup ARCHIVE --source {target.source}' first"
    )
