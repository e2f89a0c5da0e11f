"""The work of a backup's tasks: pieces of tables from the source to files in the archive."""

from __future__ import annotations

import io
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.archive.blocks import write_parquet
from holdfast.archive.unfinished import FinishedPiece
from holdfast.sources.postgresql.decode import Decoder
from holdfast.sources.postgresql.hashing import ContentHash
from holdfast.sources.postgresql.read import PIECE_BYTES, open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from typing import IO

    import pyarrow as pa

    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.export import Snapshot
    from holdfast.sources.postgresql.read import Piece, Reader
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

_TASKS_PER_CORE = 3
_MOST_TASK_BYTES = 8 * PIECE_BYTES

MOST_PIECES = 2000
"""How many one task reads, however small they are."""

_SMALL_BYTES = 1 << 20
"""A piece that is no larger in the source is made in memory and stored while the next ones are read."""

_LOCKED_AT_ONCE = 100
"""Pieces whose tables are locked together."""

_STORED_AT_ONCE = 8
_MOST_BEHIND = 4 * _STORED_AT_ONCE


def task_bytes(pieces: Sequence[Piece], *, cores: int) -> int:
    """Return how much one task reads: few tasks, since each opens a session, but enough for all cores to end together.

    What a task was reading when it died is read again, so that it is bounded.
    """
    share = sum(piece.weight for piece in pieces) // (cores * _TASKS_PER_CORE)
    return min(max(PIECE_BYTES, share), _MOST_TASK_BYTES)


class PieceReader:
    """The work of one Spark task: read a bundle of pieces and write each to files of its own.

    Travels to the worker in the task's closure, with the password and the store's settings: never through Spark's
    configuration.

    :param folders: where a table's files go, by its oid.
    :param pace: bytes to read in a second at most; None: as fast as they come.
    """

    def __init__(
        self,
        store: ObjectStore,
        address: Address,
        snapshot: Snapshot,
        folders: Mapping[int, str],
        *,
        max_value_bytes: int,
        pace: float | None,
    ) -> None:
        self._max_value_bytes = max_value_bytes
        self._pace = pace
        self._store = store
        self._address = address
        self._snapshot = snapshot
        self._folders = folders

    def __call__(self, pieces: Sequence[Piece], report: Reporter) -> Iterator[FinishedPiece]:
        """Read the pieces and yield each once the store has acknowledged its files."""
        behind: deque[tuple[FinishedPiece, list[Future[None]]]] = deque()

        def settled(most: int) -> Iterator[FinishedPiece]:
            while len(behind) > most:
                piece, writes = behind.popleft()
                for write in writes:
                    write.result()
                for file in piece.files:
                    report(file.rows, file.size)
                yield piece

        with (
            open_reader(self._address, self._snapshot, []) as reader,
            ThreadPoolExecutor(_STORED_AT_ONCE, thread_name_prefix="store") as pool,
        ):
            for number, piece in enumerate(pieces):
                if number % _LOCKED_AT_ONCE == 0:
                    some = pieces[number : number + _LOCKED_AT_ONCE]
                    reader.take(list({each.table.oid: each.table for each in some}.values()))
                place = _Behind(self._store, pool) if piece.weight <= _SMALL_BYTES else None
                behind.append((self._read(reader, piece, place or self._store), place.writes if place else []))
                yield from settled(_MOST_BEHIND if place else 0)
            yield from settled(0)

    def _read(self, reader: Reader, piece: Piece, store: ObjectStore | _Behind) -> FinishedPiece:
        decoder = Decoder(piece.table.columns, max_value_bytes=self._max_value_bytes)
        digest = ContentHash(0, 0)

        def count(batch: pa.RecordBatch) -> None:
            nonlocal digest
            digest += decoder.digest(batch)

        files = []
        for record in write_parquet(
            store,
            f"{self._folders[piece.table.oid]}/{piece.number:05d}",
            decoder.schema,
            paced(reader.batches(piece, decoder), self._pace),
            key=piece.table.key[0] if piece.table.key else None,
            on_batch=count,
        ):
            files.append(record.model_copy(update={"digest": str(digest)}))
            digest = ContentHash(0, 0)
        return FinishedPiece(
            table=piece.table.oid, number=piece.number, first=piece.first, end=piece.end, files=tuple(files)
        )


class _Behind:
    """Takes files in memory and has them stored by others: of small ones, the store's answer is what takes long.

    :param writes: what is under way; what it raises is told by its result.
    """

    def __init__(self, store: ObjectStore, pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._pool = pool
        self.writes: list[Future[None]] = []

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        """Take a file whose bytes are stored once the block has ended well."""
        file = io.BytesIO()
        yield file
        self.writes.append(self._pool.submit(self._put, key, file.getbuffer()))

    def _put(self, key: str, body: memoryview) -> None:
        with self._store.open_write(key) as file:
            file.write(body)


def paced(batches: Iterable[pa.RecordBatch], pace: float | None) -> Iterator[pa.RecordBatch]:
    """Hand batches on no faster than so many bytes a second on average; None: as fast as they come."""
    started = time.monotonic()
    done = 0
    for batch in batches:
        yield batch
        if pace is not None:
            done += batch.nbytes
            time.sleep(max(0.0, done / pace - (time.monotonic() - started)))
