"""A restore to a moment between backups is killed at its steps, one after the other; then it is run again.

What it has done is never taken for whole before it is. The next one goes on with what is there: no file is loaded
twice, and the changes of no table are applied twice.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan.ledger import read_ledger
from holdfast.storage import open_store
from tests.support.databases.truth import Rows, Truth, rows_of
from tests.support.following import followed_shop
from tests.support.following.followed_shop import run_all, settled
from tests.support.jobs.command import until
from tests.support.jobs.steps import Kill, When
from tests.support.jobs.sudden_jobs import Ended, Order, SuddenJobs

pytestmark = pytest.mark.service

TABLES = 4
"""Of the source; all have changes since their snapshots."""

FILES = 4
"""Of those snapshots."""

BEFORE_FILES = 7
"""Transactions before those of files: of the ledger, of who loads and what belongs to that one, of the tables."""

NOTICE_S = 30.0
"""Within this a server has noticed that a session's client is gone; a free machine needs less than 0.1 s."""

STAGED = "create temporary table"
DELETES = "with gone "
NOTED = "update holdfast_restore.loaded set result"
"""What is done in the one transaction that applies a table's changes."""

BESIDE = ("--map", "public=moved")

MORE = (
    "create index orders_word on public.orders (word)",
    "create sequence public.numbers",
    "select setval('public.numbers', 7)",
    "create materialized view public.counted as select count(*) as n from public.orders",
)
"""What comes back behind the rows."""

BUILT = """
select array(select indexdef from pg_indexes where schemaname = 'public' order by 1),
  array(select conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'public'::regnamespace order by 1),
  (select last_value from public.numbers), (select n = (select count(*) from public.orders) from public.counted)
"""
"""All that is built behind the rows of a database that is whole; an error where it is not there."""


@dataclass(frozen=True)
class Lane:
    """An archive of a database that is followed, and who restores it to a moment.

    :param rows: of that moment.
    :param built: what its indexes, constraints, sequences and views are.
    """

    archive: Path
    jobs: SuddenJobs
    position: str
    rows: Rows
    built: object
    server: PostgresServer
    new_database: Callable[[], Address]

    def restore(self, target: Address, run: str, *options: str, **how: Any) -> Ended:
        assert target.password
        at = ("--at", f"lsn:{self.position}", *options)
        return self.jobs.run(Order("restore", str(self.archive), target.url, target.password, run, options=at, **how))

    def holds(self, target: Address) -> bool:
        assert followed_shop.left_on(target) == ([], [])
        found = rows_of(target)
        if any(name.startswith("moved.") for name in found):
            return {name.replace("moved.", "public."): rows for name, rows in found.items()} == self.rows
        return found == self.rows and built_of(target) == self.built


def built_of(address: Address) -> object:
    with connect(address) as session:
        return session.execute(BUILT.encode()).fetchone()


@pytest.fixture
def lanes(
    postgres: PostgresServer,
    new_database: Callable[[], Address],
    tmp_path: Path,
    two_sudden: tuple[SuddenJobs, ...],
) -> list[Lane]:
    archives = [tmp_path / f"archive-{number}" for number in range(len(two_sudden))]
    source = new_database()
    position, rows = back_up(archives[0], two_sudden[0], source)
    for archive in archives[1:]:
        shutil.copytree(archives[0], archive)
    with connect(source) as session:
        session.execute("refresh materialized view public.counted")
    built = built_of(source)
    return [
        Lane(archive, jobs, position, rows, built, postgres, new_database)
        for archive, jobs in zip(archives, two_sudden, strict=True)
    ]


def back_up(archive: Path, jobs: SuddenJobs, source: Address) -> tuple[str, Rows]:
    """Back up a database and its changes by several backups; return its last moment."""
    assert source.password
    followed_shop.begin(source)
    with connect(source) as session:
        for statement in MORE:
            session.execute(statement.encode())
    store = Archive.create(open_store(str(archive)), name="shop").store
    truth = Truth(source)
    order = Order("backup", store.url, source.url, source.password, "", options=("--kind", "changes"), most_changes=8)
    for number, changes in enumerate(
        (followed_shop.CHANGES, followed_shop.MORE_CHANGES, followed_shop.LAST_CHANGES, ())
    ):
        ended = jobs.run(replace(order, run=f"run-{number}"))
        assert ended.code == 0, ended.said
        run_all(truth, changes)
    with connect(source) as session:
        session.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()"
        )
    return truth.moments[-1]


ONE_OF_EACH = (
    Kill(2, "COPY write"),
    Kill(1, DELETES, "after"),
    Kill(2, STAGED, "after"),
    Kill(FILES + 3 + BEFORE_FILES, "transaction __exit__", "after"),
    Kill(3, NOTED),
    Kill(4, NOTED),
    Kill(1, "PRIMARY KEY"),
    Kill(1, "setval"),
    Kill(1, "refresh materialized view"),
    Kill(1, "drop schema"),
)
"""In the midst of a file, and of a table's changes, each at another table; when one's are done; when all are; at each
thing that is built behind the rows; at the very end.
"""


def test_a_restore_to_a_moment_that_is_killed_is_gone_on_with_and_applies_no_change_twice(lanes: list[Lane]) -> None:
    kill_all(lanes, ONE_OF_EACH)


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("options", [(), BESIDE], ids=["alone", "beside other things"])
def test_a_restore_to_a_moment_that_is_killed_at_any_step_is_gone_on_with(
    lanes: list[Lane], options: tuple[str, ...], when: When
) -> None:
    target = lanes[0].new_database()
    whole = lanes[0].restore(target, "whole", *options)
    assert (whole.code, lanes[0].holds(target)) == (0, True), whole.said
    kill_all(lanes, [Kill(at, when=when) for at in range(1, len(whole.steps) + 1)], *options)


def kill_all(lanes: list[Lane], kills: Sequence[Kill], *options: str) -> None:
    """Kill a restore at each of some steps; check that the next one goes on and makes the target whole."""
    left, went = iter(list(enumerate(kills, 1))), set()

    def work(lane: Lane) -> None:
        for number, kill in left:
            target = lane.new_database()
            how = {"at": kill.at, "named": kill.named, "when": kill.when}
            ended = lane.restore(target, f"killed-{number}", *options, **how)
            place = f"killed {kill.when} {ended.steps[-1][:100]} ({len(ended.steps)})"
            assert ended.code == -signal.SIGKILL, f"{kill}: {ended.code} {ended.said}"
            until(lambda: settled(target), f"sessions to go ({place})", limit_s=NOTICE_S)  # noqa: B023
            went.add(run_again(lane, target, number, place, *options))
            sys.stdout.write(f"{place}\n")
            with connect(Address(lane.server.url(), lane.server.password)) as session:
                session.execute(f"drop database {target.database} with (force)".encode())
        archive = Archive.open(open_store(str(lane.archive)))
        assert verify(archive, deep=True).damage == ()

    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(work, lane) for lane in lanes]:
            done.result()
    assert went >= set(range(TABLES + 1))  # killed before any table was changed, when all were, and in the middle


def run_again(lane: Lane, target: Address, number: int, place: str, *options: str) -> int | None:
    """Check that the next restore does what is left to do; returns how many tables' changes were in before.

    None where the target was whole, or empty.
    """
    with connect(target) as session:
        left = read_ledger(session)
    again = lane.restore(target, f"again-{number}", *options)
    if left is None and again.code == 5:
        assert lane.holds(target), place
        return None
    assert again.code == 0, f"{place}, run again: {again.said}"
    assert lane.holds(target), place
    applied = sum(step.startswith(STAGED) for step in again.steps)
    if left is None:
        assert applied == TABLES, place
        return None
    done = sum(step.startswith("changes ") for step in left.steps)
    assert applied == TABLES - done, place
    loaded = sum(step == "COPY __enter__" for step in again.steps) - applied
    assert loaded == FILES - sum(step.startswith("data/") for step in left.steps), place
    return done
