"""The store fails a job, or a job dies in the middle of its requests to object storage: nothing is lost or doubled.

Requests are counted as a job makes them, so no list here can be out of date. `make test-all` tries each one,
`make test` one of each kind of those that change something.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.support.faults.disk import leave_room
from bench.support.faults.network import faulty_network
from bench.support.versitygw import S3Server, running_versitygw
from holdfast.archive import Archive
from holdfast.archive.history import target_resolution
from holdfast.archive.locks import lock_table
from holdfast.archive.maintenance.verify import verify
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.snapshot.table_reader import cut
from holdfast.storage import ObjectStore, open_store
from locking import RWLock
from locking.store import StoreError
from sparkjobs.driver import application, snapshot_reader
from tests.support.jobs.command import run, until
from tests.support.jobs.inline_jobs import RunJob
from tests.support.jobs.steps import Kill, SteppedStore, When
from tests.support.jobs.sudden_jobs import PIECE_BYTES, SOURCE, Order, SuddenJobs
from tests.support.servers.sessions import nothing_left_in
from tests.support.servers.small_disk import OnSmallDisk
from tests.support.stores.failing_requests import FULL, UNKNOWN, Failing

pytestmark = pytest.mark.service

SHOP = (
    "create table orders as select i as id, rpad('order ' || i, 100, 'x') as word from generate_series(1, 1000) i",
    "alter table orders add primary key (id)",
    "create table people (id int, name text)",
)
ROWS = 1000
NOTICE_S = 30.0
"""Within this a server has noticed that a session's client is gone; a free machine needs less than 0.1 s."""


@pytest.fixture(scope="module")
def shop(create_database: Callable[..., Address]) -> Address:
    return create_database(*SHOP)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "cut", partial(cut, piece_bytes=PIECE_BYTES))


OF_EACH_KIND = (
    *((1, "create runs/"), (3, "create runs/")),
    *((1, "begin data/"), (2, "write data/"), (4, "end data/")),
    (1, "create commits/"),
)
"""Requests that change something, by their number among those whose names begin so."""

EVERY_ONE = tuple((at, "") for at in range(1, 1000))


def fail_requests(
    run_backup: RunJob,
    store: ObjectStore,
    shop: Address,
    when: When,
    error: StoreError,
    requests: Sequence[tuple[int, str]],
) -> None:
    """Fail a request of a backup, another one of the next one, until none is left; all that was made is whole."""
    commits = 0
    for at, named in requests:
        failing = Failing(at, when, error, named=named)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(application, "open_store", lambda url, failing=failing: SteppedStore(store, failing))
            code, record = run_backup(shop)
        if len(failing.requests) < at:
            assert (code, at > 10, named) == (0, True, "")
            sys.stdout.write(f"{len(failing.requests)} requests\n")
            break
        place = f"{when} request {at}, {failing.requests[at - 1]}"
        said = record.error.message if record.error else ""
        archive = Archive.open(store)
        made = archive.state.sequence - commits
        commits = archive.state.sequence
        assert (code, made) in ((0, 1), (1, 0), (6, 0), (6, 1)), f"{place}: {code}, {said}"
        assert code == 0 or str(error) in said, f"{place}: {said}"
        assert verify(archive, deep=True).damage == (), place
    assert run_backup(shop)[0] == 0
    archive = Archive.open(store)
    assert all(placed.block.rows == ROWS for placed in archive.state.blocks.values())
    assert verify(archive, deep=True).damage == ()


def test_a_store_that_is_full_at_any_request_fails_a_backup_with_a_sentence(
    run_backup: RunJob, store: ObjectStore, shop: Address, no_spark: None
) -> None:
    fail_requests(run_backup, store, shop, "before", FULL, OF_EACH_KIND)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("when", "error"), [("before", FULL), ("before", UNKNOWN), ("after", UNKNOWN)])
def test_a_store_that_fails_any_request_leaves_whole_backups_or_none(
    run_backup: RunJob, store: ObjectStore, shop: Address, no_spark: None, when: When, error: StoreError
) -> None:
    fail_requests(run_backup, store, shop, when, error, EVERY_ONE)


class TestFullDisk(OnSmallDisk):
    def test_a_full_disk_fails_a_backup_and_the_next_one_works_when_there_is_room(
        self, run_backup: RunJob, store: ObjectStore, shop: Address, no_spark: None
    ) -> None:
        disk = Path(store.url).parent
        leave_room(disk, 20_000)
        code, record = run_backup(shop)
        assert code == 1
        assert record.error is None or "No room left to" in record.error.message
        assert Archive.open(store).state.sequence == 0
        leave_room(disk, 20_000_000)
        assert run_backup(shop)[0] == 0
        assert verify(Archive.open(store), deep=True).damage == ()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_versitygw() as server, pytest.MonkeyPatch.context() as patch:
        server.make_bucket("backups")
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def sudden(tmp_path: Path, s3: S3Server) -> Iterator[SuddenJobs]:
    jobs = SuddenJobs(tmp_path / "jobs")
    yield jobs
    jobs.close()


def copied(origin: ObjectStore, url: str) -> ObjectStore:
    """Return a copy of an archive, at an empty place."""
    copy = open_store(url)
    for info in origin.list("").objects:
        copy.put(info.key, origin.get(info.key))
    return copy


def kill_backups_on_s3(sudden: SuddenJobs, shop: Address, name: str, kills: Iterable[Kill]) -> None:
    """Kill a backup into S3 at a step, the next one at another step, until one is made."""
    assert shop.password
    origin = Archive.create(open_store(f"s3://backups/{name}"), name="shop").store
    order = partial(Order, "backup", url=shop.url, password=shop.password)
    first = sudden.run(order(archive=origin.url, run="first"))
    assert first.code == 0, first.said
    for number, kill in enumerate(kills):
        store = copied(origin, f"s3://backups/{name}-{number}")
        ended = sudden.run(order(archive=store.url, run="killed", **asdict(kill)))
        if ended.code == 0:
            sys.stdout.write(f"{len(ended.steps)} steps\n")
            assert (kill.at > 50, kill.named) == (True, "")
            break
        place = f"{kill.when} {ended.steps[-1]} ({len(ended.steps)})"
        assert ended.code == -signal.SIGKILL, f"{place}: {ended.said}"
        before = Archive.open(store)
        assert before.state.sequence in (1, 2), place
        assert verify(before, deep=True).damage == (), place
        again = sudden.run(order(archive=store.url, run="again"))
        assert again.code == 0, f"{place}, run again: {again.said}"
        after = Archive.open(store)
        assert after.state.sequence == before.state.sequence + 1, place
        assert {placed.block.rows for placed in after.state.blocks.values()} == {ROWS}, place
        assert verify(after, deep=True).damage == (), place
        assert target_resolution.resolve(after.state, after.store, SOURCE, "latest").commit == after.state.sequence, (
            place
        )
        for planned in lock_table.plan("backup", [SOURCE]):
            RWLock(store, planned.resource).write(purpose="next", wait=0).release()
        until(lambda: nothing_left_in(shop), f"sessions and slots to go ({place})", limit_s=NOTICE_S)


def test_a_store_that_is_away_while_tables_are_read_fails_a_backup_in_the_jobs_own_words(
    s3: S3Server, create_database: Callable[..., Address]
) -> None:
    """No commit was tried: it has failed, and nothing about it is unknown."""
    words = create_database("create table words as select md5(i::text) as word from generate_series(1, 20000) i")
    url = Archive.create(open_store("s3://backups/away"), name="shop").store.url
    with faulty_network(urlsplit(s3.endpoint).port or 0, "reset", to_server=100_000) as network:
        more = {**s3.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{network.port}"}
        ended = run("backup", url, "--source", words.url, "--json", address=words, more=more)
        assert network.happened.is_set()
    assert (ended.code, ended.value["exit_code"]) == (1, 1), ended.err
    assert re.search(r"^a task failed each time it was tried: .*data/", ended.value["error"]), ended.err
    assert Archive.open(open_store(url)).state.sequence == 0


@pytest.mark.exhaustive
def test_a_backup_into_s3_that_is_killed_loses_nothing_and_the_next_one_is_whole(
    sudden: SuddenJobs, shop: Address
) -> None:
    kill_backups_on_s3(sudden, shop, "some", [Kill(1, "create commits/", "after")])


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_backup_into_s3_that_is_killed_at_any_step_loses_nothing_and_the_next_one_is_whole(
    sudden: SuddenJobs, shop: Address, when: When
) -> None:
    kill_backups_on_s3(sudden, shop, f"every-{when}", (Kill(at, when=when) for at in range(2, 1000)))
