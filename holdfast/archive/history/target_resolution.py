"""Resolution of an expression such as `latest`, a time or a mark to a recovery target."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.archive.format.document import iso
from holdfast.archive.history.coverage import covered_ranges, to_of
from holdfast.archive.history.recovery_target import target_at
from holdfast.archive.history.restore_points import marks_of
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.common.lsn import between_records, parse_position, show_position
from holdfast.common.units import absolute_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.block import Block, Mark, Transactions
    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import CoveredRange
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.storage import ObjectStore

_SHOWN = 10


def resolve(state: State, store: ObjectStore, source: str, at: str) -> RecoveryTarget:
    """Resolve `at` to a recovery target of `source`.

    `latest` is the end of the newest range of the whole database; where only chosen tables were ever backed up, of the
    newest. A time means every transaction in the order of the log that is known to have been committed by then, before
    the first that was committed later: commit times are not in that order.

    :param at: `latest`, `commit:N`, `lsn:X/Y`, the name of a mark (`mark:NAME`), or a time: in ISO 8601 with its zone,
        or before now such as `-10min`.
    :raises UsageError: not such an expression, or a time without a zone.
    :raises RefusedError: it is not restorable; the nearest ones are named.
    :raises DamagedError: it may be in a commit that cannot be read; what can be restored is named.
    """
    ranges = covered_ranges(state, source)
    newest = ([covered for covered in ranges if covered.whole] or ranges)[-1]
    try:
        return _find(state, store, source, at, ranges, newest)
    except RefusedError as error:
        if not state.cut_off:
            raise
        last = f"the newest before that is commit:{newest.placed.number}, {iso(newest.end)}"
        raise DamagedError(f"{error}; {state.cut_off} Perhaps it is behind that; {last}") from error


def _find(
    state: State, store: ObjectStore, source: str, at: str, ranges: Sequence[CoveredRange], newest: CoveredRange
) -> RecoveryTarget:
    if at == "latest":
        if state.cut_off:
            raise RefusedError("the latest moment is not known")
        return target_at(newest, source, newest.last, newest.end)
    if at.startswith("commit:"):
        return _by_commit(ranges, source, at)
    if at.startswith("lsn:"):
        return _by_position(ranges, source, at)
    marks = marks_of(state, source)
    name = at.removeprefix("mark:")
    if name in marks:
        return _by_mark(ranges, source, marks[name])
    if at != name:
        known = ", ".join(list(marks)[-_SHOWN:]) or "none"
        raise RefusedError(f"{source} has no mark {name!r} in its backups; they hold: {known}")
    return _by_time(ranges, store, source, _parse_time(at, marks))


def _by_commit(ranges: Sequence[CoveredRange], source: str, at: str) -> RecoveryTarget:
    numbers: dict[int, tuple[CoveredRange, Block]] = {}
    for covered in ranges:
        numbers |= {placed.number: (covered, placed.head) for placed in (*covered.snapshots, *covered.changes)}
    number = at.removeprefix("commit:")
    if number.isdecimal() and int(number) in numbers:
        covered, block = numbers[int(number)]
        return target_at(covered, source, to_of(block), block.covers.to_time)
    known = ", ".join(f"commit:{each}" for each in sorted(numbers)[-_SHOWN:])
    raise RefusedError(f"{at} is no restore point of {source}; it has: {known}")


def _by_position(ranges: Sequence[CoveredRange], source: str, at: str) -> RecoveryTarget:
    try:
        position = parse_position(at.removeprefix("lsn:"))
    except ValueError as error:
        raise UsageError(f"cannot read {at!r}: {error}") from error
    for covered in reversed(ranges):
        if (reached := _within(covered, position)) is not None:
            return target_at(covered, source, reached, covered.reached_at(reached))
    known = ", ".join(f"lsn:{show_position(each.first)} to lsn:{show_position(each.last)}" for each in ranges[-_SHOWN:])
    raise RefusedError(f"{source} cannot be restored to {at}; what is here: {known}")


def _within(covered: CoveredRange, position: int) -> int | None:
    """Return the range's position for another one; None: it is before or behind the range.

    The end of a server's log may lie behind the header of a page that it has not written yet.
    """
    if covered.first <= position and between_records(position) <= covered.last:
        return min(position, covered.last)
    return None


def _by_mark(ranges: Sequence[CoveredRange], source: str, mark: Mark) -> RecoveryTarget:
    position = parse_position(mark.position)
    for covered in reversed(ranges):
        reached = _within(covered, position)
        if reached is not None and _has(covered, mark):
            return target_at(covered, source, reached, mark.at)
    raise RefusedError(
        f"{source} cannot be restored to the mark {mark.name!r}: the full backup before it is not here any more, or "
        "there was none"
    )


def _has(covered: CoveredRange, mark: Mark) -> bool:
    return any(mark in placed.head.marks for placed in covered.chain.changes)


def _parse_time(text: str, marks: dict[str, Mark]) -> datetime:
    try:
        time = datetime.fromisoformat(absolute_time(text))
    except ValueError as error:
        known = f"; marks here are {', '.join(list(marks)[-_SHOWN:])}" if marks else ""
        raise UsageError(
            f"cannot read {text!r} as a moment: use latest, commit:N, lsn:X/Y, the name of a mark, or a time such as "
            f"2026-03-01T12:00:00Z or -10min{known}"
        ) from error
    if time.tzinfo is None:
        raise UsageError(
            f"{text} names no time zone: write {time.isoformat()}Z for UTC, or add an offset such as +02:00"
        )
    return time


def _by_time(ranges: Sequence[CoveredRange], store: ObjectStore, source: str, time: datetime) -> RecoveryTarget:
    for covered in reversed(ranges):
        if covered.start <= time <= covered.end:
            position = _position_at(covered, store, time)
            if position >= covered.first:
                return target_at(covered, source, position, time)
    before = [f"before it {covered}" for covered in ranges if covered.end < time]
    after = [f"after it {iso(covered.start)} (commit:{covered.snapshots[0].number})" for covered in ranges
             if covered.start > time]  # fmt: skip
    nearest = " and ".join([*before[-1:], *after[:1]])
    future = "it is in the future, and " if time > datetime.now(UTC) else ""
    raise RefusedError(
        f"{source} cannot be restored to {iso(time)}: {future}the nearest restorable moments are: {nearest}"
    )


def _position_at(covered: CoveredRange, store: ObjectStore, time: datetime) -> int:
    """Return the position of a recovery target given as a time.

    It is the end of what is known to have been committed by then, before all that is known to be later. Transactions
    that change no followed table are not listed, nor is it known when definitions were changed: only each cut says that
    they came before it. So it is not gone on to the first later transaction that is listed: what came before that one
    may have come after the time.
    """
    from holdfast.archive.history.commit_times import ends, first_later  # pyarrow, which no other moment needs

    cuts = [placed for placed in covered.chain.cuts if covered.first <= to_of(placed.head) <= covered.last]
    sure = max((to_of(placed.head) for placed in cuts if placed.head.covers.to_time <= time), default=covered.first)
    reached: Transactions | None = None
    for placed in covered.chain.changes:
        transactions = placed.head.transactions
        if to_of(placed.head) <= covered.first or transactions is None:
            continue
        later = first_later(store, transactions, time, since=covered.first)
        if later is not None:
            before = ends(store, transactions, before=later) or ends(store, reached)
            return min(later, max([sure, *before]))
        # What is known already is not looked up: a list that is damaged costs no moment behind its backup.
        reached = transactions if to_of(placed.head) > sure else None
    return max([sure, *ends(store, reached)])
