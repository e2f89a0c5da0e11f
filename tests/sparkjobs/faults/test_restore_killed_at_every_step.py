"""A restore's process is killed at each of its steps, one after the other; then it is run again.

What a restore has done is never taken for whole before it is: the next one goes on with what is there, and loads no
file that is in. Only a target that holds everything is without the mark.
"""

from __future__ import annotations

import itertools
import re
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.locks import lock_table
from holdfast.archive.maintenance.verify import verify
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan.ledger import read_ledger
from holdfast.storage import open_store
from locking import RWLock
from tests.support.jobs.command import until
from tests.support.jobs.steps import Kill, When
from tests.support.jobs.sudden_jobs import Ended, Order, SuddenJobs

pytestmark = pytest.mark.service

FILES = 3
"""Of the backup: one table has two."""

NOTICE_S = 30.0
"""Within this a server has noticed that a session's client is gone; a free machine needs less than 0.1 s."""

SHOP = """
create table public.people (id int primary key, name text);
insert into public.people values (1, 'Ada'), (2, null);
create table public.orders (
  id int generated always as identity primary key, buyer int references public.people, word text
);
insert into public.orders (buyer, word) select 1, rpad('order ' || i, 100, 'x') from generate_series(1, 100) i;
create index orders_word on public.orders (word);
create materialized view public.buyers as select distinct buyer from public.orders;
"""

BESIDE = ("--map", "public=moved")

STATE = """
select array(select o::text from public.orders o order by id), array(select p::text from public.people p order by id),
  array(select b::text from public.buyers b), (select last_value from public.orders_id_seq),
  array(select indexdef from pg_indexes where schemaname = 'public' order by 1),
  array(select conrelid::regclass || pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'public'::regnamespace order by 1),
  array(select nspname::text from pg_namespace where nspname !~ '^pg_' order by 1)
"""
"""Everything of a database that is whole; an error where a table is not there."""


KINDS = {
    "put locks/history/READ.": 1,
    "read data/": 4,
    "pg_restore": 2,
    "COPY write": 2,
    "setval": 1,
    "refresh materialized view": 1,
    "analyze": 1,
    "delete locks/": 4,
}
"""What a whole restore does that somebody else could see, in words of the steps' names, and how often at least."""


def last_of_each_word(steps: Sequence[str]) -> list[Kill]:
    """Return the last step of each of `KINDS`, by its words: sessions that work at a time have no common order."""
    return [Kill(sum(kind in name for name in steps), kind) for kind in KINDS]


@dataclass(frozen=True)
class Lane:
    """An archive with one backup, who restores it, and where targets are made."""

    archive: Path
    jobs: SuddenJobs
    server: PostgresServer
    new_database: Callable[[], Address]

    def run(self, operation: Any, address: Address, run: str, **how: Any) -> Ended:
        assert address.password
        return self.jobs.run(Order(operation, str(self.archive), address.url, address.password, run, **how))

    def drop(self, address: Address) -> None:
        with connect(Address(self.server.url(), self.server.password)) as session:
            session.execute(f"drop database {address.database} with (force)".encode())


@dataclass(frozen=True)
class Way:
    """How the archive is restored, and what that must bring.

    :param schema: that it comes into.
    """

    truth: object
    options: tuple[str, ...] = ()
    schema: str = "public"

    def holds(self, target: Address) -> bool:
        return state_of(target, self.schema) == self.truth


@pytest.fixture
def source(new_database: Callable[[], Address]) -> Address:
    address = new_database()
    with connect(address) as session:
        session.execute(SHOP.encode())
    return address


@pytest.fixture
def lanes(
    source: Address,
    postgres: PostgresServer,
    new_database: Callable[[], Address],
    tmp_path: Path,
    two_sudden: tuple[SuddenJobs, ...],
) -> list[Lane]:
    made = []
    for number, jobs_of_lane in enumerate(two_sudden):
        lane = Lane(tmp_path / f"archive-{number}", jobs_of_lane, postgres, new_database)
        made.append(lane)
        Archive.create(open_store(str(lane.archive)), name="shop")
        backup = lane.run("backup", source, "backup")
        assert backup.code == 0, backup.said
    return made


def test_a_restore_that_is_killed_before_a_step_of_each_kind_is_never_taken_for_whole(
    lanes: list[Lane], source: Address
) -> None:
    """The last of each of `KINDS`: what is killed before a step that only looks leaves what others have left."""
    target = lanes[0].new_database()
    whole = lanes[0].run("restore", target, "whole")
    assert whole.code == 0, whole.said
    killed = kill_at_every_step(lanes, "before", Way(state_of(source)), kills=last_of_each_word(whole.steps))
    assert_every_kind_of_step_was_met(killed, least=1)


@pytest.mark.exhaustive
def test_a_restore_that_is_killed_before_any_step_is_never_taken_for_whole(lanes: list[Lane], source: Address) -> None:
    assert_every_kind_of_step_was_met(kill_at_every_step(lanes, "before", Way(state_of(source))))


@pytest.mark.exhaustive
def test_a_restore_that_is_killed_after_any_step_is_never_taken_for_whole(lanes: list[Lane], source: Address) -> None:
    assert_every_kind_of_step_was_met(kill_at_every_step(lanes, "after", Way(state_of(source))))


@pytest.mark.exhaustive
def test_a_restore_beside_other_things_that_is_killed_before_any_step_is_gone_on_with(lanes: list[Lane]) -> None:
    whole = lanes[0].new_database()
    assert lanes[0].run("restore", whole, "whole", options=BESIDE).code == 0
    way = Way(state_of(whole, "moved"), BESIDE, "moved")
    assert_every_kind_of_step_was_met(kill_at_every_step(lanes, "before", way))


@pytest.mark.parametrize("step", ["setval", "delete locks/"])
def test_rows_alone_that_are_killed_come_into_all_tables_or_none(lanes: list[Lane], source: Address, step: str) -> None:
    lane, options = lanes[0], ("--data-only",)
    whole = with_empty_tables(lane)
    ended = lane.run("restore", whole, "whole", options=options)
    assert (ended.code, counts(whole)) == (0, (2, 100)), ended.said
    target, last = with_empty_tables(lane), sum(step in name for name in ended.steps)
    assert lane.run("restore", target, "killed", options=options, at=last, named=step).code == -signal.SIGKILL
    until(lambda: nobody_in(target), "sessions to go", limit_s=NOTICE_S)
    assert counts(target) == ((2, 100) if "locks" in step else (0, 0))
    again = lane.run("restore", target, "again", options=options)
    assert again.code == (5 if "locks" in step else 0), again.said
    assert ("rows already" in again.said) == ("locks" in step)
    with connect(target) as session:
        session.execute("refresh materialized view public.buyers")
    assert state_of(target) == state_of(source)
    nothing_harmed(lane)


def with_empty_tables(lane: Lane) -> Address:
    address = lane.new_database()
    with connect(address) as session:
        for statement in SHOP.split(";"):
            if "insert" not in statement:
                session.execute(statement.encode())
    return address


def counts(address: Address) -> object:
    with connect(address) as session:
        return session.execute(
            "select (select count(*) from public.people), (select count(*) from public.orders)"
        ).fetchone()


def assert_every_kind_of_step_was_met(killed: list[str], *, least: int | None = None) -> None:
    """What the steps are is up to the job; but a restore without these is none, or was not counted.

    :param least: of each kind; None: as many as a whole restore has.
    """
    sys.stdout.write(f"{len(killed)} steps\n")
    for expected, many in KINDS.items():
        assert len([name for name in killed if expected.lower() in name.lower()]) >= (least or many), expected


def kill_at_every_step(lanes: list[Lane], when: When, way: Way, *, kills: Sequence[Kill] | None = None) -> list[str]:
    """Kill a restore at its first step, another one at its second, until one is made; the steps' names, in order.

    :param kills: only at these steps; None: at each.
    """
    left = iter(kills or map(Kill, itertools.count(1)))
    killed: dict[Kill, str] = {}
    said: set[str | int] = set()

    def work(lane: Lane) -> None:
        for kill in left:
            target, at = lane.new_database(), "-".join([str(kill.at), *re.findall("[A-Za-z]+", kill.named)])
            how = {"at": kill.at, "named": kill.named, "when": when, "options": way.options}
            ended = lane.run("restore", target, f"killed-{at}", **how)
            if ended.code == 0:
                assert way.holds(target)
                break
            assert ended.code == -signal.SIGKILL, f"step {at}: {ended.said}"
            name = [each for each in ended.steps if kill.named in each][kill.at - 1]
            place = f"killed {when} step {at}, {name}"
            said.add(run_again(lane, target, way, at, place))
            killed[kill] = name
            lane.drop(target)
        nothing_harmed(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(work, lane) for lane in lanes]:
            done.result()
    # Killed early, when all was done, and in the middle.
    in_the_middle = said - {"begun anew", "all there"}
    assert said >= {"begun anew", "all there"}
    assert in_the_middle if kills else in_the_middle == {*range(FILES + 1)}
    return [killed[kill] for kill in sorted(killed, key=lambda kill: kill.at)]


def run_again(lane: Lane, target: Address, way: Way, at: str, place: str) -> str | int:
    """Check that the next restore makes the target whole, with what is in, or refuses it since it is.

    Returns how it went: the number of files it found where it went on.
    """
    until(lambda: nobody_in(target), f"sessions to go ({place})", limit_s=NOTICE_S)
    with connect(target) as session:
        left = read_ledger(session)
    again = lane.run("restore", target, f"again-{at}", options=way.options)
    loaded = again.steps.count("COPY __enter__")
    if left is None and again.code != 0:
        assert (again.code, loaded) == (5, 0), f"{place}, run again: {again.said}"
        assert "not empty" in again.said or "already" in again.said, f"{place}, run again: {again.said}"
        assert way.holds(target), place
        return "all there"
    assert again.code == 0, f"{place}, run again: {again.said}"
    assert way.holds(target), place
    if left is None:
        assert loaded == FILES, place
        return "begun anew"
    files = sum(step.startswith("data/") for step in left.steps)
    assert loaded == FILES - files, place
    assert f"going on with run killed-{at}'s restore: {files} of {FILES} files were in" in again.said, place
    return files


def nothing_harmed(lane: Lane) -> None:
    """Check that no restore has changed the archive, nor left a lock that is in anybody's way."""
    archive = Archive.open(open_store(str(lane.archive)))
    assert archive.state.sequence == 1
    assert verify(archive, deep=True).damage == ()
    for planned in lock_table.plan("restore", []):
        RWLock(archive.store, planned.resource).write(purpose="next", wait=0).release()


def state_of(address: Address, schema: str = "public") -> object:
    """Return rows, sequences, indexes and constraints of a schema, and all schemas, with any mark of ours."""
    with connect(address) as session:
        return session.execute(STATE.replace("public", schema).encode()).fetchone()


def nobody_in(address: Address) -> bool:
    """Say whether no session but this one is in the database."""
    with connect(address) as session:
        row = session.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        ).fetchone()
    return row == (0,)
