"""Judgement whether an archive has become what it is from what a machine has seen of it before.

Each number is compared together with the id of what it numbers: specs/LastSeen.tla says what goes wrong without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive
    from holdfast.archive.format.last_seen import LastSeen
    from holdfast.archive.format.model import LogPlace
    from holdfast.archive.format.state import State


def is_after(archive: Archive, before: LastSeen) -> bool:
    """Return whether an archive has become what it is from what was seen before."""
    if before.archive != archive.identity.id:
        return False
    place = archive.state.log
    return _goes_on_from(archive, before) or (place is not None and _has_come_to(archive, before, place))


def takes_the_place_of(state: State, before: LastSeen) -> bool:
    """Return whether somebody has accepted a state in the place of what was seen, and that was not known then."""
    upto = state.superseded.get(before.archive, -1)
    return before.sequence <= upto and before.accepted.get(before.archive) != upto


def _goes_on_from(archive: Archive, before: LastSeen) -> bool:
    """Return whether the commit that was seen is where it was."""
    state = archive.state
    if before.sequence >= state.sequence:
        return (before.sequence, before.commit) == (state.sequence, state.tip or "")
    if before.sequence in state.void:
        return False
    return not before.sequence or archive.commit(before.sequence).id == before.commit


def _has_come_to(archive: Archive, before: LastSeen, place: LogPlace) -> bool:
    """Return whether a replica whose commits are others has executed the entry that was seen, or was made anew."""
    is_new_place = before.created is None or archive.identity.created > before.created
    if not before.log:
        return before.created is not None and is_new_place
    if before.log != place.store and before.index > place.before.get(before.log, -1):
        return before.log in place.before and is_new_place  # the log that was made anew has given the entry up
    if before.index > max(place.index, place.reached):
        return False
    return _entry_at(archive, before.index) in ("", before.entry) or not before.entry


def _entry_at(archive: Archive, index: int) -> str:
    """Return the id of the entry that a commit of this place has executed; "" where a recovery has brought it."""
    for place in (commit.log for commit in archive.newest_first()):
        if place is None:
            break
        if index in (place.index, place.reached):
            return place.entry if index == place.index else place.reached_entry
        if place.index < index:
            break
    return ""
