"""Object locks of what an archive needs: extended before they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.format.block_ref import load
from holdfast.archive.format.checkpoint import OURS
from holdfast.archive.format.commits import COMMITS

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive
    from holdfast.storage.contract.object_store import Extended


def extend_locks(archive: Archive) -> Extended | None:
    """Extend the object locks of commits, keys and files that the archive needs; None: there are to be none."""
    store = archive.store
    if not store.locks_objects:
        return None
    blocks = list(archive.state.blocks.values())
    load(blocks)
    named = {file.key for placed in blocks for file in placed.block.files()}
    listed = ["archive.json", *(each.key for prefix in ("keys/", COMMITS) for each in store.list(prefix).objects)]
    newest = [each.key for each in store.first(OURS, 1)]
    return store.extend_locks([*listed, *newest, *sorted(named)])
