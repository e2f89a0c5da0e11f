"""Packs: many small files stored as one object, since each object costs a store a request, and a folder several.

What is packed stays what it is, a Parquet file with a checksum of its own, at some place in the pack. Whatever deals
with objects (copies, verification, vacuum) deals with the pack; whoever reads rows reads its part alone.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.blocks import new_attempt
from holdfast.archive.model import FileRecord, part_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import IO

    from holdfast.archive.blocks import Readable
    from holdfast.archive.model import Block, TableRecord


@dataclass(frozen=True)
class Pack:
    """A pack that is not stored yet.

    :param record: of all of it; `body`: its bytes.
    :param offsets: where each file begins, by the path that it would have had alone.
    """

    record: FileRecord
    body: bytes
    offsets: Mapping[str, int]

    def part(self, file: FileRecord) -> FileRecord:
        """Return the record of one of the files, as a part of the pack."""
        return file.model_copy(update={"path": part_path(self.record.path, self.offsets[file.path])})


def make_pack(folder: str, files: Sequence[tuple[FileRecord, memoryview]]) -> Pack:
    """Put files one behind the other, to be stored in a folder."""
    offsets, end = {}, 0
    for file, content in files:
        offsets[file.path] = end
        end += len(content)
    body = b"".join(content for _, content in files)
    record = FileRecord(
        path=f"{folder}/00000-{new_attempt()}.pack",
        size=end,
        sha256=hashlib.sha256(body).hexdigest(),
        rows=sum(file.rows for file, _ in files),
    )
    return Pack(record, body, offsets)


class InMemory:
    """A store of whose objects one is in memory, for who reads all parts of a pack.

    :raises ObjectNotFound: it is not there.
    """

    def __init__(self, store: Readable, key: str) -> None:
        self.url = store.url
        self._store = store
        self._key = key
        with store.open_read(key) as file:
            self._body = bytes(file.read())

    def open_read(self, key: str) -> IO[bytes]:
        """Open an object."""
        return io.BytesIO(self._body) if key == self._key else self._store.open_read(key)


def packs_of(tables: Iterable[TableRecord], blocks: Iterable[Block]) -> tuple[FileRecord, ...]:
    """Return the packs that hold files of some tables, of those that blocks name."""
    wanted = {file.key for table in tables for file in table.files if file.offset is not None}
    known = {pack.path: pack for block in blocks for pack in block.packs if pack.path in wanted}
    return tuple(known[path] for path in sorted(known))
