"""Changes that take several times as much as a task may have are put together in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.scan.merge import Merge
from holdfast.common.field_ids import numbered
from holdfast.storage import open_store
from tests.support.archives.histories import change_schema

FILES, ROWS, BYTES = 16, 5_000, 10_000
place = Path(sys.argv[1])
store = open_store(str(place / "archive"))
(spill := place / "spill").mkdir()
random = np.random.default_rng(1)
schema = change_schema(pa.schema([numbered("id", pa.int64(), 1), numbered("body", pa.binary(), 2)]))


def changes(first):
    for start in range(first, first + ROWS, 500):
        bodies = [random.bytes(50) * (BYTES // 50) for _ in range(500)]
        lsns = pa.array(range(start, start + 500))
        ids = pa.array(random.integers(0, 1000, 500))
        extra = [lsns, pa.repeat(2, 500), pa.repeat("U", 500), pa.nulls(500, pa.list_(pa.int32()))]
        yield pa.RecordBatch.from_arrays([ids, pa.array(bodies), *extra], schema=schema)


files = [file for each in range(FILES) for file in write_parquet(store, f"f{each}", schema, changes(each * ROWS))]
written = sum(file.rows for file in Merge(store, files, (1,)).write(store, "joined", spill))
# Not what getrusage says: there the process that started this one counts, too.
status = Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0]) >> 10
print(written, FILES * ROWS, len(list(spill.iterdir())), peak)
"""


@pytest.mark.exhaustive
def test_memory_stays_bounded_whatever_there_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    written, rows, left, peak = map(int, done.stdout.split())
    assert (written, left) == (rows, 0)
    assert peak < 700, "MB, of 800 MB of rows"
