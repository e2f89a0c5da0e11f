"""A run of a job, as commands and tasks have it: what it is given, and what becomes of its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.format.runs import RunLog
from holdfast.common.errors import HoldfastError, ReportedError, UsageError
from holdfast.common.signing import Signing
from holdfast.config.archives_model import ArchiveConfig
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.job_process import RECORDS_VARIABLE
from holdfast.operations.outcome import JobEnd
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.requests.base import Request
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.operations.requests.verification import VerificationRequest
from holdfast.operations.run import PreparedJob, check, records_of, run_locked
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from locking.store import StoreError, StoreUnavailable
from tests.support.signers import new_signer

SECRET = "hunter2"


@dataclass
class Played:
    """A caller whose jobs end as the test says."""

    end: JobEnd = field(default_factory=JobEnd)
    result: Mapping[str, object] | None = None
    said: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    asked_for_spark: int = 0

    def say(self, words: str) -> None:
        self.said.append(words)

    note = say

    def wait_left(self) -> float:
        return 7.4

    def check_spark(self) -> None:
        self.asked_for_spark += 1

    @contextmanager
    def followed(self, job: PreparedJob, records: ObjectStore) -> Iterator[None]:
        self.records = records
        yield

    def start(self, job: PreparedJob, environment: Mapping[str, str]) -> JobEnd:
        self.given = dict(environment)
        if self.result is not None:
            with RunLog(self.records, job.run, job.operation) as log:
                log.result = dict(self.result)
        return self.end

    def unread(self, error: StoreError) -> Exception:
        return HoldfastError("not known")


def prepared(url: str, request: Request, **more: object) -> PreparedJob:
    archive = ArchiveContext.resolve(ArchiveConfig(url=url))
    return replace(PreparedJob(archive, request, f"{request.operation}.1"), **more)  # type: ignore[arg-type]


def ran(job: PreparedJob, store: ObjectStore, caller: Played) -> dict[str, Any]:
    with job.acquire(store, Owner(), purpose="test", wait=0) as held:
        return run_locked(job, store, held, caller)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return Archive.create(open_store(str(tmp_path / "archive")), name="shop").store


def test_secrets_are_in_the_environment_and_not_in_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEY", "file:///usual/key")
    database = Address("postgresql://me@db.example/shop", SECRET)
    job = prepared("/archive", VacuumRequest(dry_run=True), source="shop_db", database=database)
    assert job.arguments == ["--archive", "/archive", "--run", "vacuum.1", "--dry-run"]
    assert SECRET not in str(job)
    environment = job.environment(None)
    assert (environment["PGPASSWORD"], environment["HOLDFAST_KEY"]) == (SECRET, "file:///usual/key")
    assert environment["HOLDFAST_SOURCE_URL"] == database.url
    target = replace(job, request=RestoreRequest())
    assert target.environment(None)["HOLDFAST_TARGET_URL"] == database.url


def test_a_job_knows_the_coordination_store_of_its_archive_by_its_environment() -> None:
    settings = ArchiveConfig.model_validate(
        {"replicas": {"near": "/near", "far": "/far"}, "store": "sqlite:////log.db"}
    )
    job = PreparedJob(ArchiveContext.resolve(settings), VacuumRequest(), "vacuum.1")
    environment = job.environment(None)
    assert environment["HOLDFAST_STORE"] == "sqlite:////log.db"
    assert environment["HOLDFAST_REPLICAS"] == '{"far": "/far", "near": "/near"}'


def test_nothing_is_written_where_there_is_no_archive(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(HoldfastError, match="is not an archive"):
        check(prepared(str(nowhere), VacuumRequest()), Played())
    assert not nowhere.exists()


@pytest.mark.parametrize(
    ("request_", "executor", "asked"),
    [
        (VacuumRequest(), "auto", 0),
        (VacuumRequest(), "spark", 1),
        (VerificationRequest(deep=True), "auto", 1),
        (VerificationRequest(deep=True), "inline", 0),
        (VerificationRequest(new=True), "auto", 0),
        (BackupRequest(source="shop_db", kind="full"), "auto", 1),
    ],
)
def test_spark_is_asked_for_where_it_is_needed_for_certain(
    store: ObjectStore, request_: Request, executor: str, asked: int
) -> None:
    caller = Played()
    assert check(prepared(store.url, request_, executor=executor), caller).url == store.url
    assert caller.asked_for_spark == asked


def test_a_job_is_given_the_time_that_is_left_and_its_result_is_returned(store: ObjectStore) -> None:
    caller = Played(result={"files": 3})
    assert ran(prepared(store.url, VacuumRequest()), store, caller) == {"files": 3}
    assert caller.given["HOLDFAST_WAIT"] == "7"
    assert caller.said == ["this vacuum runs inline, without Spark: a vacuum has nothing to spread"]


def test_a_job_that_said_nothing_is_reported_by_how_it_ended(store: ObjectStore) -> None:
    caller = Played(JobEnd(-9, "", ["half way", "no room"]))
    with pytest.raises(ReportedError, match=r"was ended by SIGKILL before it gave a reason.*half way \| no room"):
        ran(prepared(store.url, VacuumRequest()), store, caller)


def test_a_job_that_writes_nothing_leaves_its_records_elsewhere(store: ObjectStore) -> None:
    caller = Played(result={"files": 3})
    run_locked(prepared(store.url, VerificationRequest(deep=True, no_lock=True)), store, None, caller)
    assert not store.list("runs/").objects


def test_a_store_that_is_away_at_the_end_is_the_callers_to_report(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: object) -> None:
        raise StoreUnavailable("cut")

    monkeypatch.setattr("holdfast.operations.run.ended_job_result", away)
    with pytest.raises(HoldfastError, match="not known"):
        ran(prepared(store.url, VacuumRequest()), store, Played())


def test_a_job_runs_under_locks_unless_it_takes_none(store: ObjectStore) -> None:
    caller = Played(result={"files": 3})
    with pytest.raises(UsageError, match="under locks only"):
        run_locked(prepared(store.url, VacuumRequest()), store, None, caller)
    assert caller.given == {}


def test_a_backup_needs_a_database(store: ObjectStore) -> None:
    with pytest.raises(UsageError, match="needs a database to read"):
        ran(prepared(store.url, BackupRequest(source="shop_db"), source="shop_db"), store, Played())


@pytest.mark.parametrize("who", [Signing(), Signing("file:/key"), Signing("file:/key", ("ed25519:x",))])
def test_records_go_into_the_archive_where_they_count_there(tmp_path: Path, who: Signing) -> None:
    store = open_store(str(tmp_path), None, who)
    with records_of(store) as (records, variables):
        assert (records, variables) == (store, {})


@pytest.mark.parametrize("unlocked", [True, False])
def test_records_else_go_to_the_parent_alone_and_are_gone_after_it(tmp_path: Path, *, unlocked: bool) -> None:
    who = Signing() if unlocked else Signing(signers=(new_signer(tmp_path / "key")[1],))
    store = open_store(str(tmp_path / "archive"), None, who)
    with records_of(store, unlocked=unlocked) as (records, variables):
        folder = Path(variables[RECORDS_VARIABLE])
        records.create("runs/r/000000.json", b"1")
        assert (folder / "runs" / "r" / "000000.json").read_bytes() == b"1"
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    assert not (tmp_path / "archive").exists()
