"""A backup's driver is killed at its steps: another one takes its place, under the same locks, in the same snapshot.

A step is every request to the store and everything that is asked of the database; they are counted as the job does
them, so no list here can be out of date.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive, locks
from holdfast.archive.files.blocks import read_batches
from holdfast.archive.format.block import Block
from holdfast.archive.format.resume import FinishedPiece
from holdfast.archive.format.runs import read_last, read_unfinished
from holdfast.archive.maintenance.verify import verify
from holdfast.operations import job_process as jobs
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from tests.support.jobs.command import until
from tests.support.jobs.steps import When, one_of_each_kind
from tests.support.jobs.sudden_jobs import SOURCE, Ended, Order, SuddenJobs
from tests.support.servers.sessions import nothing_left_in

pytestmark = pytest.mark.service

NOTICE_S = 30.0
"""Within this a server has noticed that a session's client is gone; a free machine needs less than 0.1 s."""

ORDERS = [(number, f"order {number} ".ljust(100, "x")) for number in range(1, 101)]
PEOPLE = [(1, "Ada"), (2, None)]


Chosen = Callable[[Sequence[str]], Sequence[int]]
"""Chooses among the steps of a whole job: returns their numbers, from 1."""


@dataclass(frozen=True)
class Lane:
    """A database, an archive that holds one backup of it, and who makes more."""

    source: Address
    archive: Path
    jobs: SuddenJobs

    def back_up(self, archive: Path, run: str, **how: Any) -> Ended:
        assert self.source.password
        return self.jobs.run(Order("backup", str(archive), self.source.url, self.source.password, run, **how))


@pytest.fixture
def lanes(new_database: Callable[[], Address], tmp_path: Path, two_sudden: tuple[SuddenJobs, ...]) -> list[Lane]:
    """Lanes whose archives hold one backup each, which nothing that comes later may harm."""
    made = []
    for number, jobs_of_lane in enumerate(two_sudden):
        source = new_database()
        with connect(source) as session, session.cursor() as cursor:
            cursor.execute("create table public.orders (id int primary key, word text not null)")
            cursor.executemany("insert into public.orders values (%s, %s)", ORDERS)
            cursor.execute("create table public.people (id int, name text)")
            cursor.executemany("insert into public.people values (%s, %s)", PEOPLE)
        folder = tmp_path / f"lane-{number}"
        folder.mkdir()
        lane = Lane(source, folder / "archive", jobs_of_lane)
        made.append(lane)
        Archive.create(open_store(str(lane.archive)), name="shop")
        first = lane.back_up(lane.archive, "first")
        assert first.code == 0, first.said
    return made


def test_a_driver_that_is_killed_before_what_it_leaves_behind_is_followed_by_one_that_goes_on(
    lanes: list[Lane],
) -> None:
    killed = kill_drivers(lanes, "before", last_of_each_kind("create runs/", "end data/"))
    assert [name for name in killed if "create runs/" in name]
    assert [name for name in killed if "end data/" in name]
    assert len(kill_drivers(lanes, "after", last_of_each_kind("create commits/"))) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("packs", [False, True], ids=["files", "packs"])
def test_a_driver_that_is_killed_at_any_step_is_followed_by_one_that_goes_on(
    lanes: list[Lane], when: When, packs: bool
) -> None:
    killed = kill_drivers(lanes, when, lambda steps: range(1, len(steps) + 1), packs=packs)
    sys.stdout.write(f"{len(killed)} steps\n")
    assert any("create commits/" in name for name in killed)


def last_of_each_kind(*beginnings: str) -> Chosen:
    """Return what chooses the last step of each kind, among those whose names begin so."""

    def choose(steps: Sequence[str]) -> list[int]:
        wanted = [name if name.startswith(beginnings) else "" for name in steps]
        return [number for number in one_of_each_kind(wanted) if wanted[number - 1]]

    return choose


def kill_drivers(lanes: list[Lane], when: When, chosen: Chosen, *, packs: bool = False) -> list[str]:
    """Kill a driver at its first chosen step, another one at the next; the steps' names, in order.

    :param chosen: returns the numbers of the steps, from 1, of those of a whole backup.
    :param packs: small pieces are stored in packs.
    """
    taken = itertools.count()
    killed: dict[int, str] = {}

    def work(lane: Lane) -> None:
        with hold_snapshot(lane.source) as held:
            snapshot = {jobs.SNAPSHOT_VARIABLE: held.snapshot.to_json()}
            steps = kill_driver(lane, snapshot, f"whole-{when}", 0, when, packs=packs).steps
            numbers = chosen(steps)
            for number in taken:
                if number >= len(numbers):
                    break
                at = numbers[number]
                ended = kill_driver(lane, snapshot, f"driver-{when}-{at}", at, when, packs=packs)
                if ended.code == 0:  # threads take their steps when they can: this one had fewer
                    break
                killed[at] = ended.steps[at - 1]
        until(lambda: nothing_left_in(lane.source), "sessions and slots to go", limit_s=NOTICE_S)

    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(work, lane) for lane in lanes]:
            done.result()
    return [killed[at] for at in sorted(killed)]


def kill_driver(
    lane: Lane, snapshot: Mapping[str, str], name: str, at: int, when: When, *, packs: bool = False
) -> Ended:
    """Kill a driver at a step, unless that is 0; check that another one goes on from what it has left."""
    folder = lane.archive.with_name(name)
    shutil.copytree(lane.archive, folder)
    store = open_store(str(folder))
    with locks.acquire(store, "backup", sources=[SOURCE], owner=Owner(), purpose="test", wait=0) as held:
        parent = {**jobs.job_environment(lane.source.url, lane.source.password, held, "source"), **snapshot}
        ended = lane.back_up(folder, "killed", at=at, when=when, parent=parent, packs=packs)
        if at == 0 or ended.code == 0:
            assert ended.code == 0, ended.said
            return ended
        place = f"{name}, {ended.steps[at - 1]}"
        assert ended.code == -signal.SIGKILL, f"{place}: {ended.said}"
        left = read_unfinished(store, "killed")
        again = lane.back_up(folder, "killed", parent=parent, packs=packs)
        assert again.code == 0, f"{place}: {again.said}"
    archive = Archive.open(store)
    assert archive.state.sequence == 2, place
    assert verify(archive, deep=True).damage == (), place
    (block,) = archive.commit(2).add
    assert rows_of(archive, block) == {"public.orders": ORDERS, "public.people": PEOPLE}, place
    record = read_last(store, "killed")
    assert record is not None, place
    assert (record.state, record.result and record.result["commit"]) == ("succeeded", 2), place
    if left is not None:
        assert block.id == left.block.id, place
        assert_read_once(store, block, left.pieces, place)
        committed = must_have_committed(folder, ended, when)
        assert committed or not left.pieces or f"going on: {len(left.pieces)} of " in again.said, place
    shutil.rmtree(folder)
    return ended


def assert_read_once(store: ObjectStore, block: Block, pieces: Sequence[FinishedPiece], place: str) -> None:
    """Check that pieces that were recorded are in the block as they were, and that nobody has read them again."""
    named = {file.path for file in block.files()}
    for piece in pieces:
        assert {file.key for file in (*piece.files, *piece.packs)} <= named, place
        if any(file.offset is not None for file in piece.files):
            assert {file.path for file in piece.files} <= {file.path for table in block.tables for file in table.files}
            continue
        stem = f"{piece.files[0].path.rpartition('/')[0]}/{piece.number:05d}"
        assert {info.key for info in store.list(stem).objects} == {file.path for file in piece.files}, place


def must_have_committed(archive: Path, ended: Ended, when: When) -> bool:
    """Say whether the commit must be there; where the process ended within the request that makes it, either may be."""
    passed = ended.steps if when == "after" else ended.steps[:-1]
    *_, last = [name for name in ("", *ended.steps) if not name or name.startswith("create ")]
    if last.startswith("create commits/") and not ended.steps[-1].startswith("create "):
        return Archive.open(open_store(str(archive))).state.sequence == 2
    return any(name.startswith("create commits/") for name in passed)


def rows_of(archive: Archive, block: Block) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of every table of a block, as the files hold them."""
    return {
        table.label: [
            tuple(row.values())
            for file in table.files
            for batch in read_batches(archive.store, file)
            for row in batch.to_pylist()
        ]
        for table in block.tables
    }
