"""Hundreds of thousands of changes, and values that are large, in little memory."""

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

from holdfast.archive.scan.merge_on_read import as_of
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.scan.engine import open_engine
from holdfast.common.field_ids import OP
from holdfast.archive.format.document import TableRecord
from holdfast.archive.scan.net_changes import net_changes
from holdfast.storage import open_store
from tests.support.archives.histories import FIRST_FORM, SINCE, change_schema, history_of

ROWS, LARGE, BATCH = 150_000, 60, 10_000
place = Path(sys.argv[1])
store = open_store(str(place / "archive"))
(spill := place / "spill").mkdir()


def peak():
    # In MB. Not what getrusage says: there the process that started this one counts, too.
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) >> 10


def batch(schema, ids, text, **more):
    columns = {"id": pa.array(ids), "day__exact": pa.array(["infinity"] * len(ids)), "text": pa.array(text), **more}
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(len(ids), field.type)) for field in schema], schema=schema
    )


def rows():
    for start in range(0, ROWS, BATCH):
        ids = np.arange(start, start + BATCH)
        yield batch(FIRST_FORM, ids, [f"{each:0200}" for each in ids])
    for start in range(ROWS, ROWS + LARGE, 10):  # a megabyte each
        ids = np.arange(start, start + 10)
        yield batch(FIRST_FORM, ids, [f"{each:01000000}" for each in ids])


def change(ids, op, lsn, text, unchanged=None):
    more = {"__lsn": pa.array([lsn] * len(ids)), "__seq": pa.array(np.arange(len(ids)) * 2 + 2),
            "__op": pa.array([op] * len(ids)), "__unchanged": pa.array([unchanged] * len(ids), pa.list_(pa.int32()))}
    return batch(change_schema(FIRST_FORM), ids, text, **more)


def changes():
    lsn = SINCE
    for turn in range(2):
        for start in range(0, ROWS, BATCH):
            ids = np.arange(start, start + BATCH)
            lsn += 1
            yield change(ids, "U", lsn, [f"{turn}{each:0200}" for each in ids])
    for start in range(ROWS, ROWS + LARGE, 10):
        ids = np.arange(start, start + 10)
        yield change(ids, "U", lsn + 1, [f"{each + 1:01000000}" for each in ids])
        yield change(ids, "U", lsn + 2, [None] * 10, [3])  # the value is in the change before
        lsn += 2


base = list(write_parquet(store, "base", FIRST_FORM, rows()))
files = list(write_parquet(store, "changes", change_schema(FIRST_FORM), changes()))
plain = {"id": "1", "table_schema": "shop", "name": "orders", "digest": "", "rows": 0}
history = history_of(
    TableRecord(files=tuple(base), **plain), (TableRecord(files=tuple(files), **plain),), 10**9, 0, (1, 2)
)
before = peak()
with open_engine(64 << 20, spill) as engine:
    counted = sum(each.num_rows for each in net_changes(engine, store, history, spill=spill))
net = peak()
seen = sum(each.num_rows for each in as_of(store, history, memory_bytes=256 << 20, spill=spill))
after = peak()
print(counted, seen, ROWS + LARGE, before, net, after)
"""


def test_memory_stays_bounded_whatever_there_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counted, seen, rows, before, net, after = map(int, done.stdout.split())
    assert counted == seen == rows, (before, net, after)
    assert net - before < 400, "MB, with the pages of mapped files; beside what writing the files took"
    assert after < 1000
