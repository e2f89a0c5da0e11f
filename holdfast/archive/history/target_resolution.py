"""Resolution of an expression such as `latest`, a time or a mark to a recovery target."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.archive.format.document import iso
from holdfast.archive.history import schema_history
from holdfast.archive.history.restore_points import intervals, marks_of
from holdfast.archive.history.timeline import Chain, Moment, to_of
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.common.lsn import between_records, parse_position, show_position
from holdfast.common.units import absolute_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.block import Block, Mark, Transactions
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.archive.history.restore_points import Interval
    from holdfast.storage import ObjectStore

_SHOWN = 10


def resolve(state: State, store: ObjectStore, source: str, at: str) -> Moment:
    """Resolve `at` to a recovery target of `source`.

    `latest` is the end of the newest interval of the whole database; where only chosen tables were ever backed up,
    of the newest. A time means every transaction in the order of the log that is known to have been committed by then,
    before the first that was committed later: commit times are not in that order.

    :param at: `latest`, `commit:N`, `lsn:X/Y`, the name of a mark (`mark:NAME`), or a time: in ISO 8601 with its zone,
        or before now such as `-10min`.
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
    marks = marks_of(state, source)
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
        moment = datetime.fromisoformat(absolute_time(text))
    except ValueError as error:
        known = f"; marks here are {', '.join(list(marks)[-_SHOWN:])}" if marks else ""
        raise UsageError(
            f"cannot read {text!r} as a moment: use latest, commit:N, lsn:X/Y, the name of a mark, or a time such as "
            f"2026-03-01T12:00:00Z or -10min{known}"
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
    moment = replace(moment, passed=between.passed_by(position))
    if not between.differ and between.touches is None:
        return replace(moment, approximate=_came_and_went(before.head, after.head))
    in_doubt = replace(moment, doubt=(before, after), touches=between.touches)
    return in_doubt.by(after if between.is_changed_by(position) else before)


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
