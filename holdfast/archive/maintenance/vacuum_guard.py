"""Guard that a vacuum asks before files go.

It knows whether somebody beyond this archive still needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.state import Removed


class Permit:
    """Permit of an archive at one location: everything may go.

    Nobody else takes files from such an archive.
    """

    def awaited(self, archive: Archive, removed: Sequence[Removed]) -> Mapping[str, tuple[str, ...]]:
        """Return the removed blocks that must keep their files.

        They are given by id, with the names of the replicas that are waited for.

        :param removed: blocks whose grace is over.
        """
        return {}

    def abandon(self, blocks: Collection[str]) -> Collection[str]:
        """Prevent unknown blocks from ever being added.

        Returns those for which that is certain.

        :param blocks: their ids.
        """
        return blocks

    def unnamed(self, blocks: Collection[str]) -> Collection[str]:
        """Return those that `abandon` would, and change nothing."""
        return blocks
