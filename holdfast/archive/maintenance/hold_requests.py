"""Creation and release of holds: one commit each."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.model import Hold
from holdfast.archive.format.state import Change
from holdfast.archive.history.coverage import to_of
from holdfast.archive.history.restore_points import only_source
from holdfast.archive.history.target_resolution import resolve
from holdfast.common.errors import UsageError
from holdfast.common.lsn import show_position

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.archive.history.recovery_target import RecoveryTarget


def add_hold(
    archive: Archive, source: str | None, at: str, *, reason: str, owner: str, check: Callable[[], None]
) -> tuple[Hold, ArchiveCommit]:
    """Hold a restore point.

    :param source: its name; None: the only one there is.
    :param at: as `target_resolution.resolve` takes it.
    :param check: raises if a lock of the plan "hold" is no longer held.
    :raises UsageError: no such source, not a recovery target, or no reason was given.
    :raises RefusedError: it cannot be restored, or only with a backup that may still be taken back.
    """
    _check_words(reason, owner)
    identity = uuid.uuid4().hex[:12]
    made: list[Hold] = []

    def plan(_: State) -> Change:
        state = archive.settled()  # a hold must not rely on what may still be taken back
        name = only_source(state, source, at)
        target = resolve(state, archive.store, name, at)
        hold = Hold(
            id=identity,
            source=name,
            position=show_position(_earliest(target)),
            at=target.at,
            owner=owner,
            reason=reason,
            created=archive.store.list(IDENTITY_KEY).now,
        )
        made.append(hold)
        return Change(kind="hold", holds=(hold,))

    commit = archive.add(plan, check=check, fence=None)
    return made[-1], commit


def _earliest(target: RecoveryTarget) -> int:
    """Return the first position with all of a recovery target that a backup records to be as late.

    In quiet times, what is known to have come before a time may end long before it: that time can be restored only
    where the next backup is kept, too.
    """
    blocks = sorted((placed.head for placed in (*target.chain.full, *target.chain.changes)), key=to_of)
    behind = [block for block in blocks if to_of(block) >= target.position]
    late = [block for block in behind if block.covers.to_time >= target.at]
    return to_of(late[0]) if late and behind[:1] != late[:1] else target.position


def remove_hold(
    archive: Archive, identity: str, *, reason: str, check: Callable[[], None]
) -> tuple[Hold, ArchiveCommit]:
    """Release a hold, whose restore point may be truncated then; UsageError: no such hold, or no reason."""
    _check_words(reason)
    taken: list[Hold] = []

    def plan(state: State) -> Change:
        if identity not in state.holds:
            ids = ", ".join(state.holds) or "none"
            raise UsageError(f"there is no hold {identity!r} (there are: {ids}); it may have been taken back meanwhile")
        taken.append(state.holds[identity])
        return Change(kind="release", released=(identity,), reason=reason)

    commit = archive.add(plan, check=check, fence=None)
    return taken[-1], commit


def _check_words(*words: str) -> None:
    if not all(each.strip() and each.isprintable() for each in words):
        raise UsageError("say why, and for whom, in printable words: whoever finds a hold in a year must know")
