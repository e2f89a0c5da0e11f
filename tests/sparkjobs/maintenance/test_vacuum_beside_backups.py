"""Vacuums while a backup is suspended, and after it was killed: the backup wakes up, and nothing is lost or left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.vacuuming import DAY, run_vacuum
from tests.support.jobs.command import until
from tests.support.jobs.sudden_jobs import Ended, Order, SuddenJobs

pytestmark = pytest.mark.service


@pytest.fixture
def sudden(two_sudden: tuple[SuddenJobs, ...]) -> Iterator[SuddenJobs]:
    jobs = two_sudden[0]
    yield jobs
    if (left := jobs.suspended()) is not None:
        left.kill()


@pytest.fixture
def source(new_database: Callable[[], Address]) -> Address:
    address = new_database()
    with connect(address) as session:
        session.execute(
            "create table public.orders as select n as id, repeat('x', 100) as word from generate_series(1, 500) n"
        )
    return address


@pytest.fixture
def store(tmp_path: Path, sudden: SuddenJobs, source: Address) -> ObjectStore:
    """An archive with one backup."""
    store = open_store(str(tmp_path / "archive"))
    Archive.create(store, name="shop")
    ended = sudden.run(order(store, source, "first"))
    assert ended.code == 0, ended.said
    return store


def order(store: ObjectStore, source: Address, run: str, **how: object) -> Order:
    assert source.password
    return Order("backup", store.url, source.url, source.password, run, **how)  # type: ignore[arg-type]


def let_a_day_pass(store: ObjectStore) -> None:
    """Make everything in an archive's folder older."""
    then = time.time() - 1.5 * DAY.total_seconds()
    for path in Path(store.url).rglob("*"):
        os.utime(path, (then, then))


def must_hold_nothing_but_one_backup(store: ObjectStore) -> None:
    let_a_day_pass(store)
    run_vacuum(store)
    archive = Archive.open(store)
    (placed,) = archive.state.blocks.values()
    assert {found.key for found in store.list("data/").objects} == {file.path for file in placed.block.files()}
    assert verify(archive, deep=True).damage == ()


@pytest.mark.representatives("create commits/-1-1")
@pytest.mark.parametrize(("named", "at", "abandoned"), [("create commits/", 1, 1), ("end data/", 1, 0)])
def test_a_backup_that_was_asleep_for_longer_than_the_grace_commits_nothing(
    sudden: SuddenJobs, source: Address, store: ObjectStore, named: str, at: int, abandoned: int
) -> None:
    with ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(sudden.run, order(store, source, "second", at=at, named=named, suspends=True))
        process = until(sudden.suspended, "the backup to be suspended")
        try:
            let_a_day_pass(store)
            vacuumed = run_vacuum(store)
        finally:
            process.send_signal(signal.SIGCONT)
        ended: Ended = asleep.result(timeout=60)
    assert (vacuumed.busy, len(vacuumed.abandoned)) == ([], abandoned)
    assert ended.code not in (0, 99), ended.said
    assert "abandoned" in ended.said or "lock" in ended.said
    assert [placed.block.run for placed in Archive.open(store).state.blocks.values()] == ["first"]
    must_hold_nothing_but_one_backup(store)
    again = sudden.run(order(store, source, "third"))
    assert again.code == 0, again.said


def test_what_a_killed_backup_has_left_goes_after_the_grace(
    sudden: SuddenJobs, source: Address, store: ObjectStore
) -> None:
    assert sudden.run(order(store, source, "second", at=1, named="create commits/")).code == -signal.SIGKILL
    before = store.list("data/").objects
    assert len(run_vacuum(store).young) == 1
    assert store.list("data/").objects == before
    must_hold_nothing_but_one_backup(store)
