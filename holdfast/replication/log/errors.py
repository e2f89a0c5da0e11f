"""Errors of replication."""

from __future__ import annotations

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError


class StoreAwayError(HoldfastError):
    """Coordination store that cannot be used at this moment."""


class EpochOverError(HoldfastError):
    """Epoch of a replica, its leadership or its recovery that has ended.

    Another process has begun a new one, as it may once the lease has ended. This process no longer acts in it.
    """


class LostReplicaError(RefusedError):
    """Replica that has to be recovered first.

    It lacks entries that the log no longer has, or was found damaged.
    """


class OldStoreError(DamagedError):
    """Contradiction between the coordination store and a replica.

    One of the two was brought back from an older copy, or they belong to different logs.
    """


class SilentReplicaError(HoldfastError):
    """Replica with a place that does not answer in time.

    Others need not wait for it.
    """


class MissingFilesError(DamagedError):
    """Files of an entry that no reachable replica has.

    :param index: of the entry.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, index)
        self.message = message
        self.index = index

    def __str__(self) -> str:
        return self.message


class FilesAwayError(MissingFilesError):
    """Files of an entry that no replica could give just now.

    One that may have them cannot be read: that is no damage, and another try can help.
    """

    exit_code = HoldfastError.exit_code


class HeadMovedError(HoldfastError):
    """Change planned for a log that has grown since.

    It is to be planned again.
    """


class QuorumFailedError(HoldfastError):
    """Quorum that was not reached in time.

    The backup was taken back, and nothing of it counts.
    """
