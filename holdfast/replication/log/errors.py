"""Errors of replication."""

from __future__ import annotations

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError


class StoreAwayError(HoldfastError):
    """Coordination store that cannot be used at this moment."""


class EpochOverError(HoldfastError):
    """Epoch, leadership or recovery that has ended: another process has begun a new one."""


class LostReplicaError(RefusedError):
    """Replica that has to be recovered first: it lacks trimmed entries, or is damaged."""


class OldStoreError(DamagedError):
    """Contradiction between the coordination store and a replica: one is an older copy, or of another log."""


class SilentReplicaError(HoldfastError):
    """Replica with a place that does not answer in time."""


class MissingFilesError(DamagedError):
    """Files of an entry, by its index, that no reachable replica has."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, index)
        self.message = message
        self.index = index

    def __str__(self) -> str:
        return self.message


class FilesAwayError(MissingFilesError):
    """Files of an entry that may be at a replica which cannot be read now: no damage."""

    exit_code = HoldfastError.exit_code


class HeadMovedError(HoldfastError):
    """Change planned for a log that has grown since: plan again."""


class QuorumFailedError(HoldfastError):
    """Quorum that was not reached in time: the backup was taken back."""
