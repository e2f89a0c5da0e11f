"""What is around a job fails in its middle: one sentence says what to do, nothing is lost, and the next one works.

Jobs run in this process and without Spark: the databases, their servers, disks and networks are real.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.support.faults.disk import leave_room
from bench.support.faults.network import Fault, faulty_network
from bench.support.faults.restarted import RestartedServer
from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.operations import backup_run
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from holdfast.postgresql.dump.client_floors import Release
from holdfast.postgresql.snapshot.table_reader import cut
from holdfast.storage import ObjectStore
from sparkjobs.driver import application, snapshot_reader
from tests.support.jobs.command import until
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.servers.postgres import Standby, create_database
from tests.support.servers.sessions import nothing_left_in
from tests.support.servers.small_disk import small_disk

pytestmark = pytest.mark.service

ROWS = 20_000
PIECE_BYTES = 256 << 10


@pytest.fixture(scope="module")
def shop(server: RestartedServer) -> Address:
    """Tables of a few pieces."""
    address = create_database(server)
    with connect(address) as session:
        for name in ("orders", "people"):
            session.execute(
                f"create table public.{name} as select i as id, md5(i::text) as word "
                f"from generate_series(1, {ROWS // 2}) i".encode()
            )
            session.execute(f"alter table public.{name} add primary key (id)".encode())
    return address


@pytest.fixture
def target(server: RestartedServer) -> Address:
    return create_database(server)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, one after the other; and little patience with a server that is gone."""
    monkeypatch.setattr(snapshot_reader, "cut", partial(cut, piece_bytes=PIECE_BYTES))
    monkeypatch.setattr(backup_run, "RETURN_S", 0.5)


def assert_whole(store: ObjectStore, source: Address, *, commits: int) -> None:
    """Only whole commits are there, no password, no session nor slot in the source, and nobody's lock in the way."""
    archive = Archive.open(store)
    assert archive.state.sequence == commits
    assert verify(archive, deep=True).damage == ()
    assert source.password
    kept = [path for path in Path(store.url).rglob("*") if path.is_file()]
    assert not any(source.password.encode() in path.read_bytes() for path in kept)
    until(lambda: nothing_left_in(source), "sessions and slots to go")


def between_pieces(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None], *, after_task: bool = False) -> None:
    """Let something happen, once, when the first piece has been read or loaded; or all of the first task."""
    original = application.Job.map
    left = [happens]

    def interrupted(job: application.Job, step: str, tasks: Sequence[Any], work: Any, **how: Any) -> list[Any]:
        def work_and_more(task: Any, report: Any) -> Iterator[Any]:
            for result in work(task, report):
                yield result
                while left and not after_task:
                    left.pop()()
            while left:
                left.pop()()

        return original(job, step, tasks, work_and_more, **how)

    monkeypatch.setattr(application.Job, "map", interrupted)


@pytest.mark.representatives("while the schema is dumped")
@pytest.mark.parametrize(
    ("fault", "carried"),
    [
        pytest.param("reset", 30_000, id="while the schema is dumped"),
        pytest.param("silent", 500_000, id="without a word"),
    ],
)
def test_a_network_that_is_cut_for_good_fails_a_backup_with_a_sentence(
    run_backup: RunJob, store: ObjectStore, server: RestartedServer, shop: Address, fault: Fault, carried: int
) -> None:
    with faulty_network(server.port, fault, to_client=carried) as network:
        code, message = failed(run_backup(network.way_to(shop)))
    assert (code, network.happened.is_set()) == (1, True)
    assert re.search("cannot connect to .* Is the server running and reachable from here", message), message
    assert_whole(store, shop, commits=0)
    assert run_backup(shop)[0] == 0
    assert_whole(store, shop, commits=1)


def test_a_network_that_is_cut_for_a_moment_makes_a_backup_begin_again(
    run_backup: RunJob, store: ObjectStore, server: RestartedServer, shop: Address
) -> None:
    with faulty_network(server.port, "reset", to_client=500_000, lasting=False) as network:
        code, record = run_backup(network.way_to(shop))
    assert (code, record.result and record.result["rows"], network.happened.is_set()) == (0, ROWS, True)
    assert "starting again from the beginning" in " ".join(record.said)
    assert_whole(store, shop, commits=1)


def test_a_server_that_crashes_and_comes_back_makes_a_backup_begin_again(
    run_backup: RunJob, store: ObjectStore, server: RestartedServer, shop: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_pieces(monkeypatch, lambda: server.restart(signal.SIGQUIT))
    code, record = run_backup(shop)
    assert (code, record.result and record.result["rows"]) == (0, ROWS), record.error
    assert "starting again from the beginning" in " ".join(record.said)
    assert_whole(store, shop, commits=1)


@pytest.mark.exhaustive
def test_tables_that_are_emptied_when_somebody_has_ended_the_session_that_kept_them_are_read_anew(
    run_backup: RunJob, store: ObjectStore, server: RestartedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create_database(server)
    with connect(source) as session:
        for name in ("one", "other"):
            session.execute(f"create table public.{name} as select generate_series(1, 100) as id".encode())

    def empty_them() -> None:
        with connect(source) as session:
            session.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            session.execute("truncate public.one, public.other")
            session.execute("insert into public.one values (1)")

    monkeypatch.setattr(snapshot_reader, "pack", lambda pieces, weight, **how: [[piece] for piece in pieces])
    between_pieces(monkeypatch, empty_them, after_task=True)
    code, record = run_backup(source)
    assert (code, record.result and record.result["rows"]) == (0, 1), record.error
    assert_whole(store, source, commits=1)


def test_a_server_that_is_shut_down_for_good_fails_a_backup_with_a_sentence(
    run_backup: RunJob, store: ObjectStore, server: RestartedServer, shop: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_pieces(monkeypatch, lambda: server.end(signal.SIGINT))
    try:
        code, message = failed(run_backup(shop))
    finally:
        server.start_again()
    assert (code, "cannot connect to" in message) == (1, True)
    assert_whole(store, shop, commits=0)


def test_a_disk_of_a_target_that_is_full_fails_a_restore_with_a_sentence(
    run_backup: RunJob, run_restore: RunJob, store: ObjectStore, server: RestartedServer, shop: Address
) -> None:
    assert run_backup(shop)[0] == 0
    disk = small_disk(Path(str(server.folder)) / "small", "50m")
    with disk as place, connect(Address(server.url(), server.password)) as session:
        session.execute(f"create tablespace small location '{place}'".encode())
        target = create_database(server, "tablespace small")
        leave_room(place, 500_000)
        code, message = failed(run_restore(target))
        assert code == 1
        assert "No space left on device" in message
        assert "make room on the server's disk, then start again" in message
        session.execute(f"drop database {target.database} with (force)".encode())
        session.execute("drop tablespace small")
        session.execute("checkpoint")  # or a server that crashed would want it back
    assert_whole(store, shop, commits=1)
    assert run_restore(create_database(server))[0] == 0


@pytest.mark.representatives("without a word")
@pytest.mark.parametrize(
    ("fault", "carried"),
    [
        pytest.param("reset", 150_000, id="while rows are loaded"),
        pytest.param("silent", 150_000, id="without a word"),
    ],
)
def test_a_network_that_is_cut_fails_a_restore_with_a_sentence_and_the_next_one_works(
    run_backup: RunJob,
    run_restore: RunJob,
    store: ObjectStore,
    server: RestartedServer,
    shop: Address,
    target: Address,
    fault: Fault,
    carried: int,
) -> None:
    assert run_backup(shop)[0] == 0
    with faulty_network(server.port, fault, to_server=carried) as network:
        code, message = failed(run_restore(network.way_to(target)))
    assert (code, network.happened.is_set()) == (1, True)
    assert re.search("start again when the server is up|cannot connect to .* Is the server running", message), message
    assert_comes_back(run_restore, target)
    assert_whole(store, shop, commits=1)


def assert_comes_back(run_restore: RunJob, target: Address) -> None:
    """A restore into what an unfinished one has left makes it whole."""
    until(lambda: nothing_left_in(target), "sessions of the restore to go")
    code, record = run_restore(target)
    assert (code, record.result and record.result["rows"], record.result and record.result["equal"]) == (0, ROWS, True)


@pytest.mark.exhaustive
def test_a_machine_without_programs_that_are_new_enough_is_told_what_to_install_before_anything_is_written(
    run_backup: RunJob,
    run_restore: RunJob,
    store: ObjectStore,
    shop: Address,
    target: Address,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as machine:
        machine.setattr(programs, "version_of", lambda program: Release(17, 11))
        code, message = failed(run_backup(shop))
    assert (code, "no pg_dump of version 18 or newer was found: install postgresql-client-18" in message) == (1, True)
    assert_whole(store, shop, commits=0)
    assert run_backup(shop)[0] == 0
    with monkeypatch.context() as machine:
        machine.setattr(programs, "version_of", lambda program: None)
        code, message = failed(run_restore(target))
    assert (code, "no pg_restore of version 18 or newer was found: install postgresql-client-18" in message) == (
        1,
        True,
    )
    with connect(target) as session:
        assert session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)
    assert_comes_back(run_restore, target)


def test_a_standby_is_backed_up_whole_but_for_what_is_unlogged(
    run_backup: RunJob, run_restore: RunJob, store: ObjectStore, server: RestartedServer, shop: Address, target: Address
) -> None:
    with connect(shop) as session:
        session.execute("create unlogged table public.fleeting (id int)")
    try:
        with Standby(server) as standby:
            there = Address(standby.url(shop.database), standby.password)
            code, message = failed(run_backup(there))
            assert (code, message.partition(":")[0]) == (
                5,
                "the server is a standby, and unlogged tables cannot be read on one (public.fleeting)",
            )
            assert_whole(store, there, commits=0)
            code, record = run_backup(there, "--exclude", "*.fleeting")
            assert record.result is not None, record.error
            assert (code, record.result["rows"], record.result["snapshot_note"]) == (0, ROWS, "the server is a standby")
            assert record.result["not_included"] == ["rows of public.fleeting: not selected"]
            assert_whole(store, there, commits=1)
            code, message = failed(run_restore(Address(standby.url("postgres"), standby.password)))
            assert (code, "the server is a standby, or set read-only: name another one" in message) == (5, True)
    finally:
        with connect(shop) as session:
            session.execute("drop table public.fleeting")
    (block,) = Archive.open(store).commit(1).add
    assert not block.covers.exact
    assert_comes_back(run_restore, target)
