"""Restore points of an archive, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.document import iso
from holdfast.archive.history import schema_history
from holdfast.archive.history.timeline import Chain, Moment, chains, names_of, to_of, told, why_left
from holdfast.archive.history.waiting_tables import waiting_tables
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.common.lsn import between_records, parse_position, show_position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from holdfast.archive.format.block import Block, Mark, Transactions
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

_SHOWN = 10


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
            {"from": iso(before.end), "to": iso(after.start), "reason": _why_gap(before, after, found)}
            for before, after in pairwise(found)
        ]
        + [gap for interval in found for gap in table_gaps(interval)],
        "marks": [
            {"name": mark.name, "at": iso(mark.at), "position": mark.position} for mark in _marks(state, name).values()
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

    Each has its times, and also its positions where the log records the changes.
    """
    for between in schema_history.stretches(interval.chain):
        before, after = between.before.head, between.after.head
        if between.is_known or to_of(before) >= interval.last or to_of(after) <= interval.first:
            continue
        span = {"from": iso(before.covers.to_time), "to": iso(after.covers.to_time)}
        if between.told:
            span |= {"first": show_position(between.told[0]), "last": show_position(between.told[-1])}
        yield {**span, "changed_back": not between.differ}


def _why_gap(before: Interval, after: Interval, found: Sequence[Interval]) -> str:
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


def only_source(state: State, name: str | None) -> str:
    """Return the named source, or the only one there is.

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


def resolve(state: State, store: ObjectStore, source: str, at: str) -> Moment:
    """Resolve `at` to a recovery target of `source`.

    `latest` is the end of the newest interval of the whole database; where only chosen tables were ever backed up,
    of the newest. A time means every transaction in the order of the log that is known to have been committed by then,
    before the first that was committed later: commit times are not in that order.

    :param at: `latest`, `commit:N`, `lsn:X/Y`, the name of a mark (`mark:NAME`), or a time in ISO 8601 with its zone.
    :param store: where a time's place among a block's transactions is looked up.
    :raises UsageError: not such an expression, or a time without a zone.
    :raises RefusedError: that moment is not restorable; the nearest ones are named.
    :raises DamagedError: it may be in a commit that cannot be read; what can be restored is named.
    """
    found = intervals(state, source)
    newest = ([interval for interval in found if interval.whole] or found)[-1]
    try:
        return _find(state, store, source, at, found, newest)
    except RefusedError as error:
        if not state.cut_off:
            raise
        last = f"the newest before that is commit:{newest.placed.number}, {iso(newest.end)}"
        raise DamagedError(f"{error}; {state.cut_off} Perhaps it is behind that; {last}") from error


def _find(
    state: State, store: ObjectStore, source: str, at: str, found: Sequence[Interval], newest: Interval
) -> Moment:
    if at == "latest":
        if state.cut_off:
            raise RefusedError("the latest moment is not known")
        return moment_of(newest, source, newest.last, newest.end)
    if at.startswith("commit:"):
        return _by_commit(found, source, at)
    if at.startswith("lsn:"):
        return _by_position(found, source, at)
    marks = _marks(state, source)
    name = at.removeprefix("mark:")
    if name in marks:
        return _by_mark(found, source, marks[name])
    if at != name:
        known = ", ".join(list(marks)[-_SHOWN:]) or "none"
        raise RefusedError(f"{source} has no mark {name!r} in its backups; they hold: {known}")
    return _by_time(found, store, source, _parse_time(at, marks))


def _by_commit(found: Sequence[Interval], source: str, at: str) -> Moment:
    numbers = {}
    for interval in found:
        for placed in (*interval.snapshots, *interval.chain.changes):
            if interval.first <= to_of(placed.head) <= interval.last:
                numbers[placed.number] = (interval, placed.head)
    number = at.removeprefix("commit:")
    if number.isdecimal() and int(number) in numbers:
        interval, block = numbers[int(number)]
        return moment_of(interval, source, to_of(block), block.covers.to_time)
    known = ", ".join(f"commit:{each}" for each in sorted(numbers)[-_SHOWN:])
    raise RefusedError(f"{at} is no restore point of {source}; it has: {known}")


def _by_position(found: Sequence[Interval], source: str, at: str) -> Moment:
    try:
        position = parse_position(at.removeprefix("lsn:"))
    except ValueError as error:
        raise UsageError(f"cannot read {at!r}: {error}") from error
    for interval in reversed(found):
        if (reached := _within(interval, position)) is not None:
            return moment_of(interval, source, reached, reached_at(interval, reached))
    known = ", ".join(f"lsn:{show_position(each.first)} to lsn:{show_position(each.last)}" for each in found[-_SHOWN:])
    raise RefusedError(f"{source} cannot be restored to {at}; what is here: {known}")


def _within(interval: Interval, position: int) -> int | None:
    """Return the interval's position for another one, or None.

    None means that it is before or behind the interval. What a server tells of its log's end may lie behind the header
    of a page that it has not written yet.
    """
    if interval.first <= position and between_records(position) <= interval.last:
        return min(position, interval.last)
    return None


def _by_mark(found: Sequence[Interval], source: str, mark: Mark) -> Moment:
    position = parse_position(mark.position)
    for interval in reversed(found):
        reached = _within(interval, position)
        if reached is not None and _has(interval, mark):
            return moment_of(interval, source, reached, mark.at)
    raise RefusedError(
        f"{source} cannot be restored to the mark {mark.name!r}: the full backup before it is not here any more, or "
        "there was none"
    )


def _has(interval: Interval, mark: Mark) -> bool:
    return any(mark in placed.head.marks for placed in interval.chain.changes)


def _marks(state: State, source: str) -> dict[str, Mark]:
    """Return a source's marks by name.

    Of several with one name it is the newest.
    """
    found: dict[str, Mark] = {}
    for placed in told(state, source):
        found.update((mark.name, mark) for mark in placed.head.marks)
    return found


def reached_at(interval: Interval, position: int) -> datetime:
    """Return the latest time when a position was reached."""
    for placed in (*interval.snapshots, *interval.chain.changes):
        if to_of(placed.head) == position:
            return placed.head.covers.to_time
    return next(
        (placed.head.covers.to_time for placed in interval.chain.changes if to_of(placed.head) >= position),
        interval.end,
    )


def _parse_time(text: str, marks: dict[str, Mark]) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        known = f"; marks here are {', '.join(list(marks)[-_SHOWN:])}" if marks else ""
        raise UsageError(
            f"cannot read {text!r} as a moment: use latest, commit:N, lsn:X/Y, the name of a mark, or a time such as "
            f"2026-03-01T12:00:00Z{known}"
        ) from error
    if moment.tzinfo is None:
        raise UsageError(
            f"{text} names no time zone: write {moment.isoformat()}Z for UTC, or add an offset such as +02:00"
        )
    return moment


def _by_time(found: Sequence[Interval], store: ObjectStore, source: str, moment: datetime) -> Moment:
    for interval in reversed(found):
        if interval.start <= moment <= interval.end:
            position = _position_at(interval, store, moment)
            if position >= interval.first:
                return moment_of(interval, source, position, moment)
    before = [f"before it {interval}" for interval in found if interval.end < moment]
    after = [f"after it {iso(interval.start)} (commit:{interval.snapshots[0].number})" for interval in found
             if interval.start > moment]  # fmt: skip
    nearest = " and ".join([*before[-1:], *after[:1]])
    future = "it is in the future, and " if moment > datetime.now(UTC) else ""
    raise RefusedError(
        f"{source} cannot be restored to {iso(moment)}: {future}the nearest restorable moments are: {nearest}"
    )


def _position_at(interval: Interval, store: ObjectStore, moment: datetime) -> int:
    """Return the position of a recovery target given as a time.

    It is the end of what is known to have been committed by then, before all that is known to be later. Transactions
    that change no followed table are not listed, nor is it known when definitions were changed: only each cut tells
    that they came before it. So it is not gone on to the first later transaction that is listed: what came before that
    one may have come after the time.
    """
    from holdfast.archive.history.commit_times import ends, first_later  # pyarrow, which no other moment needs

    told = [
        placed
        for placed in schema_history.cuts(interval.chain)
        if interval.first <= to_of(placed.head) <= interval.last
    ]
    known = max((to_of(placed.head) for placed in told if placed.head.covers.to_time <= moment), default=interval.first)
    reached: Transactions | None = None
    for placed in interval.chain.changes:
        transactions = placed.head.transactions
        if to_of(placed.head) <= interval.first or transactions is None:
            continue
        later = first_later(store, transactions, moment, since=interval.first)
        if later is not None:
            before = ends(store, transactions, before=later) or ends(store, reached)
            return min(later, max([known, *before]))
        # What is known already is not looked up: a list that is damaged costs no moment behind its backup.
        reached = transactions if to_of(placed.head) > known else None
    return max([known, *ends(store, reached)])


def moment_of(interval: Interval, source: str, position: int, at: datetime) -> Moment:
    """Build the recovery target of a position.

    It has the newest snapshot before it, and the schema of the position.
    """
    full = [placed for placed in interval.snapshots if to_of(placed.head) <= position][-1]
    before = full
    after = None
    for cut in schema_history.cuts(interval.chain):
        if to_of(cut.head) <= position:
            before = cut if to_of(cut.head) >= to_of(full.head) else before
        elif after is None:
            after = cut
    sequences = _sequences(interval.chain, position) or before
    is_told = sequences.head.is_cut and to_of(sequences.head) == position
    moment = Moment(
        source,
        position,
        at,
        interval.chain,
        full,
        before,
        sequences,
        sequences_before=None if is_told else before,
        next_cut=None if is_told else after,
    )
    if after is None and to_of(before.head) < position:
        return replace(
            moment,
            approximate="the last backup of changes was ended before it had told the schema: taken is that of "
            f"{iso(before.head.covers.to_time)}",
        )
    if after is None or not _is_behind(before.head, position, at):
        return moment
    if after.head.schema_since and parse_position(after.head.schema_since) <= position:
        return replace(moment, schema=after)
    between = schema_history.between(interval.chain, before, after)
    if (known := between.schema_at(position)) is not None:
        return replace(moment, schema=known)
    if not between.differ:
        return replace(moment, approximate=_came_and_went(before.head, after.head))
    return replace(moment, doubt=(before, after)).by(after if between.is_changed_by(position) else before)


def _came_and_went(before: Block, after: Block) -> str:
    return (
        f"definitions were changed between {iso(before.covers.to_time)} and {iso(after.covers.to_time)}, and are again "
        "as they were: what was made and dropped in between, such as a table with its rows, is not here"
    )


def _is_behind(cut: Block, position: int, at: datetime) -> bool:
    """Return whether a recovery target is later than a cut.

    Where nothing is known to have come between, both have one position.
    """
    return to_of(cut) < position or cut.covers.to_time < at


def _sequences(chain: Chain, position: int) -> Placed | None:
    """Find the first block with sequence values from a position on.

    One that records those of its own end is best.
    """
    found = (placed for placed in (*chain.snapshots, *chain.changes) if to_of(placed.head) >= position)
    telling = (placed for placed in found if placed.head.is_cut or placed.head.sequences)
    return min(telling, key=lambda placed: (to_of(placed.head), not placed.head.is_cut, placed.number), default=None)
