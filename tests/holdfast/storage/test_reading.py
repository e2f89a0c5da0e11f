"""What Arrow's threads read through Python ends before Python does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCRIPT = """
import io, sys, time
import pyarrow.dataset as ds
from holdfast.storage import open_store
from holdfast.storage.reading import ReadOnly

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
