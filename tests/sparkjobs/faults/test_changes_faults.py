"""What is around a backup of changes fails in its middle: nothing is lost or doubled, and the next one goes on.

Jobs run in this process and without Spark: the databases, their servers, disks and networks are real.
"""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.support.faults.network import Fault, faulty_network
from bench.support.faults.restarted import RestartedServer
from holdfast.archive import Archive
from holdfast.archive import archive as archives
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import SparkEndedError
from holdfast.operations.backup_decision import decide
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import peek
from holdfast.postgresql.logical import stream as streams
from holdfast.storage import ObjectStore
from sparkjobs.driver import application, archived_log, log_windows
from tests.support.archives.damage import flipped
from tests.support.databases.truth import Truth, rows_of
from tests.support.following import followed_shop
from tests.support.following.followed_shop import SOURCE, run_all, settled, slot_of
from tests.support.jobs.command import until
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.jobs.steps import SteppedStore, When
from tests.support.servers.postgres import create_database, drop_slots
from tests.support.stores.failing_requests import FULL, UNKNOWN, Failing

pytestmark = pytest.mark.service

CHANGES = ("--kind", "changes")
SUPERUSER = "is a superuser, and backups need to read only"


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several windows for what little changes here, and little patience with a slot that is read."""
    monkeypatch.setattr(log_windows, "MOST_CHANGES", 8)
    monkeypatch.setattr(peek, "FREE_WAIT_S", 0.2)


@pytest.fixture
def truth(server: RestartedServer, run_backup: RunJob) -> Iterator[Truth]:
    """A source that is followed, with changes that are not backed up."""
    source = create_database(server)
    followed_shop.begin(source)
    code, record = run_backup(source, *CHANGES)
    assert code == 0, record.error
    truth = Truth(source)
    run_all(truth, followed_shop.CHANGES)
    yield truth
    until(lambda: settled(source), "sessions to go")
    drop_slots(source)


def assert_goes_on(store: ObjectStore, truth: Truth, run_backup: RunJob, place: str, *, more: bool = True) -> None:
    """Check what is there now, and that the next backup makes everything whole."""
    archive = Archive.open(store)
    assert verify(archive, deep=True).damage == (), place
    followed_shop.check_never_ahead(archive, truth.address, place)
    if more:
        run_all(truth, followed_shop.MORE_CHANGES)
    until(lambda: settled(truth.address), "sessions to go")
    code, record = run_backup(truth.address, *CHANGES)
    assert (code, record.result and record.result["kind"]) == (0, "changes"), (place, record.error)
    assert_whole(store, truth, place)


def assert_whole(store: ObjectStore, truth: Truth, place: str) -> None:
    archive = Archive.open(store)
    followed_shop.check_let_go(archive, truth.address, place)
    followed_shop.check_whole(archive, place)
    followed_shop.check_once(archive, place)
    followed_shop.check_moments(archive, truth, place, every=4)


def fail_store(patch: pytest.MonkeyPatch, store: ObjectStore, failing: Failing) -> None:
    patch.setattr(application, "open_store", lambda url: SteppedStore(store, failing))


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_of_which_nobody_knows_is_joined_or_repeated_by_the_next_backup(
    truth: Truth, store: ObjectStore, run_backup: RunJob, when: When
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "ATTEMPTS", 1)
        fail_store(patch, store, Failing(2, when, UNKNOWN, named="create commits/"))
        code, _ = failed(run_backup(truth.address, *CHANGES))
    assert code == 6
    assert Archive.open(store).state.sequence == (3 if when == "after" else 2)
    assert_goes_on(store, truth, run_backup, when)


def once_before(patch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], Any], *, at: int = 1) -> None:
    """Let something happen before the `at`-th call of a function."""
    original, calls = getattr(owner, name), itertools.count(1)

    def called(*arguments: Any, **options: Any) -> Any:
        if next(calls) == at:
            happens()
        return original(*arguments, **options)

    patch.setattr(owner, name, called)


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ("changes", "changes"),
        pytest.param("full", "changes", marks=pytest.mark.exhaustive),
        pytest.param("changes", "full", marks=pytest.mark.exhaustive),
    ],
    ids=str,
)
def test_two_backups_without_a_lock_neither_lose_nor_double_anything(
    truth: Truth, store: ObjectStore, run_backup: RunJob, mine: str, other: str
) -> None:
    ran = []
    with pytest.MonkeyPatch.context() as patch:
        owner, name = (archived_log.ArchivedLog, "archive") if mine == "changes" else (archives.Archive, "add")
        once_before(patch, owner, name, lambda: ran.append(run_backup(truth.address, "--kind", other)))
        code, record = run_backup(truth.address, "--kind", mine)
    (second,) = ran
    assert second[0] == 0, second[1].error
    if (mine, other) == ("changes", "full"):
        assert code == 0, record.error
    else:
        assert code == 5, record.error
        assert record.error is not None
        assert re.search("do not follow what is here|was committed meanwhile", record.error.message)
    assert_goes_on(store, truth, run_backup, f"{mine}, {other}")


@contextmanager
def reading(server: RestartedServer, source: Address, name: str) -> Iterator[None]:
    """Read a slot without confirming anything: all of it is still there for us."""
    options = ["-o", "proto_version=1", "-o", f"publication_names={name}", "--status-interval=0", "--fsync-interval=0"]
    reader = subprocess.Popen(
        [str(server.programs / "pg_recvlogical"), "-d", source.url, "--slot", name, "--start", "-f", "-", *options],
        env=source.environment(),
        stdout=subprocess.PIPE,
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.read(1)
        yield
    finally:
        reader.kill()
        reader.communicate()


@pytest.mark.exhaustive
def test_a_slot_that_somebody_else_reads_is_left_to_them(
    truth: Truth, store: ObjectStore, run_backup: RunJob, server: RestartedServer
) -> None:
    archive = Archive.open(store)
    with reading(server, truth.address, slot_of(archive)):
        code, message = failed(run_backup(truth.address, *CHANGES))
    assert (code, "pg_recvlogical of postgres" in message) == (3, True), message
    assert Archive.open(store).state.sequence == archive.state.sequence
    assert_goes_on(store, truth, run_backup, "read by somebody else")


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        ("let_go", signal.SIGQUIT),
        *(
            pytest.param(moment, how, marks=pytest.mark.exhaustive)
            for moment, how in (
                *(("read_windows", signal.SIGQUIT), ("read_windows", signal.SIGINT)),
                *(("archive", signal.SIGQUIT), ("archive", signal.SIGINT), ("let_go", signal.SIGINT)),
            )
        ),
    ],
)
def test_a_server_that_is_restarted_between_a_window_and_its_commit_loses_nothing(
    truth: Truth, store: ObjectStore, run_backup: RunJob, server: RestartedServer, moment: str, how: signal.Signals
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        owner = log_windows if moment == "read_windows" else archived_log.ArchivedLog
        once_before(patch, owner, moment, lambda: server.restart(how), at=2)
        run_backup(truth.address, *CHANGES)
    assert_goes_on(store, truth, run_backup, moment)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("fault", "carried"),
    [
        pytest.param("reset", 30_000, id="while the schema is read"),
        pytest.param("silent", 500_000, id="while changes are read"),
    ],
)
def test_a_network_that_is_cut_loses_nothing(
    truth: Truth, store: ObjectStore, run_backup: RunJob, server: RestartedServer, fault: Fault, carried: int
) -> None:
    with connect(truth.address) as session:  # changes that are more than what is said beside
        session.execute("update public.docs set body = repeat(md5(hits::text), 8000)")
    with faulty_network(server.port, fault, to_client=carried) as network:
        code, message = failed(run_backup(network.way_to(truth.address), *CHANGES))
    assert (code, network.happened.is_set()) == (1, True), message
    assert_goes_on(store, truth, run_backup, fault)


def test_a_spark_that_is_killed_between_windows_is_started_again_and_goes_on(
    truth: Truth, store: ObjectStore, run_backup: RunJob
) -> None:
    def killed() -> None:
        raise SparkEndedError("Spark's Java process has ended in the middle of the job")

    with pytest.MonkeyPatch.context() as patch:
        once_before(patch, application.Job, "map", killed, at=3)
        code, record = run_backup(truth.address, *CHANGES)
    assert (code, record.result and record.result["kind"]) == (0, "changes"), record.error
    assert "starting it again (attempt 2 of 3)" in " ".join(record.said)
    assert_whole(store, truth, "Spark killed")
    assert len({placed.block.run for placed in Archive.open(store).state.blocks.values()}) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(("when", "error"), [("before", FULL), ("before", UNKNOWN), ("after", UNKNOWN)])
def test_a_store_that_fails_any_request_loses_nothing(
    truth: Truth, store: ObjectStore, run_backup: RunJob, when: When, error: Any
) -> None:
    for at in range(1, 1000):
        failing = Failing(at, when, error)
        truth.run(f"insert into public.orders values ({at} + 1000, 'x'), ({at} + 3000, 'y')")
        truth.run(f"update public.docs set hits = {at}")
        del truth.moments[:-4]
        with pytest.MonkeyPatch.context() as patch:
            fail_store(patch, store, failing)
            run_backup(truth.address, *CHANGES)
        place = f"{when} request {at}"
        followed_shop.check_never_ahead(Archive.open(store), truth.address, place)
        if len(failing.requests) < at:
            break
        if at % 20 == 0:
            assert_goes_on(store, truth, run_backup, f"{place}, {failing.requests[at - 1]}", more=False)
    assert_goes_on(store, truth, run_backup, when)


def test_a_stream_that_was_left_by_a_first_backup_is_told_of_and_taken_by_the_next_one(
    store: ObjectStore, server: RestartedServer
) -> None:
    source, said = create_database(server), list[str]()
    followed_shop.begin(source)
    name = slot_of(Archive.open(store))
    decide(store, source, BackupRequest(source=SOURCE), said.append)
    assert [words for words in said if SUPERUSER not in words] == []
    decide(store, source, BackupRequest(source=SOURCE, kind="changes"), lambda words: None)  # and it is killed
    assert decide(store, source, BackupRequest(source=SOURCE), said.append).stream is None
    (words,) = (each for each in said if SUPERUSER not in each)
    assert words.startswith(f"slot {name} exists, but no backup in this archive uses it"), words
    decision = decide(store, source, BackupRequest(source=SOURCE, kind="changes"), lambda words: None)
    assert decision.stream is not None
    assert followed_shop.left_on(source) == ([name], [name])
    with connect(source) as session:
        streams.drop_stream(session, name)


def test_damage_of_a_block_of_changes_is_named_and_keeps_no_other_moment_from_being_restored(
    truth: Truth, store: ObjectStore, run_backup: RunJob, run_restore: RunJob, server: RestartedServer
) -> None:
    assert run_backup(truth.address, *CHANGES)[0] == 0
    before, rows = truth.moments[1]
    truth.run("alter table public.orders add column extra int default 5")
    with connect(truth.address) as session:
        row = session.execute("select clock_timestamp()").fetchone()
    assert row is not None
    truth.run("update public.orders set word = 'last' where id = 8")
    assert run_backup(truth.address, *CHANGES)[0] == 0
    block = Archive.open(store).commit(Archive.open(store).state.sequence).add[0]
    assert block.kind == "changes"
    assert block.transactions is not None
    for file, at in (
        (block.tables[0].files[0], "latest"),
        (block.transactions.file, row[0].isoformat()),
        (block.catalog, "latest"),
        (block.sequences, "latest"),
        (block.schema_dump, "latest"),
    ):
        assert file is not None
        path = Path(store.url) / file.path
        body = path.read_bytes()
        path.write_bytes(flipped(body, len(body) // 2))
        (found,) = verify(Archive.open(store), deep=True).damage
        assert found.what.startswith(file.path)
        target = create_database(server)
        code, message = failed(run_restore(target, "--at", at))
        assert (code, file.path in message) == (4, True), message
        path.write_bytes(body)
    (Path(store.url) / block.transactions.file.path).unlink()
    for table in block.tables:
        (Path(store.url) / table.files[0].path).unlink()
    target = create_database(server)
    code, record = run_restore(target, "--at", f"lsn:{before}")
    assert code == 0, record.error
    assert rows_of(target) == rows
