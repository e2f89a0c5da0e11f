"""A file that has grown beyond all memory since it was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import FileRecord
from holdfast.storage.folder import FolderStore

GROWN = 1 << 40
"""Bytes without any content: to read them takes hours."""

BODY = b"all that was written"


@dataclass(frozen=True)
class Grown:
    """A store with one file, and the record of that: it says `BODY`."""

    store: FolderStore
    record: FileRecord


def grown_file(folder: Path) -> Grown:
    """Write a file into a store in a folder, and let it grow."""
    store = FolderStore(folder)
    key = f"data/shop/1/snapshot/{'0' * 32}/00000-{'0' * 12}.parquet"
    record = write_bytes(store, key, BODY)
    with Path(store.url, key).open("r+b") as file:
        file.truncate(GROWN)
    return Grown(store, record)
