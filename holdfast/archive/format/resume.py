"""Unfinished block that another process can continue.

Nothing of it counts until a commit names it. It is trusted as far as any file is between its writing and the commit:
the store has acknowledged it, and still has it in the right size; a reader of it checks its checksum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.format.document import Document, FileRecord
from holdfast.common.side_by_side import do_side_by_side
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.storage import ObjectStore

_LOOKS_AT_ONCE = 16


class BegunBlock(Document):
    """Block with tables that are being read; the other fields are as in the block that is committed."""

    id: str
    snapshot: str  # describes what it is read in: with another one, nothing of it can be joined
    started_from: str | None  # the source's end position before it; None if it had no backup yet
    catalog: FileRecord
    schema_dump: FileRecord
    not_included: tuple[str, ...] = ()
    schema_version: str = ""
    schema_digest: str = ""


class FinishedPiece(Document):
    """Piece of a table, read to its end, whose files the store has acknowledged."""

    table: int  # its oid
    number: int
    # first, end: its first heap page, and the first one after it; None where it has no such bound
    first: int | None
    end: int | None
    files: tuple[FileRecord, ...]
    packs: tuple[FileRecord, ...] = ()  # recorded with one of the pieces whose files are in them

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class UnfinishedBlock:
    """Block that was begun, and its finished pieces, each recorded at least once."""

    block: BegunBlock
    pieces: tuple[FinishedPiece, ...]

    def split(self, store: ObjectStore) -> tuple[tuple[FinishedPiece, ...], tuple[FinishedPiece, ...]]:
        """Split the pieces into those with all files there, and the others."""
        objects = [file for piece in self.pieces for file in (*piece.files, *piece.packs) if file.offset is None]
        there = {file.path for file in objects} - missing(store, objects)
        whole: list[FinishedPiece] = []
        others: list[FinishedPiece] = []
        for piece in self.pieces:
            (whole if all(file.key in there for file in piece.files) else others).append(piece)
        return tuple(whole), tuple(others)


def missing(store: ObjectStore, files: Iterable[FileRecord]) -> frozenset[str]:
    """Return the paths of files that are missing or of another size, by one request each."""

    def look(file: FileRecord) -> bool:
        try:
            return store.head(file.path).size == file.size
        except ObjectNotFound:
            return False

    looked_at = list(files)
    are_there = do_side_by_side(look, looked_at, at_once=_LOOKS_AT_ONCE)
    return frozenset(file.path for file, is_there in zip(looked_at, are_there, strict=True) if not is_there)
