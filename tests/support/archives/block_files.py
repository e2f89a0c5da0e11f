"""Archives in memory by the files of their blocks: those that are there, and those that are named."""

from __future__ import annotations

from holdfast.archive import Archive
from holdfast.archive.format.block import Block
from tests.support.stores.memory_store import MemoryStore


def empty_archive() -> MemoryStore:
    """Return the store of an archive that nothing was backed up into."""
    store = MemoryStore()
    Archive.create(store, name="shop")
    return store


def data_keys(store: MemoryStore) -> set[str]:
    """Return the keys of all files of blocks, and of whatever else lies among them."""
    return store.keys("data/")


def paths_of(*blocks: Block) -> set[str]:
    """Return the files that blocks name."""
    return {file.path for block in blocks for file in block.files()}
