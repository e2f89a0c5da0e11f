"""The work of a restore's tasks: files of the archive into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.blocks import read_batches
from holdfast.sources.postgresql.load import load_file
from holdfast.sources.postgresql.session import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.archive.model import FileRecord
    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.catalog import Table
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]


class FileLoader:
    """The work of one Spark task: load a few files. Travels in the task's closure, with password and store settings."""

    def __init__(self, store: ObjectStore, address: Address) -> None:
        self._store = store
        self._address = address

    def __call__(self, files: Sequence[tuple[Table, FileRecord]], report: Reporter) -> Iterator[int]:
        """Yield the rows loaded from each file."""
        with connect(self._address) as session:
            for table, record in files:
                rows = load_file(session, table, record.path, read_batches(self._store, record))
                report(rows, record.size)
                yield rows
