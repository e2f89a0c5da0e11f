"""The job of a sync: what is spread over tasks, what stays with the driver, and what it says where files are gone."""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Change, locks
from holdfast.archive.files import transfer
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.runs import RunRecord, read_last
from holdfast.common.errors import exit_code_of
from holdfast.operations import job_process
from holdfast.replication.log.errors import FilesAwayError, MissingFilesError
from holdfast.replication.log.store import ENVIRONMENT, CoordinationStore
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.sync import sync_of_result
from holdfast.storage import ObjectStore
from holdfast.storage.encryption.key_source import ENVIRONMENT as KEY_VARIABLE
from holdfast.storage.encryption.key_source import new_key
from locking import Owner
from sparkjobs import sync
from sparkjobs.driver import application
from tests.support.jobs.command import ON_SPARK, Finished, run
from tests.support.jobs.command_here import run_here
from tests.support.jobs.inline_jobs import SteadyExecutor, failed, session_arguments
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow

_numbers = itertools.count(1)


@pytest.fixture
def coordination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoordinationStore]:
    """A store in a file, which jobs find by their environment."""
    monkeypatch.setenv(ENVIRONMENT, url := f"sqlite:///{tmp_path}/log.db")
    with CoordinationStore.open(url) as store:
        yield store


@pytest.fixture
def two(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near` and `far`."""
    return Replicas.begun(tmp_path, coordination, "far")


@pytest.fixture
def three(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near`, `far` and `off`."""
    return Replicas.begun(tmp_path, coordination, "far", "off")


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a task of its own."""
    monkeypatch.setattr(sync, "TASK_BYTES", 1)


class Job(application.Job):
    """Notes what it was given to spread."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.tasks: list[Sequence[FileRecord]] = []

    def map(self, step: str, tasks: Sequence[Any], *given: Any, **more: Any) -> list[Any]:
        self.tasks += tasks
        return super().map(step, tasks, *given, **more)


def synced(given: Replicas, name: str) -> tuple[dict[str, Any], Job]:
    """Sync a replica as the job does; return what that says, and the job."""
    store = given.place(name)
    with locks.acquire(store, "sync", owner=Owner(), purpose="test", wait=0) as held:
        job = Job(store, f"sync-{next(_numbers)}", "sync", locks.attach(store, held.handles()), SteadyExecutor())
        with job.log:
            job.log.result = sync.sync(job)
    return job.log.result, job


def started(given: Replicas, name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, RunRecord]:
    """Run the application in this process, with Spark; return the exit code and the run's last record."""
    store = given.place(name)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", session_arguments("local[2,4]"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    number = f"sync-{next(_numbers)}"
    with locks.acquire(store, "sync", owner=Owner(), purpose="test", wait=0) as held:
        for variable, value in job_process.job_environment(None, None, held).items():
            monkeypatch.setenv(variable, value)
        code = sync.main(["--archive", store.url, "--run", number])
    record = read_last(store, number)
    assert record is not None
    return code, record


def files_of(given: Replicas, name: str) -> list[Path]:
    """Return the files of the newest backup of a replica."""
    newest = given.state(name).blocks[given.backups[-1]]
    return [given.folder / name / file.path for file in newest.block.files()]


def rot(path: Path) -> None:
    """Make other bytes of a file, as many."""
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))


def back_up_many(given: Replicas, name: str, count: int) -> None:
    """Back up one table of so many files."""
    archive = given.open(name)

    def write(number: int) -> FileRecord:
        body = b"row %d" % number
        path = f"data/crm/1/snapshot/many/{number:05d}.parquet"
        archive.store.create(path, body)
        return FileRecord(path=path, size=len(body), sha256=hashlib.sha256(body).hexdigest(), rows=1)

    files = tuple(write(number) for number in range(count))
    table = TableRecord(id="1", table_schema="public", name="t", rows=count, digest="1:1", files=files)
    block = make_block(identity="many", source="crm", position="0/1", tables=(table,))
    block = block.model_copy(update={"catalog": write(count)})
    archive.add(lambda state: Change("backup", add=(block,)), check=nothing, fence=None)


@pytest.mark.usefixtures("small_tasks")
def test_a_job_does_what_a_sync_without_spark_does_and_says_the_same(three: Replicas) -> None:
    three.back_up("near")
    three.back_up("near", "crm")
    told, job = synced(three, "far")
    here = three.sync("off")
    assert told == replace(here, replica="far").describe()
    assert sync_of_result(told) == replace(here, replica="far")
    assert (told["entries"], told["files"], [len(task) for task in job.tasks]) == (2, 4, [1, 1, 1, 1])
    assert three.state("far").blocks.keys() == three.state("off").blocks.keys() == set(three.backups)
    assert three.is_whole("far")
    assert synced(three, "far")[0] == {**told, "entries": 0, "files": 0, "bytes": 0}


@pytest.mark.usefixtures("small_tasks")
def test_where_a_file_is_damaged_at_one_replica_another_one_is_asked(three: Replicas) -> None:
    three.back_up("near")
    three.sync("off")
    rot(files_of(three, "near")[0])
    told, _ = synced(three, "far")
    assert (told["index"], told["entries"]) == (1, 1)
    assert three.is_whole("far")


@pytest.mark.usefixtures("small_tasks")
def test_files_that_nobody_has_whole_are_told_with_what_to_do(two: Replicas) -> None:
    two.back_up("near")
    two.back_up("near")
    rot(files_of(two, "near")[0])
    told, _ = synced(two, "far")
    with pytest.raises(MissingFilesError) as caught:
        sync_of_result(told)
    assert (caught.value.index, exit_code_of(caught.value)) == (2, 4)
    assert re.fullmatch(
        r"no replica could give data/shop_db/\S+, which entry 2 \(of near\) adds: near: .* is damaged: it has \d+ "
        r"bytes with another checksum .* Put it back from another copy .*: 'holdfast replica give-up 2 --dry-run' .*",
        str(caught.value),
    )
    assert two.place_of("far").index == 1  # what comes before is there all the same


@pytest.mark.usefixtures("small_tasks")
def test_what_lies_in_the_place_of_a_file_is_replaced_by_the_driver(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.back_up("near")
    wrong = two.folder / "far" / files_of(two, "near")[0].relative_to(two.folder / "near")
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(b"half")
    replaced: list[str] = []

    def replace_file(source: ObjectStore, target: ObjectStore, file: FileRecord) -> None:
        replaced.append(file.path)
        transfer.replace_file(source, target, file)

    monkeypatch.setattr(sync, "replace_file", replace_file)
    assert synced(two, "far")[0]["files"] == 2
    assert [two.folder / "far" / path for path in replaced] == [wrong]
    assert two.is_whole("far")


def test_the_job_fails_as_a_sync_without_spark_does(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    two.back_up("near")
    two.lose("far")
    assert failed(started(two, "far", monkeypatch)) == (
        5,
        "replica far is lost (it was away): holdfast replica recover far makes it anew",
    )
    monkeypatch.delenv(ENVIRONMENT)
    code, message = failed(started(two, "far", monkeypatch))
    assert (code, "say where the coordination store is" in message) == (2, True)


@pytest.mark.e2e
@pytest.mark.service
def test_encrypted_replicas_are_synced_by_spark_by_command(
    tmp_path: Path, coordination: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key := tmp_path / "key").write_text(new_key())
    monkeypatch.setenv(KEY_VARIABLE, f"file:{key}")
    three = Replicas.begun(tmp_path, coordination, "far", "off")
    back_up_many(three, "near", 150)  # of which one task copies a hundred at most
    (config := tmp_path / "archives.yaml").write_text(
        "archives: {shop: {replicas: {near: near, far: far, 'off': 'off'}, store: 'sqlite:///log.db', "
        f"encryption: {{key: 'file:{key}'}}}}}}"
    )

    def sync_without_spark(*arguments: str) -> Finished:
        return run_here("replica", "sync", *arguments, "--spark", "--json", more={"HOLDFAST_ARCHIVES": str(config)})

    more = {"HOLDFAST_ARCHIVES": str(config), **ON_SPARK}
    done = run("replica", "sync", "far", "--spark", "--json", more=more)
    assert done.code == 0, done.err
    (value,) = done.value["replicas"]
    assert (value["replica"], value["entries"], value["files"]) == ("far", 1, 151)
    assert three.is_whole("far")
    for name in ("near", "far"):
        next((three.folder / name).rglob("many/00007.parquet")).unlink()
    done = sync_without_spark("--all", "--archive", "shop")
    assert done.code == 4
    far, near, off = done.value["replicas"]
    assert (far["index"], near["index"], off["exit_code"]) == (1, 1, 4)
    assert "no replica could give data/crm/1/snapshot/many/00007.parquet" in off["error"]
    assert three.place_of("off").index == 0


def test_files_that_a_replica_which_is_away_may_have_are_told_as_that(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync_log(self: ReplicatedArchive, **_: object) -> None:
        raise FilesAwayError("near cannot be read", 2)

    monkeypatch.setattr(ReplicatedArchive, "sync", sync_log)
    with pytest.raises(FilesAwayError, match="near cannot be read"):
        sync_of_result(synced(two, "far")[0])
