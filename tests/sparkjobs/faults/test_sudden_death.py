"""Processes of a job end suddenly: the archive holds whole commits only, and the next job succeeds."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from holdfast.archive import Archive, locks
from holdfast.archive.format.resume import FinishedPiece
from holdfast.archive.format.runs import read_unfinished
from holdfast.archive.maintenance.verify import verify
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from locking import Owner, RWLock, inspect
from tests.support.jobs.command import NOTHING, ON_SPARK, Finished, Job, all_gone, finish, job_of, start, until
from tests.support.jobs.command_here import run_here
from tests.support.jobs.gate import GUARD, loading_held_up, reading_held_up

pytestmark = pytest.mark.service

HELD = "public.held_pkey"
ROWS = 10_002
NOTICE_S = 15.0
"""Within this a job must have noticed that its command is gone, and ended."""

CreateDatabase = Callable[..., Address]


@pytest.fixture(scope="module")
def source(create_database: CreateDatabase) -> Address:
    """A table that a gate can be put before, one that can always be read, and one whose loading can be held up."""
    return create_database(
        "create table held as select i as id, md5(i::text) as word from generate_series(1, 5000) i",
        "alter table held add primary key (id)",
        "create table free as select * from held",
        "alter table held add twice int generated always as (id * 2) stored",
        GUARD,
        "create table guarded (id int check (public.guard()))",
        "insert into guarded values (1), (2)",
    )


EXECUTORS: dict[str, Mapping[str, str]] = {"inline": NOTHING, "spark": ON_SPARK}


def start_backup(
    store: ObjectStore, source: Address, *more: str, executor: Mapping[str, str] = NOTHING
) -> subprocess.Popen[str]:
    return start("backup", store.url, "--source", source.url, "--json", *more, address=source, more=executor)


def assert_whole(store: ObjectStore, source: Address, *, commits: int) -> None:
    """Only whole commits are there, and nobody's lock is in the way, without any waiting."""
    archive = Archive.open(store)
    assert archive.state.sequence == commits
    assert verify(archive, deep=True).damage == ()
    locks.acquire(store, "backup", sources=[source.database], owner=Owner(), purpose="next", wait=0).release()
    RWLock(store, "format").write(purpose="next", wait=0).release()


@pytest.fixture(scope="module")
def two_tasks(create_database: CreateDatabase) -> Address:
    """A table that a gate can be put before, and one that is large enough to be read by two tasks, if of dead rows."""
    return create_database(
        "create table held as select i as id, md5(i::text) as word from generate_series(1, 5000) i",
        "alter table held add primary key (id)",
        "alter table held add twice int generated always as (id * 2) stored",
        "create table large (id int, word text)",
        "alter table large alter word set storage plain",
        "insert into large select i, repeat('x', 7900) from generate_series(1, 9000) i",
        "delete from large where id % 1000 <> 0",
    )


@pytest.mark.parametrize(
    ("executor", "killed"),
    [("spark", "java"), pytest.param("inline", "driver", marks=pytest.mark.exhaustive)],
)
def test_a_backup_whose_job_is_killed_goes_on_from_the_pieces_that_were_read(
    store: ObjectStore, two_tasks: Address, executor: str, killed: str
) -> None:
    with reading_held_up(two_tasks, HELD) as gate:
        command = start_backup(store, two_tasks, executor=EXECUTORS[executor])
        gate.wait_for_somebody()
        before = until(lambda: pieces_of_the_run(store), "pieces to be recorded")
        job = job_of(command)
        assert_tells_no_password(job, two_tasks)
        if killed == "java":
            job = replaced_workers(command, job)
        getattr(job, killed).kill()
        until(lambda: all_gone(job.all), "the job to end")
    done = finish(command)
    assert (done.code, done.value["commit"], done.value["rows"]) == (0, 1, 5009), done.err
    assert "the job was killed while" in done.err or "Spark's Java process has ended" in done.err
    assert f"going on: {len(before)} of 3 pieces were read" in done.err
    (block,) = Archive.open(store).commit(1).add
    files = {file.path for file in block.files()}
    assert {file.path for piece in before for file in piece.files} <= files
    # Nobody has read again what was recorded.
    written = {path.relative_to(store.url).as_posix() for path in Path(store.url).glob("data/**/*") if path.is_file()}
    assert [path for path in written - files if path.startswith(tuple(stem_of(piece) for piece in before))] == []
    assert {path.split("/")[4] for path in written} == {block.id}
    assert_whole(store, two_tasks, commits=1)


def replaced_workers(command: subprocess.Popen[str], job: Job) -> Job:
    """Kill the workers of a job, and return the job when Spark has its task tried again by others."""
    assert job.workers
    lost = {worker.pid for worker in job.workers}
    for worker in job.workers:
        worker.kill()

    def others() -> Job | None:
        found = job_of(command)
        return found if {worker.pid for worker in found.workers} - lost else None

    again: Job = until(others, "another worker")
    return again


def assert_tells_no_password(job: Job, source: Address) -> str:
    """Check what a list of processes shows of a job's; returns that."""
    shown = "\n".join(" ".join(each.cmdline()) for each in (job.java, job.driver, *job.workers) if each is not None)
    assert source.password
    assert source.password not in shown
    return shown


def pieces_of_the_run(store: ObjectStore) -> tuple[FinishedPiece, ...]:
    """Return the finished pieces of the one run there is."""
    for name in {info.key.split("/")[1] for info in store.list("runs/").objects}:
        found = read_unfinished(store, name)
        return found.pieces if found else ()
    return ()


def stem_of(piece: FinishedPiece) -> str:
    """Return what the names of all files of a piece begin with, whoever wrote them."""
    return f"{piece.files[0].path.rpartition('/')[0]}/{piece.number:05d}"


def test_a_command_that_is_told_to_stop_ends_its_job_and_releases_its_locks(
    store: ObjectStore, source: Address
) -> None:
    with reading_held_up(source, HELD) as gate:
        command = start_backup(store, source)
        gate.wait_for_somebody()
        job = job_of(command)
        command.send_signal(signal.SIGTERM)
        done = finish(command)
        assert all_gone(job.all)
    assert inspect(store) == []
    stopped = "stopped, and its locks were released; run it again to continue"
    assert (done.code, done.value) == (130, {"error": stopped, "exit_code": 130})
    assert "Traceback" not in done.err
    assert_whole(store, source, commits=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("executor", ["inline", "spark"])
def test_a_job_whose_command_is_killed_ends_by_itself_and_commits_nothing(
    store: ObjectStore, source: Address, executor: str
) -> None:
    with reading_held_up(source, HELD) as gate:
        command = start_backup(store, source, executor=EXECUTORS[executor])
        gate.wait_for_somebody()
        job = job_of(command)
        command.kill()
        finish(command)
        until(lambda: all_gone(job.all), "the job to notice", limit_s=NOTICE_S)
    assert_whole(store, source, commits=0)


@dataclass(frozen=True)
class Story:
    """A backup that was held up; meanwhile one tried to begin, one waited, and a table was to be dropped.

    By Spark, its workers were killed as well.
    """

    store: ObjectStore
    survivor_pid: int
    survivor: Finished
    shown: str
    impatient: Finished
    patient: Finished
    drop: str


@pytest.fixture(scope="module", params=["inline", pytest.param("spark", marks=pytest.mark.exhaustive)])
def story(request: pytest.FixtureRequest, source: Address, tmp_path_factory: pytest.TempPathFactory) -> Story:
    store = Archive.create(open_store(str(tmp_path_factory.mktemp("story") / "archive")), name="shop").store
    with reading_held_up(source, HELD) as gate:
        survivor = start_backup(store, source, executor=EXECUTORS[request.param])
        gate.wait_for_somebody()
        job = job_of(survivor)
        assert (job.java is not None, bool(job.workers)) == (
            (True, True) if request.param == "spark" else (False, False)
        )
        shown = assert_tells_no_password(job, source)
        for worker in job.workers:
            worker.kill()
        impatient = run_here("backup", store.url, "--source", source.url, "--json", address=source)
        patient = start_backup(store, source, "--wait", "100")
        drop = try_to_drop(source, "public.free")
    return Story(store, survivor.pid, finish(survivor), shown, impatient, finish(patient), drop)


def try_to_drop(source: Address, table: str) -> str:
    with connect(source) as session:
        session.execute("set lock_timeout = '100ms'")
        try:
            session.execute(f"drop table {table}".encode())
        except psycopg.errors.LockNotAvailable:
            return "it waits for the backup"
    return "dropped"


@pytest.mark.exhaustive
def test_a_backup_that_was_held_up_and_has_lost_its_workers_by_spark_doubles_nothing(
    story: Story, source: Address
) -> None:
    assert (story.survivor.code, story.survivor.value["commit"], story.survivor.value["rows"]) == (0, 1, ROWS)
    blocks = [block for commit in Archive.open(story.store).commits() for block in commit.add]
    assert [block.rows for block in blocks] == [ROWS, ROWS]
    assert blocks[0].tables == tuple(
        one.model_copy(update={"files": first.files})
        for one, first in zip(blocks[1].tables, blocks[0].tables, strict=True)
    )
    assert_whole(story.store, source, commits=2)


def test_nobody_who_lists_processes_or_reads_their_words_learns_the_password(story: Story, source: Address) -> None:
    assert source.password
    assert re.search(r"backup(\.py)? --archive|--ready backup", story.shown)
    for said in (story.survivor, story.impatient, story.patient):
        assert source.password not in said.out + said.err
    files = [path for path in Path(story.store.url).rglob("*") if path.is_file()]
    assert [path for path in files if source.password.encode() in path.read_bytes()] == []


def test_a_second_backup_at_the_same_moment_is_told_who_holds_the_lock(story: Story, source: Address) -> None:
    assert (story.impatient.code, story.impatient.value["exit_code"]) == (3, 3)
    assert f"ingest-{source.database}" in story.impatient.value["error"]
    assert f"process {story.survivor_pid}" in story.impatient.value["error"]


def test_a_second_backup_that_may_wait_comes_after_the_first(story: Story) -> None:
    assert (story.patient.code, story.patient.value["commit"]) == (0, 2)


def test_a_table_cannot_be_dropped_in_the_middle_of_a_backup(story: Story) -> None:
    assert story.drop == "it waits for the backup"


def test_a_restore_whose_command_was_killed_is_gone_on_with_and_no_other_one(
    story: Story, source: Address, create_database: CreateDatabase
) -> None:
    target = create_database()
    with loading_held_up(target) as gate:
        killed = start("restore", story.store.url, "--to", target.url, "--json", address=target)
        gate.wait_for_somebody()
        job = job_of(killed)
        killed.kill()
        finish(killed)
        until(lambda: all_gone(job.all), "the job to notice", limit_s=NOTICE_S)
    other = run_here("restore", story.store.url, "--to", target.url, "--at", "commit:1", "--json", address=target)
    assert (other.code, other.value["exit_code"]) == (5, 5)
    assert "this one is of commit 1: go on with that one (--at commit:2), or drop the" in other.value["error"]

    again = run_here("restore", story.store.url, "--to", target.url, "--json", address=target)
    assert (again.code, again.value["rows"], again.value["equal"]) == (0, ROWS, True)
    assert again.value["resumed"]["files"] < 3
    assert "going on with run restore" in again.err
    with connect(target) as session:
        assert session.execute("select count(*), count(distinct id) from public.held").fetchone() == (5000, 5000)
    assert_whole(story.store, source, commits=2)
