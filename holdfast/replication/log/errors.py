"""What can be in the way of what a replica is to do."""

from __future__ import annotations

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError


class StoreAwayError(HoldfastError):
    """The coordination store cannot be used at this moment."""


class EpochOverError(HoldfastError):
    """The replica was activated by somebody else after its lease had ended: this process no longer acts for it."""


class LostReplicaError(RefusedError):
    """The replica lacks entries that the log no longer has, or was found damaged: it has to be recovered first."""


class OldStoreError(DamagedError):
    """The store and a replica tell different stories: one of both was brought back from an older copy."""


class MissingFilesError(DamagedError):
    """No replica that could be asked has what an entry adds.

    :param index: of the entry.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, index)
        self.message = message
        self.index = index

    def __str__(self) -> str:
        return self.message


class HeadMovedError(HoldfastError):
    """The log has grown since the change was planned: it is to be planned anew."""


class QuorumFailedError(HoldfastError):
    """Not enough replicas had a backup in time: it was taken back, and nothing of it counts."""
