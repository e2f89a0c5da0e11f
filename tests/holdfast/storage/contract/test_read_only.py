"""What Arrow's threads read through Python ends before Python does, and ends where a file cannot be opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from holdfast.storage import FolderStore, ObjectNotFound, StoreUnavailable
from holdfast.storage.contract.read_only import ReadOnly

SCRIPT = """
import io, sys, time
import pyarrow.dataset as ds
from holdfast.storage import open_store
from holdfast.storage.contract.read_only import ReadOnly

class Slow(io.FileIO):
    def read(self, size=-1):
        time.sleep(0.02)
        return super().read(size)

store = open_store(sys.argv[1])
store.open_read = lambda key: Slow(f"{sys.argv[2]}/{key}")
rows = ds.dataset([f"{number}.parquet" for number in range(8)], filesystem=ReadOnly.over(store), format="parquet")
print(next(iter(rows.to_batches())).num_rows)
sys.exit(7)
"""


def test_a_process_that_has_seen_enough_ends_as_it_says(tmp_path: Path) -> None:
    for number in range(8):
        pq.write_table(pa.table({"a": [number] * 5, "b": ["x"] * 5}), tmp_path / f"{number}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path.as_uri(), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("5\n", "", 7)


class Unreachable(FolderStore):
    """A folder whose files cannot be opened, though they are there."""

    def open_read(self, key: str) -> IO[bytes]:
        raise self.error

    error: Exception = StoreUnavailable("no network")


@pytest.mark.parametrize("error", [StoreUnavailable("no network"), ObjectNotFound("it went"), OSError("reset")])
def test_a_scan_of_a_file_that_cannot_be_opened_ends_with_why(tmp_path: Path, error: Exception) -> None:
    store = Unreachable(tmp_path)
    store.error = error
    with store.open_write("t.parquet") as file:
        pq.write_table(pa.table({"n": [1]}), file)
    kind = ds.ParquetFileFormat()
    filesystem = ReadOnly.over(store)
    for _ in range(10):  # without what ends it, the second or third one waits for ever
        fragment = kind.make_fragment("t.parquet", filesystem)
        dataset = ds.FileSystemDataset([fragment], pa.schema([("n", pa.int64())]), kind, filesystem)
        with pytest.raises(FileNotFoundError if isinstance(error, ObjectNotFound) else type(error)):
            dataset.scanner().to_reader().read_all()
