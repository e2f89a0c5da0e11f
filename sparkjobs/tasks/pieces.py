"""The work of a backup's tasks: pieces of tables from the source to files in the archive."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.packs import Loose, make_pack
from holdfast.archive.format.resume import FinishedPiece
from holdfast.postgresql.snapshot.table_reader import PIECE_BYTES, open_reader
from holdfast.postgresql.values.content_hash import ContentHash
from holdfast.postgresql.values.decode import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

    from holdfast.archive.files.data_files import Writable
    from holdfast.archive.format.document import FileRecord
    from holdfast.postgresql.catalog.columns import Column
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.snapshot.export import Snapshot
    from holdfast.postgresql.snapshot.table_reader import Piece, RowsOfPiece, SnapshotTableReader
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

_TASKS_PER_CORE = 3
_MOST_TASK_BYTES = 8 * PIECE_BYTES
_MOST_PIECES = 5000

SMALL_BYTES = 1 << 20
"""Pieces that are together no larger in the source are read together, made in memory and stored by others."""

LOCKED_AT_ONCE = 100
"""Pieces whose tables are locked together; what is small of them is stored together, too."""

_STORED_BYTES = 4 << 20
"""Files in memory that have grown past this are stored, before there are as many."""

PACKED_FROM = 100
"""More small pieces than this are stored in packs. Fewer are files of their own, which any reader of Parquet opens."""

_STORED_AT_ONCE = 8
MOST_BEHIND = 2
"""How many files are stored at a time, and how many heaps of them may be under way, while pieces are read."""


def most_pieces(count: int, *, cores: int) -> int:
    """Return the most pieces that one task reads: few tasks, but what one reads again when it dies is bounded."""
    return min(max(LOCKED_AT_ONCE, -(-count // cores)), _MOST_PIECES)


def task_bytes(pieces: Sequence[Piece], *, cores: int) -> int:
    """Return how many bytes one task reads.

    Tasks are few, since each opens a session, but enough for all cores to end together. What a task was reading when it
    died is read again, so that it is bounded.
    """
    share = sum(piece.weight for piece in pieces) // (cores * _TASKS_PER_CORE)
    return min(max(PIECE_BYTES, share), _MOST_TASK_BYTES)


def is_packed(pieces: Iterable[Piece]) -> bool:
    return sum(piece.weight <= SMALL_BYTES for piece in pieces) > PACKED_FROM


class PieceReader:
    """Work of a task: read a bundle of pieces and write each to files of its own.

    Travels to the worker in the task's closure, with the password and the store's settings: never through Spark's
    configuration.

    :param folders: where a table's files go, by its oid.
    :param packs: where packs go; None: small pieces are stored alone, too.
    :param pace: bytes to read in a second at most; None: as fast as they come.
    """

    def __init__(
        self,
        store: ObjectStore,
        address: Address,
        snapshot: Snapshot,
        folders: Mapping[int, str],
        *,
        packs: str | None = None,
        max_value_bytes: int,
        pace: float | None,
    ) -> None:
        self._max_value_bytes = max_value_bytes
        self._pace = pace
        self._store = store
        self._address = address
        self._snapshot = snapshot
        self._folders = folders
        self._packs = packs

    def __call__(self, pieces: Sequence[Piece], report: Reporter) -> Iterator[FinishedPiece]:
        """Read the pieces and yield each once the store has acknowledged its files."""

        def reported(found: Iterable[FinishedPiece]) -> Iterator[FinishedPiece]:
            for piece in found:
                for file in piece.files:
                    report(file.rows, file.size)
                yield piece

        with (
            open_reader(self._address, self._snapshot, []) as reader,
            ThreadPoolExecutor(_STORED_AT_ONCE, thread_name_prefix="store") as pool,
        ):
            behind = _Behind(self._store, pool, self._packs)
            for first in range(0, len(pieces), LOCKED_AT_ONCE):
                some = pieces[first : first + LOCKED_AT_ONCE]
                reader.take(list({each.table.oid: each.table for each in some}.values()))
                yield from reported(self._read(reader, some, behind))
            yield from reported(behind.settle())

    def _read(self, reader: SnapshotTableReader, pieces: Sequence[Piece], behind: _Behind) -> Iterator[FinishedPiece]:
        for group in alike(pieces):
            if group[0].weight > SMALL_BYTES:
                yield from self._write(reader, group, self._store)
                continue
            for piece in self._write(reader, group, behind.loose):
                behind.add(piece)
            if behind.loose.size > _STORED_BYTES:
                yield from behind.store()
        yield from behind.store()

    def _write(self, reader: SnapshotTableReader, pieces: Sequence[Piece], store: Writable) -> Iterator[FinishedPiece]:
        decoder = _decoder(pieces[0].table.columns, self._max_value_bytes)
        for piece, parts in zip(pieces, _by_place(reader.parts(pieces, decoder), len(pieces)), strict=True):
            yield FinishedPiece(
                table=piece.table.oid,
                number=piece.number,
                first=piece.first,
                end=piece.end,
                files=tuple(self._files(piece, decoder.schema, parts, store)),
            )

    def _files(
        self, piece: Piece, schema: pa.Schema, parts: Iterable[RowsOfPiece], store: Writable
    ) -> Iterator[FileRecord]:
        digest = ContentHash()

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal digest
            for part in parts:
                digest += part.digest
                yield part.rows

        for record in write_parquet(
            store,
            f"{self._folders[piece.table.oid]}/{piece.number:05d}",
            schema,
            paced(batches(), self._pace),
            key=piece.table.key[0] if piece.table.key else None,
        ):
            yield record.model_copy(update={"digest": str(digest)})
            digest = ContentHash()


@lru_cache(maxsize=128)
def _decoder(columns: tuple[Column, ...], max_value_bytes: int) -> Decoder:
    return Decoder(columns, max_value_bytes=max_value_bytes)


def alike(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Group small pieces of tables with the same columns, such as partitions; large ones come alone."""
    groups: dict[tuple[Column, ...], list[Piece]] = {}
    sizes: dict[tuple[Column, ...], int] = {}
    for piece in pieces:
        kind = piece.table.columns
        if sizes.get(kind, 0) + piece.weight > SMALL_BYTES and (full := groups.pop(kind, None)):
            yield full
            sizes[kind] = 0
        groups.setdefault(kind, []).append(piece)
        sizes[kind] = sizes.get(kind, 0) + piece.weight
    yield from groups.values()


def _by_place(parts: Iterable[RowsOfPiece], count: int) -> Iterator[Iterable[RowsOfPiece]]:
    """Yield the parts of each of so many places; some have none."""
    grouped = groupby(parts, lambda part: part.place)
    place, found = next(grouped, (count, iter(())))
    for each in range(count):
        if each < place:
            yield ()
            continue
        yield found
        place, found = next(grouped, (count, iter(())))


class _Behind:
    """Queue of files in memory that other threads store, as most of their time is the wait for the store.

    :param packs: where packs of them go; None: they are stored alone.
    """

    def __init__(self, store: ObjectStore, pool: ThreadPoolExecutor, packs: str | None) -> None:
        self.loose = Loose()
        self._store = store
        self._pool = pool
        self._packs = packs
        self._pieces: list[FinishedPiece] = []
        self._under_way: deque[tuple[list[FinishedPiece], list[Future[None]]]] = deque()

    def add(self, piece: FinishedPiece) -> None:
        self._pieces.append(piece)

    def store(self) -> Iterator[FinishedPiece]:
        """Begin to store the pieces taken; yield earlier pieces with all files stored."""
        if self._pieces:
            self._under_way.append(self._alone() if self._packs is None else self._packed(self._packs))
            self.loose, self._pieces = Loose(), []
        yield from self.settle(MOST_BEHIND)

    def _alone(self) -> tuple[list[FinishedPiece], list[Future[None]]]:
        return self._pieces, [self._pool.submit(self._write, key, body) for key, body in self.loose.files.items()]

    def _packed(self, folder: str) -> tuple[list[FinishedPiece], list[Future[None]]]:
        pack = make_pack(
            folder, [(file, self.loose.files[file.path]) for piece in self._pieces for file in piece.files]
        )
        first, *others = (
            piece.model_copy(update={"files": tuple(map(pack.part, piece.files))}) for piece in self._pieces
        )
        first = first.model_copy(update={"packs": (pack.record,)})
        return [first, *others], [self._pool.submit(self._write, pack.record.path, pack.body)]

    def _write(self, key: str, body: bytes | memoryview) -> None:
        with self._store.open_write(key) as file:
            file.write(body)

    def settle(self, most: int = 0) -> Iterator[FinishedPiece]:
        """Wait until no more than `most` groups are left to be stored; yield the pieces of the others."""
        while len(self._under_way) > most:
            pieces, stored = self._under_way.popleft()
            for each in stored:
                each.result()
            yield from pieces


def paced(batches: Iterable[pa.RecordBatch], pace: float | None) -> Iterator[pa.RecordBatch]:
    """Hand batches on no faster than so many bytes a second on average; None: as fast as they come."""
    started = time.monotonic()
    done = 0
    for batch in batches:
        yield batch
        if pace is not None:
            done += batch.nbytes
            time.sleep(max(0.0, done / pace - (time.monotonic() - started)))
