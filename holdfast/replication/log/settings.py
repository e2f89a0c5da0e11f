"""Settings for work with replicas.

They say where the coordination store is, and the quorum that a backup needs. What is here needs no database driver:
most archives are at one place.
"""

from __future__ import annotations

from dataclasses import dataclass

STORE_VARIABLE = "HOLDFAST_STORE"
"""The environment variable that says where the coordination store is."""

QUORUM_TIMEOUT_S = 3600.0
"""So long replicas have for a backup that needs a quorum, unless somebody says otherwise."""


@dataclass(frozen=True)
class QuorumRequest:
    """Quorum requested for a backup.

    :param size: so many replicas are to hold it before it counts.
    :param timeout: seconds that they have for it once it was appended.
    """

    size: int
    timeout: float = QUORUM_TIMEOUT_S

    @classmethod
    def of(cls, size: int, timeout: float) -> QuorumRequest | None:
        """Return the request; None where one replica is enough.

        That is the replica that the backup is made through.
        """
        return cls(size, timeout) if size > 1 else None
