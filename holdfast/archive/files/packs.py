"""Packs: many small files stored as one object, since each object costs a store a request.

What is packed stays a Parquet file with a checksum of its own, at some place in the pack. What deals with objects
(copies, verification, vacuum) deals with the pack; what reads rows reads its part alone.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import new_attempt, read_at_most
from holdfast.archive.format.document import FileRecord, part_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import IO

    from holdfast.archive.files.data_files import ReadableStore
    from holdfast.archive.format.block import Block
    from holdfast.archive.format.document import TableRecord


ROOM_BYTES = 64 << 20
"""For packs that a task keeps in memory."""


@dataclass(frozen=True)
class Pack:
    """Pack that is not stored yet.

    :param offsets: where each file begins, by the path that it would have had alone.
    """

    record: FileRecord
    body: bytes
    offsets: Mapping[str, int]

    def part(self, file: FileRecord) -> FileRecord:
        return file.model_copy(update={"path": part_path(self.record.path, self.offsets[file.path])})


class Loose:
    """Files collected in memory, to be made into a pack.

    :param files: their bytes by path; `size`: of all of them.
    """

    def __init__(self) -> None:
        self.files: dict[str, memoryview] = {}
        self.size = 0

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        file = io.BytesIO()
        yield file
        self.files[key] = file.getbuffer()
        self.size += len(self.files[key])


def make_pack(folder: str, files: Sequence[tuple[FileRecord, memoryview]]) -> Pack:
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


class AtHand:
    """Store that keeps packs in memory of which several files will be read; threads may share it.

    :param files: what will be read.
    :param room: bytes of kept packs, about; parts of others are read each for itself.
    :raises ObjectNotFound: from `open_read`, as the store does.
    """

    def __init__(self, store: ReadableStore, files: Iterable[FileRecord], room: int = ROOM_BYTES) -> None:
        self.url = store.url
        self._store = store
        self._room = room
        counted: Counter[str] = Counter()
        self._ends: dict[str, int] = {}
        for file in files:
            if file.offset is not None:
                counted[file.key] += 1
                self._ends[file.key] = max(self._ends.get(file.key, 0), file.offset + file.size)
        self._locks = {key: Lock() for key, count in counted.items() if count > 1}
        self._bodies: dict[str, bytes] = {}

    def open_read(self, key: str) -> IO[bytes]:
        if key not in self._locks:
            return self._store.open_read(key)
        with self._locks[key]:
            if key not in self._bodies:
                if sum(map(len, list(self._bodies.values()))) >= self._room:
                    return self._store.open_read(key)
                with self._store.open_read(key) as file:
                    self._bodies[key] = read_at_most(file, self._ends[key])
        return io.BytesIO(self._bodies[key])


def packs_of(tables: Iterable[TableRecord], blocks: Iterable[Block]) -> tuple[FileRecord, ...]:
    """Return the blocks' packs that hold files of some tables."""
    wanted = {file.key for table in tables for file in table.files if file.offset is not None}
    known = {pack.path: pack for block in blocks for pack in block.packs if pack.path in wanted}
    return tuple(known[path] for path in sorted(known))
