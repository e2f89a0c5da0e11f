"""Guard that a vacuum asks whether others beyond this archive still need its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.state import Removed


class Permit:
    """Permit of an archive at one location, from which no other takes files: everything may go."""

    def awaited(self, archive: Archive, removed: Sequence[Removed]) -> Mapping[str, tuple[str, ...]]:
        """Return the removed blocks that must keep their files, with the replicas that are waited for."""
        return {}

    def abandon(self, blocks: Collection[str]) -> Collection[str]:
        """Prevent unknown blocks from ever being added; return those for which that is certain."""
        return blocks

    def unnamed(self, blocks: Collection[str]) -> Collection[str]:
        """Return those that `abandon` would, and change nothing."""
        return blocks
