"""Errors of locks: one class for each thing that a caller would do about them."""

# The names are public surface (they read as the situation, not as the mechanism).
# ruff: noqa: N818

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locking.info import LockInfo


class LockError(Exception):
    """Lock that could not be taken, kept or released."""


class LockBusy(LockError):
    """Lock with another owner in the way; try again later.

    :param blockers: all who were in the way at the last look
    """

    def __init__(self, message: str, blockers: tuple[LockInfo, ...] = ()) -> None:
        super().__init__(message)
        self.blockers = blockers

    def __reduce__(self) -> tuple[type[LockBusy], tuple[str, tuple[LockInfo, ...]]]:
        return type(self), (str(self), self.blockers)


class LockOvertaken(LockBusy):
    """Attempt that took too long: others may have stopped honouring it. Try again."""


class LockLost(LockError):
    """Lock that is not held any more; stop working under it."""


class LockNotFound(LockError):
    """Lock that does not exist, or went a moment ago."""


class LockStateUnknown(LockError):
    """Lock in an unknown state, since the store did not answer; look again before relying on it."""


class InvalidLockName(LockError, ValueError):
    """Name that no resource and no folder of locks can have."""


class UnreadableRecord(LockError):
    """Lock object that is damaged, not ours, or of a newer version; it counts as held."""
