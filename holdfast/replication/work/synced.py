"""Result of executing entries of the update log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.replication.log.silence import NotAsked


@dataclass(frozen=True)
class Synced:
    """Result of executing entries.

    :param index: of the last entry that is here.
    :param entries: how many were executed; `files` and `size` of what was fetched for them.
    :param given_up: indexes of entries that were given up before: no replica has had their files for long.
    :param not_asked: other replicas that are not lost and could not be asked how far they are.
    """

    replica: str
    index: int
    entries: int
    files: int
    size: int
    given_up: tuple[int, ...] = ()
    not_asked: tuple[NotAsked, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the result as a dict for JSON."""
        return {
            "replica": self.replica,
            "index": self.index,
            "entries": self.entries,
            "files": self.files,
            "bytes": self.size,
            "given_up": list(self.given_up),
            "not_asked": [replica.describe() for replica in self.not_asked],
        }
