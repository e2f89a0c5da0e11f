"""Judgement whether an archive has become what it is from what a machine has seen of it before.

Each number is compared together with the id of what it numbers: specs/LastSeen.tla says what goes wrong without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.archive.format.last_seen import LastSeen
    from holdfast.archive.format.model import ArchiveCommit, Identity, LogPlace
    from holdfast.archive.format.state import State


@dataclass(frozen=True)
class SeenNow:
    """An archive as it is seen now.

    :param commit: reads the commit of a number that counts.
    """

    identity: Identity
    state: State
    commit: Callable[[int], ArchiveCommit]

    def is_put_back(self, before: LastSeen) -> bool:
        """Return whether this is an older state than was seen before, one that went another way, or another archive's.

        :param before: read before the archive was.
        """
        return not self.is_after(before) and not self.takes_the_place_of(before)

    def is_after(self, before: LastSeen) -> bool:
        """Return whether the archive has become what it is from what was seen before."""
        if before.archive != self.identity.id:
            return False
        place = self.state.log
        return self._goes_on_from(before) or (place is not None and self._has_come_to(before, place))

    def takes_the_place_of(self, before: LastSeen) -> bool:
        """Return whether a person has accepted this in the place of what was seen, unknown then."""
        upto = self.state.superseded.get(before.archive, -1)
        return before.sequence <= upto and before.accepted.get(before.archive) != upto

    def _goes_on_from(self, before: LastSeen) -> bool:
        state = self.state
        if before.sequence >= state.sequence:
            return (before.sequence, before.commit) == (state.sequence, state.tip or "")
        if before.sequence in state.void:
            return False
        return not before.sequence or self.commit(before.sequence).id == before.commit

    def _has_come_to(self, before: LastSeen, place: LogPlace) -> bool:
        """Return whether a replica whose commits are others has executed the entry that was seen, or was made anew."""
        is_new_place = before.created is None or self.identity.created > before.created
        if not before.log:
            return before.created is not None and is_new_place
        if before.log != place.store and before.index > place.before.get(before.log, -1):
            return before.log in place.before and is_new_place  # the log that was made anew has given the entry up
        if before.index > max(place.index, place.reached):
            return False
        return self._entry_at(before.index) in ("", before.entry) or not before.entry

    def _entry_at(self, index: int) -> str:
        """Return the id of the entry that a commit of this place has executed; "" where a recovery has brought it."""
        for place in (self.commit(number).log for number in reversed(self.state.numbers())):
            if place is None:
                break
            if index in (place.index, place.reached):
                return place.entry if index == place.index else place.reached_entry
            if place.index < index:
                break
        return ""
