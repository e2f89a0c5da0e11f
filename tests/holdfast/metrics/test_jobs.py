"""How the last job of each operation and source ended, from few of the records."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.archive import Archive
from holdfast.archive.format.runs import RunError, RunRecord
from holdfast.metrics.jobs import NEWEST, last_jobs
from tests.holdfast.metrics.conftest import values
from tests.support.stores.memory_store import MemoryStore


def write(store: MemoryStore, run: str, operation: str, state: str = "succeeded", number: int = 0, **more: Any) -> None:
    """Record a job, a minute after the one before."""
    store.advance(timedelta(minutes=1))
    record = RunRecord(run=run, number=number, operation=operation, state=state, step="", **more)  # type: ignore[arg-type]
    store.put(f"runs/{run}/{number:06d}.json", record.to_bytes())


def of(archive: Archive, name: str) -> dict[str, float]:
    """Return the values of a metric, by operation and source."""
    found = values(last_jobs(archive, "shop"))
    start = f"holdfast_job_last_{name}{{archive=shop,operation="
    return {each.removeprefix(start)[:-1]: value for each, value in found.items() if each.startswith(start)}


def test_the_last_of_each_operation_and_source_is_told(archive: Archive, store: MemoryStore) -> None:
    for source in ("shop_db", "crm", "shop_db"):
        write(
            store,
            f"backup.2026{len(store.keys('runs/'))}.a",
            "backup",
            rows=7,
            size=900,
            elapsed_s=3.5,
            result={"source": source},
        )
    ended = store.now
    write(store, "vacuum.20260301.b", "vacuum", size=5)
    assert of(archive, "rows") == {"backup,source=shop_db": 7, "backup,source=crm": 7, "vacuum,source=": 0}
    assert of(archive, "bytes")["vacuum,source="] == 5
    assert of(archive, "duration_seconds")["backup,source=shop_db"] == 3.5
    assert of(archive, "ended_timestamp_seconds")["backup,source=shop_db"] == ended.timestamp()
    assert set(of(archive, "exit_code").values()) == {0}


def test_one_that_failed_has_its_exit_code_and_the_source_of_its_name(archive: Archive, store: MemoryStore) -> None:
    refused = RunError(type="RefusedError", message="it would lose data", exit_code=5)
    write(store, "backup-shop_db.20260301.a", "backup", "failed", error=refused)
    write(store, "verification-all.20260301.a", "verification", "failed", error=refused)
    write(store, "backup.20260301.c", "backup", "failed", error=refused)
    assert of(archive, "exit_code") == {"backup,source=shop_db": 5, "verification,source=": 5, "backup,source=": 5}


def test_one_at_work_and_what_is_no_job_are_passed_over(archive: Archive, store: MemoryStore) -> None:
    write(store, "backup.20260301.a", "backup", "running", 0)
    write(store, "backup.20260301.a", "backup", "running", 1)
    write(store, "verification", "verification")
    write(store, "break-abc.20260301.a", "break")
    store.put("runs/backup.20260301.d/000000.json", b"nothing")
    assert values(last_jobs(archive, "shop")) == {}


def test_only_the_newest_of_a_name_are_read(archive: Archive, store: MemoryStore) -> None:
    for number in range(3 * NEWEST):
        write(store, f"backup.2026{number:04d}.a", "backup", result={"source": "shop_db"}, rows=number)
    write(store, "compaction.20260301.a", "compaction")
    store.requests.clear()
    assert of(archive, "rows") == {"backup,source=shop_db": 3 * NEWEST - 1, "compaction,source=": 0}
    assert len(store.requests) == 1 + NEWEST + 1
