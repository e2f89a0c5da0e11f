"""Data files that are read as one."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.format.document import FileRecord
from holdfast.archive.scan import change_files
from holdfast.archive.scan.change_files import Files
from holdfast.common.errors import DamagedError
from holdfast.storage import FolderStore, ObjectStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def written(store: ObjectStore, name: str, rows: list[int], column: str = "id") -> FileRecord:
    schema = pa.schema([pa.field(column, pa.int64(), metadata={"PARQUET:field_id": "1"})])
    (file,) = write_parquet(store, name, schema, [pa.record_batch([pa.array(rows, pa.int64())], schema=schema)])
    return file


def test_small_files_are_asked_for_and_come_together(store: ObjectStore) -> None:
    files = [written(store, f"f{number}", [number, -number]) for number in range(5)]
    asked = []

    def wanted(start: int, end: int) -> bool:
        asked.append((start, end))
        return True

    (part,) = Files(store, files).read(wanted)
    assert asked == [(0, 10)]
    assert (part.start, part.end) == (0, 10)
    assert part.column(1).to_pylist() == [0, 0, 1, -1, 2, -2, 3, -3, 4, -4]
    assert list(Files(store, files).read(lambda start, end: False)) == []


def test_places_are_the_same_whatever_is_left_out(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [written(store, f"f{number}", [10 * number, 10 * number + 1]) for number in range(4)]
    monkeypatch.setattr(change_files, "RUN_BYTES", files[0].size + files[1].size)
    first, second = Files(store, files).read()
    assert (first.start, first.end, second.start, second.end) == (0, 4, 4, 8)
    (alone,) = Files(store, files).read(lambda start, end: start == 4)
    assert (alone.start, alone.column(1).to_pylist()) == (4, [20, 21, 30, 31])


def test_forms_stay_apart_and_parts_stay_small(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [written(store, "a", [1]), written(store, "b", [2], "renamed"), written(store, "c", [3], "renamed")]
    assert [part.column(1).to_pylist() for part in Files(store, files).read()] == [[1], [2, 3]]
    monkeypatch.setattr(change_files, "PART_BYTES", 8)
    assert [(part.start, part.end) for part in Files(store, files).read()] == [(0, 1), (1, 2), (2, 3)]


class Counted(FolderStore):
    """A folder that notes which files are opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open_read(self, key: str) -> IO[bytes]:
        self.opened.append(key)
        return super().open_read(key)


@pytest.mark.parametrize(("url", "threads"), [("s3://away/archive", 2), ("/on/this/machine", 1)])
def test_small_files_are_read_at_the_same_time_where_each_takes_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, threads: int
) -> None:
    class Met(FolderStore):
        def open_read(self, key: str) -> IO[bytes]:
            seen.append(threading.current_thread())
            if len(seen) <= threads:
                together.wait(30)
            return super().open_read(key)

    seen: list[threading.Thread] = []
    together = threading.Barrier(threads)
    monkeypatch.setattr(change_files, "AT_ONCE", 2)
    store = Met(tmp_path)
    files = [written(store, f"f{number}", [number]) for number in range(5)]
    store.url = url
    (part,) = Files(store, files).read()
    assert part.column(1).to_pylist() == [0, 1, 2, 3, 4]
    assert (len(seen), len(set(seen))) == (5, threads)


def test_what_is_small_is_read_once(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    files = Files(store, [written(store, f"f{number}", [number]) for number in range(5)])
    first, second = list(files.read()), list(files.read())
    assert [part.batch for part in first] == [part.batch for part in second]
    assert len(store.opened) == 5


@pytest.mark.parametrize("bound", ["_KEPT_BYTES", "_FEW_ROWS"])
def test_what_is_large_is_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(change_files, bound, 1)
    store = Counted(tmp_path)
    files = Files(store, [written(store, f"f{number}", [number, number]) for number in range(3)])
    for _ in range(2):
        (part,) = files.read()
        assert part.column(1).to_pylist() == [0, 0, 1, 1, 2, 2]
    assert len(store.opened) == 6


def test_a_small_file_that_is_damaged_is_named(store: ObjectStore) -> None:
    files = [written(store, f"f{number}", [number]) for number in range(5)]
    store.put(files[3].path, b"damaged")
    with pytest.raises(DamagedError, match=re.escape(files[3].path)):
        list(Files(store, files).read())
