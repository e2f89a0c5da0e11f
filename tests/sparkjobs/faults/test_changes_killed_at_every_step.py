"""A backup of changes is killed at each of its steps, one after the other; then everything is looked at, and run again.

It takes several windows, adds a table to the publication, and takes a snapshot of that in the same run. Or it is the
first one, which makes publication and slot. Whatever is cut off: each change is in the archive once, the server keeps
what is not there, and no slot or publication is left that nobody knows.
"""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.archive import Archive, locks
from holdfast.archive.format.runs import read_last
from holdfast.archive.locks import lock_table
from holdfast.operations import job_process as jobs
from holdfast.operations.backup_decision import decide
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.storage import open_store
from locking import Owner, RWLock
from tests.support.databases.truth import Truth, rows_of
from tests.support.following import followed_shop
from tests.support.following.followed_shop import SOURCE, run_all, settled
from tests.support.jobs.command import until
from tests.support.jobs.steps import Kill, When
from tests.support.jobs.sudden_jobs import Ended, Order, SuddenJobs
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

Scenario = Literal["first", "changes"]

NOTICE_S = 30.0
"""Within this a server has noticed that a session's client is gone; a free machine needs less than 0.1 s."""

CHANGES = ("--kind", "changes")
MOST_CHANGES = 8
"""Messages in a window: so the transactions make several."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Lane:
    """Who runs jobs, and where each gets a new database with the same tables."""

    folder: Path
    jobs: SuddenJobs
    server: PostgresServer
    template: Address

    def begin(self, name: str) -> Followed:
        root = Address(self.server.url(), self.server.password)
        database = f"killed_{next(_numbers)}"
        with connect(root) as session:
            session.execute(f"create database {database} template {self.template.database}".encode())
        archive = Archive.create(open_store(str(self.folder / name)), name="shop")
        return Followed(self, archive, Address(self.server.url(database), self.server.password))


@dataclass(frozen=True)
class Followed:
    """A database and its archive."""

    lane: Lane
    archive: Archive
    source: Address

    def run(self, operation: Any, address: Address, run: str, **how: Any) -> Ended:
        assert address.password
        order = Order(operation, self.archive.store.url, address.url, address.password, run, **how)
        return self.lane.jobs.run(order)

    def back_up(self, run: str, **how: Any) -> Ended:
        return self.run("backup", self.source, run, options=CHANGES, **how)

    def opened(self) -> Archive:
        return Archive.open(self.archive.store)

    def restored(self, at: str) -> Any:
        root = Address(self.lane.server.url(), self.lane.server.password)
        name = f"{self.source.database}_back"
        target = Address(self.lane.server.url(name), self.lane.server.password)
        with connect(root) as session:
            session.execute(f"create database {name}".encode())
            ended = self.run("restore", target, "restore", options=("--at", at))
            assert ended.code == 0, ended.said
            rows = rows_of(target)
            session.execute(f"drop database {name} with (force)".encode())
        return rows

    def end(self) -> None:
        """Take what there is of it from the server."""
        root = Address(self.lane.server.url(), self.lane.server.password)
        with connect(root) as session:
            session.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s",
                (self.source.database,),
            )
            session.execute(f"drop database {self.source.database} with (force)".encode())


@pytest.fixture(scope="module")
def lanes(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory, two_sudden: tuple[SuddenJobs, ...]
) -> Iterator[list[Lane]]:
    with ExitStack() as stack:
        made = []
        for jobs_of_lane in two_sudden:  # two databases, since only one at a time can be made of each
            template = stack.enter_context(passing_database(postgres))
            followed_shop.begin(template)
            made.append(Lane(tmp_path_factory.mktemp("lane"), jobs_of_lane, postgres, template))
        yield made


ADVANCE, PEEK = "pg_replication_slot_advance", "pg_logical_slot_peek_binary_changes"

OF_CHANGES = (
    Kill(1, "ALTER PUBLICATION", "after"),
    Kill(2, "create commits/"),
    Kill(3, ADVANCE),
    Kill(1, "CREATE_REPLICATION_SLOT", "after"),
    Kill(4, "create commits/", "after"),
)
"""What a backup of changes does that something could depend on: a step for each thing that it may leave behind.

That is a table of the publication that no commit knows, a window without its commit, a commit behind which the log is
not let go, a slot that nobody knows, and a run whose last commit, with the snapshot of a table, was made and not told.
"""


PACK = "data/shop/packs/changes"


OF_THE_FIRST = (
    Kill(1, "pg_create_logical_replication_slot", "after"),
    Kill(2, "end data/", "after"),
    Kill(1, "create commits/", "after"),
)

OF_DRIVERS = (
    Kill(2, "create commits/"),
    Kill(4, "create commits/", "after"),
    Kill(3, PEEK),
    Kill(3, ADVANCE),
    Kill(2, "create commits/", "after"),
    Kill(4, "create commits/"),
)


def test_a_backup_of_changes_that_is_killed_loses_nothing_and_the_next_one_doubles_nothing(lanes: list[Lane]) -> None:
    kill_all(lanes, "changes", OF_CHANGES, every=4)


def test_the_first_backup_that_follows_is_killed_and_leaves_nothing_that_nobody_knows(lanes: list[Lane]) -> None:
    kill_all(lanes, "first", OF_THE_FIRST, every=4)


@pytest.mark.exhaustive
def test_a_driver_that_is_killed_between_windows_is_followed_by_one_that_goes_on(
    lanes: list[Lane],
) -> None:
    # The first window is read twice where its publication is younger than the slot's oldest transaction.
    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [
            pool.submit(kill_driver, lane, OF_DRIVERS[place :: len(lanes)]) for place, lane in enumerate(lanes)
        ]:
            done.result()


def kill_driver(lane: Lane, kills: Sequence[Kill]) -> None:
    """Kill drivers under the locks of a parent that lives; check that the next one of the run does what is left."""
    for kill in kills:
        followed = lane.begin(f"driver-{next(_numbers)}")
        truth, store, password = Truth(followed.source), followed.archive.store, followed.source.password
        assert password
        assert followed.back_up("first").code == 0
        run_all(truth, followed_shop.CHANGES)
        with ExitStack() as holding:
            acquired = locks.acquire(store, "backup", sources=[SOURCE], owner=Owner(), purpose="test", wait=0)
            held = holding.enter_context(acquired)
            decision = decide(store, followed.source, BackupRequest(source=SOURCE, kind="changes"), lambda words: None)
            decision = decision.model_copy(update={"begins": True})
            parent = {
                **jobs.job_environment(followed.source.url, password, held, "source"),
                **holding.enter_context(decision.handed_over()),
                jobs.SNAPSHOT_VARIABLE: holding.enter_context(hold_snapshot(followed.source)).snapshot.to_json(),
            }
            how = {"parent": parent, "most_changes": MOST_CHANGES}
            ended = followed.back_up("killed", at=kill.at, named=kill.named, when=kill.when, **how)
            assert ended.code == -signal.SIGKILL, f"{kill}: {ended.said}"
            assert followed.opened().state.of_run("killed") is not None
            again = followed.back_up("killed", **how)  # at once: what the server has not noticed yet is waited for
            assert again.code == 0, f"{kill}: {again.said}"
        record = read_last(store, "killed")
        assert record is not None
        assert record.result is not None
        made = [each.block for each in followed.opened().state.blocks.values() if each.block.run == "killed"]
        assert record.result["rows"] == sum(block.rows for block in made), kill
        run_all(truth, followed_shop.MORE_CHANGES)
        third = followed.back_up("third")
        assert third.code == 0, f"{kill}: {third.said}"
        look(followed, truth, f"driver killed, {kill}", every=4)
        followed.end()


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("scenario", "packs"), [("first", False), ("changes", False), ("changes", True)])
def test_a_backup_of_changes_is_killed_at_any_step(
    lanes: list[Lane], scenario: Scenario, packs: bool, when: When
) -> None:
    whole = kill_and_run_again(lanes[0], scenario, Kill(0), every=1, packs=packs)
    numbers = [at for at, name in enumerate(whole, 1) if at == 1 or name != whole[at - 2]]
    killed = kill_all(lanes, scenario, [Kill(at, when=when) for at in numbers], every=2, packs=packs)
    for expected in (PEEK, ADVANCE, "create commits/", "end data/", "PUBLICATION") if scenario == "changes" else (
        "CREATE PUBLICATION", "pg_create_logical_replication_slot", "create commits/"
    ):  # fmt: skip
        assert any(expected in name for name in killed), expected
    assert any(PACK in name for name in killed) == packs


def kill_all(lanes: list[Lane], scenario: Scenario, kills: Sequence[Kill], **how: Any) -> list[str]:
    """Kill a backup at each of some steps; returns the steps' names."""
    left = iter(list(enumerate(kills, 1)))
    killed = []

    def work(lane: Lane) -> None:
        for number, kill in left:
            steps = kill_and_run_again(lane, scenario, kill, restore=number % 3 == 0, **how)
            killed.append(f"{kill.when} {steps[-1]}")

    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(work, lane) for lane in lanes]:
            done.result()
    sys.stdout.write("".join(f"killed {each}\n" for each in killed))
    return killed


def kill_and_run_again(
    lane: Lane,
    scenario: Scenario,
    kill: Kill,
    *,
    every: int,
    restore: bool = True,
    packs: bool = False,
) -> Sequence[str]:
    """Kill a backup, look at what it has left, and check that the next ones make everything whole.

    :param every: so many moments apart the archive is asked for what was there.
    :param packs: all three store what is small in packs.
    :return: the steps that the killed one began.
    """
    followed = lane.begin(f"{scenario}-{next(_numbers)}")
    truth = Truth(followed.source)
    if scenario == "changes":
        first = followed.back_up("first", packs=packs)
        assert first.code == 0, first.said
        run_all(truth, followed_shop.CHANGES)
    before = followed.opened().state.sequence
    how: dict[str, Any] = {"packs": packs, "most_changes": MOST_CHANGES}
    ended = followed.back_up("killed", at=kill.at, named=kill.named, when=kill.when, **how)
    place = f"killed {kill.when} {ended.steps[-1]} ({len(ended.steps)})"
    if kill.at:
        assert ended.code == -signal.SIGKILL, f"{kill}: {ended.code} {ended.said}"
    until(lambda: settled(followed.source), f"sessions to go ({place})", limit_s=NOTICE_S)
    archive = followed.opened()
    commits = len([name for name in ended.steps if name.startswith("create commits/")])
    unmade = ended.code != 0 and kill.when == "before" and ended.steps[-1].startswith("create commits/")
    assert archive.state.sequence == before + commits - unmade, place
    followed_shop.check_never_ahead(archive, followed.source, place)

    if scenario == "first":
        run_all(truth, followed_shop.CHANGES)
    else:
        run_all(truth, followed_shop.MORE_CHANGES)
    again = followed.back_up("again", packs=packs)
    assert again.code == 0, f"{place}, run again: {again.said}"
    # A new slot stays behind the snapshot that its stream begins with until changes are backed up.
    check = followed_shop.check_never_ahead if scenario == "first" else followed_shop.check_let_go
    check(followed.opened(), followed.source, place)
    if scenario == "first" or restore:
        run_all(truth, followed_shop.MORE_CHANGES if scenario == "first" else followed_shop.LAST_CHANGES)
        third = followed.back_up("third", packs=packs)
        assert third.code == 0, f"{place}, third: {third.said}"
    look(followed, truth, place, every=every)
    if restore:
        position, rows = truth.moments[-1]
        assert followed.restored(f"lsn:{position}") == rows, place
    followed.end()
    return ended.steps


def look(followed: Followed, truth: Truth, place: str, *, every: int) -> None:
    """Check that all is in the archive, once, and that nothing of the killed backup is in anybody's way."""
    archive = followed.opened()
    until(lambda: settled(followed.source), f"sessions to go ({place})", limit_s=NOTICE_S)
    followed_shop.check_let_go(archive, followed.source, place)
    followed_shop.check_whole(archive, place)
    followed_shop.check_once(archive, place)
    followed_shop.check_moments(archive, truth, place, every=every)
    for planned in lock_table.plan("backup", [SOURCE]):
        RWLock(archive.store, planned.resource).write(purpose="next", wait=0).release()
