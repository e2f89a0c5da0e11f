"""Holds: restore points that stay, whatever the rules of retention, until they are released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive.format.document import iso
from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.errors import RefusedError
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.archive.format.model import Hold
    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import CoveredRange


def standing(ranges: Iterable[CoveredRange], hold: Hold) -> tuple[int, CoveredRange | None]:
    """Return the covered range of a held restore point, and its certainty.

    Positions alone do not tell: a full backup that no changes are joined to has one that others' changes may lead past,
    and where a server took another's place, both may have it.

    :param ranges: all of its source.
    :returns: 3 where the point is the range's only one, 2 where position and time are in it, 1 where the position is; 0
        and None where it cannot be restored.
    """
    position = parse_position(hold.position)
    sure, best = 0, None
    for covered in ranges:
        if covered.first <= position <= covered.last:
            is_only = covered.first == covered.last and covered.end == hold.at
            now = 3 if is_only else 2 if covered.start <= hold.at <= covered.end else 1
            if now >= sure:
                sure, best = now, covered
    return sure, best


def is_kept(state: State, hold: Hold) -> bool:
    return standing(covered_ranges(state, hold.source), hold)[1] is not None


def describe_hold(state: State, hold: Hold) -> dict[str, Any]:
    """Return a hold as `hold list --json` prints it."""
    return {
        "hold": hold.id,
        "source": hold.source,
        "at": iso(hold.at),
        "position": hold.position,
        "owner": hold.owner,
        "reason": hold.reason,
        "created": iso(hold.created),
        "restorable": is_kept(state, hold),
    }


def check_holds(before: State, after: State) -> None:
    """Refuse a change that makes a held restore point less certain, as `standing` has it."""
    by_source: dict[str, list[Hold]] = {}
    for hold in after.holds.values():
        by_source.setdefault(hold.source, []).append(hold)
    lost = [hold for source, holds in by_source.items() for hold in _lost(before, after, source, holds)]
    if lost:
        named = ", ".join(f"{hold.source} at {iso(hold.at)} (hold {hold.id}: {hold.reason})" for hold in lost)
        raise RefusedError(f"this would remove what a hold keeps: {named}")


def _lost(before: State, after: State, source: str, holds: Sequence[Hold]) -> list[Hold]:
    were, are = covered_ranges(before, source), covered_ranges(after, source)
    return [hold for hold in holds if standing(are, hold)[0] < standing(were, hold)[0]]
