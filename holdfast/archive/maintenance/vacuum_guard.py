"""What a vacuum asks before files go: whether somebody beyond this archive still needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.state import Removed


class Permit:
    """Of an archive at one place, which nobody else takes files from: everything may go."""

    def awaited(self, archive: Archive, removed: Sequence[Removed]) -> Mapping[str, tuple[str, ...]]:
        """Return which removed blocks must keep their files, by id, with the names of the replicas that are waited for.

        :param removed: blocks whose grace is over.
        """
        return {}

    def abandon(self, blocks: Collection[str]) -> Collection[str]:
        """Make sure that nobody ever adds blocks that nothing is known of here; return those for which that is so.

        :param blocks: their ids.
        """
        return blocks

    def unnamed(self, blocks: Collection[str]) -> Collection[str]:
        """Return those that `abandon` would, and change nothing."""
        return blocks
