"""The work of a compaction's tasks: files of changes into fewer, sorted ones; tables into new files."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.archive.files.blocks import read_batches, write_parquet
from holdfast.archive.files.packs import AtHand
from holdfast.archive.scan.merge import EVERYTHING, KeyRange, Merge, split_keys
from holdfast.archive.scan.table_history import ALL, Share
from holdfast.postgresql.values.content_hash import ContentHash, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.maintenance.compaction import FormRun
    from holdfast.archive.scan.table_history import TableHistory
    from holdfast.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

SPLIT_BYTES = 16 << 20
"""Stored changes of one table; more are shared by several tasks. Each reads all, and sorts and writes its part."""

SHARE_BYTES = 16 << 20
"""Stored rows and changes of one table; where there are more, several tasks make its rows. Each reads the keys of all
changes, and of the rest its share."""

ROWS_BYTES = 128 << 20
"""Of keys, or DuckDB's memory, where one task makes the rows of a table; of DuckDB, what is more goes to its disk."""


@dataclass(frozen=True)
class MergePiece:
    """Changes that one task puts together.

    :param run: the number of their form's run; `number` is that of the piece, in the order of keys.
    :param key: numbers of the columns that tell rows apart.
    :param stem: of the new files.
    :param size: stored bytes that are read.
    """

    run: int
    number: int
    files: tuple[FileRecord, ...]
    key: tuple[int, ...]
    stem: str
    size: int
    within: KeyRange = EVERYTHING


@dataclass(frozen=True)
class MergedPiece:
    run: int
    number: int
    files: tuple[FileRecord, ...]


def cut(store: ObjectStore, run: FormRun, folder: str, *, most: int) -> list[MergePiece]:
    """Cut the changes of one form of a table into pieces for single tasks.

    :param folder: of the new files.
    :param most: pieces, at most.
    """
    count = min(most, -(-run.size // SPLIT_BYTES))
    split = count > 1 and run.key and run.rows
    ranges = split_keys(store, run.files, run.key[0], count) if split else (EVERYTHING,)
    return [
        MergePiece(run.number, number, run.files, run.key, f"{folder}/{run.number:05d}.{number:03d}", run.size, within)
        for number, within in enumerate(ranges)
    ]


class Merger:
    """Work of a task: put changes together. Travels in its closure, with the store's settings."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __call__(self, pieces: Sequence[MergePiece], report: Reporter) -> Iterator[MergedPiece]:
        reads = AtHand(self._store, chain.from_iterable(piece.files for piece in pieces))
        with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as spill:
            for piece in pieces:
                files = []
                merge = Merge(reads, piece.files, piece.key, piece.within)
                for file in merge.write(self._store, piece.stem, Path(spill)):
                    report(file.rows, file.size)
                    files.append(file)
                yield MergedPiece(piece.run, piece.number, tuple(files))


class Lister:
    """Work of a task: put the lists of transactions of neighbouring blocks into one file."""

    def __init__(self, store: ObjectStore, stem: str) -> None:
        self._store = store
        self._stem = stem

    def __call__(self, files: Sequence[FileRecord], report: Reporter) -> Iterator[FileRecord]:
        """Yield the record of the new file; the lists are in the order of the log, and none is empty."""
        batches = (batch for file in files for batch in read_batches(self._store, file))
        first = next(batches)

        def rows() -> Iterator[pa.RecordBatch]:
            yield first
            yield from batches

        yield from write_parquet(self._store, self._stem, first.schema, rows(), key="lsn")


@dataclass(frozen=True)
class MadeTable:
    """Table to be made of its snapshot and the changes since, or a share of it.

    :param table: as it is at the moment; without stored generated columns.
    :param folder: of the new files.
    """

    table: Table
    history: TableHistory
    folder: str
    share: Share = ALL

    @property
    def size(self) -> int:
        changes = (file for record in self.history.changes for file in record.files)
        return sum(file.size for file in (*self.history.base, *changes)) // self.share.count

    def shared_out(self, most: int) -> list[MadeTable]:
        """Return the shares for single tasks: several, up to `most`, where the table is large."""
        count = max(1, min(most, -(-self.size // SHARE_BYTES)))
        return [replace(self, share=Share(number, count)) for number in range(count)]


@dataclass(frozen=True)
class MadeShare:
    table: str
    number: int
    files: tuple[FileRecord, ...]


class TableMaker:
    """Work of a task: write the rows of tables as of a position, as a full backup does."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __call__(self, tables: Sequence[MadeTable], report: Reporter) -> Iterator[MadeShare]:
        """Yield the files of each share; of the first one of a table there is one at least."""
        for made in tables:
            with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as spill:
                files = []
                for file in self._files(made, Path(spill)):
                    report(file.rows, file.size)
                    files.append(file)
            yield MadeShare(made.history.table, made.share.number, tuple(files))

    def _files(self, made: MadeTable, spill: Path) -> Iterator[FileRecord]:
        from holdfast.archive.scan.merge_on_read import as_of  # with DuckDB, which no join of changes needs

        columns = [column for column in made.table.columns if not column.generated]
        rows = as_of(self._store, made.history, memory_bytes=ROWS_BYTES, spill=spill, share=made.share)
        found = ContentHash()

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal found
            for batch in rows:
                found += digest(columns, batch)
                yield batch

        hashed = batches()
        first = next(hashed, None)
        if first is None and made.share.number:
            return
        key = made.table.key[0] if made.table.key else None
        stem = f"{made.folder}/{made.share.number:05d}"
        all_rows = hashed if first is None else chain([first], hashed)
        for record in write_parquet(self._store, stem, made.history.wanted, all_rows, key=key):
            yield record.model_copy(update={"digest": str(found)})
            found = ContentHash()
