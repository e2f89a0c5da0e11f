"""Numbers given up: an empty object in the place of the next commit, left by a refused write.

The number is not used again, and nothing is deleted: a commit behind it says that it never counts, whatever it holds
later. A writer whose commit is acknowledged so late that this may have happened looks before it believes that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.archive import Archive
from holdfast.archive.format.commits import COMMITS, commit_key, number_of
from holdfast.archive.format.last_seen import PutBackError, place_of, read_seen
from holdfast.archive.format.state import MOST_VOIDED, Change
from holdfast.common.errors import BusyError, RefusedError, UsageError
from locking.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore


def void(
    store: ObjectStore, number: int, *, reason: str, check: Callable[[], None], fence: str | None
) -> ArchiveCommit:
    """Add a commit that voids a number, the one behind the newest commit, and empty ones behind it.

    :param check: raises if the lock `format` is no longer held.
    :raises UsageError: there is nothing at that number.
    :raises BusyError: what is there is so young that it may still be written.
    :raises RefusedError: what is there, or behind it, is not empty.
    :raises PutBackError: this machine has seen a commit there.
    """
    before = read_seen(place_of(store))
    archive = Archive.open(store, recovering=True, before_damage=True)
    if before is not None and archive.seen_now.is_put_back(before):
        raise PutBackError(
            f"{store.url} had {before} when this machine last saw it: that commit was made, and was damaged since. "
            "Restore it from a copy of the archive"
        )
    return archive.add(
        lambda state: Change(kind="voided", reason=reason, void=_last(store, state, number)), check=check, fence=fence
    )


def _last(store: ObjectStore, state: State, number: int) -> int:
    """Return the last empty number behind a state, once two listings agree that all of them are old and empty."""
    return max(_look(store, state, number) for _ in range(2))


def _look(store: ObjectStore, state: State, number: int) -> int:
    after = commit_key(state.sequence) if state.sequence else ""
    listing = store.bare.list(COMMITS, start_after=after)
    there = {found: info for info in listing.objects if (found := number_of(info.key))}
    if number != state.sequence + 1 or number not in there:
        raise UsageError(
            f"{commit_key(number)} is not what cuts {store.url} off: its commits end at {state.sequence}, and "
            f"{'something is there' if there else 'nothing is behind it'}"
        )
    last = number + len(there) - 1
    if max(there) != last or len(there) > MOST_VOIDED:
        raise RefusedError(f"commits behind {commit_key(number)} are missing: restore them from a copy of the archive")
    for info in there.values():
        if info.size:
            raise RefusedError(f"{info.key} is not empty: restore it, and those before it, from a copy of the archive")
        wait = Terms().expiry - (listing.now - info.modified).total_seconds()
        if wait >= 0:
            raise BusyError(f"{info.key} may still be written: try again in {wait + 1:.0f} s")
    return last
