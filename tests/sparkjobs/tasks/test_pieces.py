from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pyarrow as pa
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot
from holdfast.postgresql.snapshot.table_reader import PIECE_BYTES, Piece, cut
from holdfast.storage import ObjectStore
from holdfast.storage.folder import FolderStore
from locking.store import StoreError
from sparkjobs.tasks import pieces as pieces_module
from sparkjobs.tasks.pieces import PieceReader, alike, most_pieces, paced, task_bytes


class SlowStore(FolderStore):
    """Stores nothing before so many files are under way, as a store does that is written to file by file."""

    def __init__(self, folder: Path, parties: int) -> None:
        super().__init__(folder)
        self._all_here = threading.Barrier(parties, timeout=30)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        self._all_here.wait()
        with super().open_write(key) as file:
            yield file


class FailingStore(FolderStore):
    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        raise StoreError(f"no room for {key}")
        yield


@pytest.fixture
def held(create_database: Callable[..., Address]) -> Iterator[tuple[Address, HeldSnapshot]]:
    address = create_database(
        *(f"create table t{number} as select generate_series(1, {number}) as id" for number in range(4))
    )
    with hold_snapshot(address) as found:
        yield address, found


def reader(store: ObjectStore, held: tuple[Address, HeldSnapshot]) -> tuple[PieceReader, list[Piece]]:
    address, snapshot = held
    tables = snapshot.catalog.with_rows()
    folders = {table.oid: table.name for table in tables}
    made = PieceReader(store, address, snapshot.snapshot, folders, max_value_bytes=1 << 20, pace=None)
    return made, [piece for table in tables for piece in cut(table, queries=True)]


@pytest.mark.service
def test_small_pieces_are_stored_while_others_are_read_and_told_once_they_are(
    held: tuple[Address, HeldSnapshot], tmp_path: Path
) -> None:
    read, pieces = reader(SlowStore(tmp_path, parties=4), held)
    told: list[int] = []
    found = []
    for piece in read(pieces, lambda rows, size: told.append(rows)):
        assert all((tmp_path / file.path).stat().st_size == file.size for file in piece.files)
        found.append(piece.rows)
    assert found == told == [0, 1, 2, 3]


@pytest.mark.service
def test_a_task_locks_a_few_of_its_tables_at_a_time(
    held: tuple[Address, HeldSnapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "LOCKED_AT_ONCE", 2)
    monkeypatch.setattr(pieces_module, "MOST_BEHIND", 0)
    read, pieces = reader(FolderStore(tmp_path), held)
    locked = []
    with connect(held[0]) as session:
        for _ in read(pieces, lambda rows, size: None):
            locked.append(
                session.execute(
                    "select array_agg(relation::regclass::text order by relation::regclass::text) from pg_locks "
                    "where mode = 'AccessShareLock' and relation >= 16384 and pid <> %s",
                    (held[1].session.info.backend_pid,),
                ).fetchone()
            )
    assert locked == [(["public.t0", "public.t1"],)] * 2 + [(["public.t2", "public.t3"],)] * 2


@pytest.mark.service
def test_a_small_piece_that_could_not_be_stored_fails_its_task(
    held: tuple[Address, HeldSnapshot], tmp_path: Path
) -> None:
    read, pieces = reader(FailingStore(tmp_path), held)
    with pytest.raises(StoreError, match="no room for t0"):
        list(read(pieces, lambda rows, size: None))


@pytest.mark.parametrize(
    ("pieces", "size", "tasks_of"),
    [(1, 100, PIECE_BYTES), (60, PIECE_BYTES, 5 * PIECE_BYTES), (10_000, PIECE_BYTES, 8 * PIECE_BYTES)],
)
def test_tasks_are_few_but_enough_to_keep_all_cores_busy_and_bounded(pieces: int, size: int, tasks_of: int) -> None:
    each = [SimpleNamespace(weight=size)] * pieces
    assert task_bytes(each, cores=4) == tasks_of  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "cores", "most"), [(10, 2, 100), (10_000, 2, 5000), (10_000, 8, 1250)])
def test_small_pieces_are_few_tasks_but_enough_for_all_cores(count: int, cores: int, most: int) -> None:
    assert most_pieces(count, cores=cores) == most


def test_only_small_pieces_with_the_same_columns_are_put_together() -> None:
    sizes = {"a": 500_000, "b": 10, "c": 500_000, "d": 2_000_000, "e": 500_000, "f": 20}
    columns = {"b": ("id", "word"), "f": ("id", "word")}
    pieces = [
        SimpleNamespace(weight=size, name=name, table=SimpleNamespace(columns=columns.get(name, ("id",))))
        for name, size in sizes.items()
    ]
    groups = ["".join(piece.name for piece in group) for group in alike(pieces)]  # type: ignore[arg-type, attr-defined]
    assert groups == ["ac", "d", "bf", "e"]


def test_batches_are_handed_on_at_the_pace_of_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("sparkjobs.tasks.pieces.time", SimpleNamespace(monotonic=lambda: now[0], sleep=pause))
    batch = pa.record_batch([pa.array([1, 2, 3, 4], pa.int64())], ["id"])
    seen = 0
    for each in paced([batch] * 4, 16):
        seen += each.num_rows
        now[0] += 0.5 if seen < 12 else 5.0  # a slow reader owes nothing
    assert (seen, pauses) == (16, [1.5, 1.5, 0.0, 0.0])
    assert list(paced([batch], None)) == [batch]
