"""What can go wrong with a lock; a class for each thing a caller would do about it."""

# The names are public surface (they read as the situation, not as the mechanism).
# ruff: noqa: N818

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locking.info import LockInfo


class LockError(Exception):
    """A lock could not be taken, kept or released; the message says why."""


class LockBusy(LockError):
    """Somebody else is in the way: try again later.

    :param blockers: everyone who was in the way at the last look
    """

    def __init__(self, message: str, blockers: tuple[LockInfo, ...] = ()) -> None:
        super().__init__(message)
        self.blockers = blockers

    def __reduce__(self) -> tuple[type[LockBusy], tuple[str, tuple[LockInfo, ...]]]:
        return type(self), (str(self), self.blockers)


class LockOvertaken(LockBusy):
    """An attempt took so long that others may have stopped honouring it: try again."""


class LockLost(LockError):
    """The lock is not held any more: stop working under it."""


class LockNotFound(LockError):
    """There is no such lock; it may have gone a moment ago."""


class LockStateUnknown(LockError):
    """The store did not answer, so nothing is known: look again before relying on the lock."""


class InvalidLockName(LockError, ValueError):
    """This cannot name a resource or a folder of locks."""


class UnreadableRecord(LockError):
    """A lock object is not ours, damaged, or written by a newer version; it counts as held."""
