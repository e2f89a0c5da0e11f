"""The jobs of truncation, vacuum and verification, as the command and the operators start them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
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
from holdfast.replication.log.replicas import add
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import ENVIRONMENT, CoordinationStore
from holdfast.replication.work.membership import found
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.storage import ObjectStore
from locking import Owner, RWLock, inspect
from sparkjobs import truncation, vacuum, verification

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


@pytest.fixture
def filled(store: ObjectStore) -> ObjectStore:
    """An archive with the full backups of four days."""
    for number in range(1, 5):
        back_up(store, number)
    return store


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


@pytest.fixture
def maintain(filled: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> RunMaintenance:
    """Runs an application in this process; returns the exit code and the run's last record."""

    def run(main: Main, operation: str, *arguments: str) -> tuple[int, RunRecord]:
        name = f"{operation}-{next(_numbers)}"
        with job_of(filled, operation, monkeypatch):
            code = main(["--archive", filled.url, "--run", name, *arguments])
        record = read_last(filled, name)
        assert record is not None
        return code, record

    return run


def result_of(ran: tuple[int, RunRecord]) -> dict[str, Any]:
    code, record = ran
    assert (code, record.state) == (0, "succeeded"), record.error
    assert record.result is not None
    return record.result


def test_a_truncation_is_one_commit_that_a_dry_run_only_tells_of(filled: ObjectStore, maintain: RunMaintenance) -> None:
    ran = maintain(truncation.main, "truncation", "--keep", "last=2", "--dry-run")
    planned = result_of(ran)
    assert (planned["dry_run"], planned["commit"], planned["blocks_removed"]) == (True, None, 2)
    assert len(Archive.open(filled).state.blocks) == 4
    assert ran[1].said[0] == "shop, 2026-03-02T12:00:00.000000Z to 2026-03-03T12:00:00.000000Z: 2 restore points, goes"
    assert all("1 restore points, stays: " in line for line in ran[1].said[1:])
    done = result_of(maintain(truncation.main, "truncation", "--keep", "last=2"))
    assert (done["dry_run"], done["commit"], done["blocks_removed"], done["keep"]) == (False, 5, 2, "last=2")
    assert set(Archive.open(filled).state.blocks) == {"b3", "b4"}
    again = result_of(maintain(truncation.main, "truncation", "--keep", "last=2", "--source", "shop"))
    assert (again["commit"], again["blocks_removed"]) == (None, 0)


def test_a_dry_run_of_a_truncation_plans_without_what_may_be_taken_back(
    filled: ObjectStore, maintain: RunMaintenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path}/coordination.db"
    monkeypatch.setenv(ENVIRONMENT, address)
    with CoordinationStore.open(address) as coordination:
        found(coordination, filled, "near")
        coordination.run(lambda c: add(c, Archive.open(filled).identity.id, name="far", url="nowhere"))
        near = ReplicatedArchive.begin(filled, coordination)
        near.wish = QuorumRequest(2)
        back_up(filled, 5, near)
    for dry_run in (["--dry-run"], []):
        done = result_of(maintain(truncation.main, "truncation", "--keep", "last=2", *dry_run))
        assert done["blocks_removed"] == 2


@pytest.mark.parametrize(("rules", "code"), [([], 5), (["--keep", "last=0"], 5), (["--keep", "often=3"], 2)])
def test_a_truncation_that_cannot_be_meant_is_refused(maintain: RunMaintenance, rules: list[str], code: int) -> None:
    found, record = maintain(truncation.main, "truncation", *rules)
    assert (found, record.state) == (code, "failed")
    assert record.error is not None
    assert record.error.exit_code == code


def test_a_vacuum_deletes_what_was_removed_and_a_dry_run_only_tells_of_it(
    filled: ObjectStore, maintain: RunMaintenance
) -> None:
    result_of(maintain(truncation.main, "truncation", "--keep", "last=2"))
    waiting = result_of(maintain(vacuum.main, "vacuum", "--grace", "24h"))
    assert (waiting["files"], len(waiting["waiting"])) == (0, 2)
    planned = result_of(maintain(vacuum.main, "vacuum", "--grace", "0h", "--dry-run"))
    assert (planned["dry_run"], planned["files"]) == (True, 8)
    done = result_of(maintain(vacuum.main, "vacuum", "--grace", "0h", "--no-orphans"))
    assert (done["files"], sorted(done["blocks"])) == (8, ["b1", "b2"])
    assert {found.key.split("/")[-2] for found in filled.list("data/").objects} == {"b3", "b4"}


def test_a_verification_reads_all_files_and_goes_on_where_it_ended(
    filled: ObjectStore, maintain: RunMaintenance
) -> None:
    reads_all_and_goes_on(filled, maintain)


@pytest.mark.exhaustive
@pytest.mark.service
@pytest.mark.usefixtures("on_spark")
def test_a_verification_reads_all_files_in_spark_and_goes_on_where_it_ended(
    filled: ObjectStore, maintain: RunMaintenance
) -> None:
    reads_all_and_goes_on(filled, maintain)


def reads_all_and_goes_on(filled: ObjectStore, maintain: RunMaintenance) -> None:
    whole = result_of(maintain(verification.main, "verification", "--deep"))
    assert (whole["files"], whole["damage"], whole["costs"], whole["deep"]) == (16, [], [], True)
    assert whole["read_since"] is not None
    part = result_of(maintain(verification.main, "verification", "--deep", "--new", "--budget", "1B"))
    assert (part["files"], part["commits"]) == (1, 4)
    assert [info.resource for info in inspect(filled)] == []


@pytest.mark.service
def test_damage_is_told_with_what_it_costs_and_fails_no_job(filled: ObjectStore, maintain: RunMaintenance) -> None:
    path = next(found.key for found in filled.list("data/shop/1/snapshot/b2/").objects)
    filled.put(path, filled.get(path)[:-1] + b"?")
    found = result_of(maintain(verification.main, "verification", "--deep"))
    (said,) = found["damage"]
    assert path in said
    (costs,) = found["costs"]
    assert (costs["file"], costs["table"], costs["source"], costs["commit"]) == (path, "public.orders", "shop", 2)
    assert [(each["first"], each["last"], each["points"]) for each in costs["needed_for"]] == [
        ("commit:2", "commit:2", 1)
    ]
    assert len(Archive.open(filled).state.blocks) == 4


def test_a_look_at_sizes_needs_no_spark_and_waits_for_a_vacuum(
    filled: ObjectStore, maintain: RunMaintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "WAIT_S", 0)
    found = result_of(maintain(verification.main, "verification"))
    assert (found["files"], found["damage"]) == (16, [])
    with RWLock(filled, "history").write(purpose="vacuum", wait=0):
        code, record = maintain(verification.main, "verification", "--new")
    assert (code, record.state) == (3, "failed")
    assert record.error is not None
    assert "history" in record.error.message
