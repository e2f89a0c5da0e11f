"""Jobs of maintenance in this process, on an archive with the full backups of a few days."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, locks
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block
from holdfast.archive.format.document import TableRecord
from holdfast.archive.format.runs import RunRecord, read_last
from holdfast.operations import job_process
from holdfast.storage import ObjectStore
from locking import Owner

_numbers = itertools.count(1)


Main = Callable[[Sequence[str]], int]


RunMaintenance = Callable[..., tuple[int, RunRecord]]


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def back_up(store: ObjectStore, number: int, archive: Archive | None = None) -> Block:
    """Add a snapshot of one table in three files, taken on the day of this number.

    :param archive: that is open; None: one is opened.
    """
    identity = f"b{number}"
    batch = pa.record_batch({"id": pa.array([1, 2, 3])})
    files = tuple(
        record
        for part in range(3)
        for record in write_parquet(store, f"data/shop/1/snapshot/{identity}/{part:05d}", batch.schema, [batch])
    )
    table = TableRecord(id="1", table_schema="public", name="orders", rows=9, digest="", files=files)
    at = NOON + timedelta(days=number)
    block = make_block(identity=identity, source="shop", position=f"0/{number}00", at=at, tables=(table,))
    catalog = write_bytes(store, f"data/shop/schema/{identity}/catalog.json", b"{}")
    block = block.model_copy(update={"catalog": catalog})
    opened = archive or Archive.open(store)
    opened.add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    return block


@contextmanager
def job_of(store: ObjectStore, operation: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make this process look like a job under the locks of an operation."""
    with locks.acquire(store, operation, owner=Owner(), purpose="test", wait=0) as held:
        for name, value in job_process.job_environment(None, None, held).items():
            monkeypatch.setenv(name, value)
        # As in conftest.py: whichever test comes first starts the Java process that all of them use.
        options = "--master local[2,4] --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{options} pyspark-shell")
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


def result_of(ran: tuple[int, RunRecord]) -> dict[str, Any]:
    code, record = ran
    assert (code, record.state) == (0, "succeeded"), record.error
    assert record.result is not None
    return record.result


def run_maintenance(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, main: Main, operation: str, *arguments: str
) -> tuple[int, RunRecord]:
    """Run an application in this process; return the exit code and the run's last record."""
    name = f"{operation}-{next(_numbers)}"
    with job_of(store, operation, monkeypatch):
        code = main(["--archive", store.url, "--run", name, *arguments])
    record = read_last(store, name)
    assert record is not None
    return code, record
