"""Two windows of a stream are read at a time: what is archived is what one after the other would bring.

But for the last two tests jobs run without Spark, one task after the other; copies of slots are real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import BusyError
from holdfast.common.lsn import parse_position, show_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import window_reader
from holdfast.postgresql.values.decode import UnkeepableValueError
from holdfast.storage import open_store
from sparkjobs.driver import following, log_windows
from sparkjobs.executors.inline import InlineExecutor
from sparkjobs.tasks.changes import WindowTask
from tests.support.following.followed import Followed, agree, open_followed
from tests.support.jobs import command
from tests.support.jobs import inline_jobs as jobs
from tests.support.jobs.command_here import run_here
from tests.support.servers.postgres import drop_slots

pytestmark = pytest.mark.service

PAGE = 8192
"""Of the server's log."""

Read = list[list[WindowTask]]


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A table that is followed, all of whose rows tell them apart: what is archived twice would be there twice."""
    with open_followed(address, tmp_path / "archive") as opened:
        opened.run("create table t (id int, pad text)", "alter table t replica identity full")
        opened.back_up()
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """What is read at a time, in windows of 20 kB."""

    def next_ones(*given: Any) -> list[WindowTask]:
        found.append(cut(*given))
        return found[-1]

    found: Read = []
    cut = log_windows.cut_windows
    monkeypatch.setattr(log_windows, "cut_windows", next_ones)
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", 20_000)
    return found


def exactly(followed: Followed) -> set[int]:
    """Return the oid of the table."""
    return {oid for (oid,) in followed.session.execute("select 't'::regclass::oid::int8")}


def changes_in(followed: Followed) -> int:
    """Return how many changes are archived."""
    placed = followed.archive().state.blocks.values()
    return sum(each.block.rows for each in placed if each.block.kind == "changes")


def insert(followed: Followed, number: int, rows: int = 1, size: int = 2000) -> None:
    """Make one transaction with much of the log, or little."""
    followed.run(f"insert into t select {number} + i, repeat('x', {size}) from generate_series(1, {rows}) i")


@pytest.mark.parametrize("at_once", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_a_window_that_ends_early_leaves_nothing_out_and_nothing_twice(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, read: Read, at_once: int
) -> None:
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", 20_000)
    monkeypatch.setattr(log_windows, "WINDOWS_AT_ONCE", at_once)
    monkeypatch.setattr(log_windows, "MOST_CHANGES", 30)
    first, transactions = len(followed.moments), 21
    for number in range(transactions):  # of few changes with much log, and many with little
        rows, size = (3, 2000) if number % 3 else (20, 1)
        followed.run(f"insert into t select {number * 100} + i, repeat('x', {size}) from generate_series(1, {rows}) i")
    commits = followed.back_up()["commits"]
    assert {len(each) for each in read[1:-1]} == {at_once}
    windows = sum(len(each) for each in read)
    assert (windows > commits > len(read)) if at_once > 1 else (windows == commits), (windows, commits, len(read))
    agree(followed, first, exactly(followed), every=4)
    assert sum(placed.block.rows for placed in followed.archive().state.blocks.values()) == transactions // 3 * 26


@pytest.mark.representatives("24-True")
@pytest.mark.parametrize(
    ("over", "is_aligned"),
    [
        *((24, True), (24, False)),
        *(
            pytest.param(over, is_aligned, marks=pytest.mark.exhaustive)
            for over, is_aligned in (
                (0, True),
                (0, False),
                (1, True),
                (1, False),
                (40, True),
                (40, False),
                (41, True),
                (41, False),
            )
        ),
    ],
)
def test_a_commit_behind_the_header_of_a_page_is_archived_once(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, read: Read, over: int, is_aligned: bool
) -> None:
    # Who ends within the header reads the commit, and who begins there, too. If nobody had thought of that, the second
    # window would be found to begin with what is archived.
    if not is_aligned:
        monkeypatch.setattr(log_windows, "between_records", lambda position: position)
    first = len(followed.moments)
    for number in range(8):
        insert(followed, number)
    page = end_on_a_page(followed)
    at = parse_position(followed.archive().state.streams["shop"])
    behind = 0
    while behind < 20 or parse_position(followed.moments[-1][0]) - page <= page + PAGE - at:  # or half of it is less
        behind += 1
        insert(followed, 20 + behind)
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", page + over - at)
    followed.back_up()
    one, other = read[0]
    assert one.upto == other.start == show_position(page if is_aligned and over <= 40 else page + over)
    agree(followed, first + 8 % 4, exactly(followed), every=4)  # the ninth is the one at the page
    assert changes_in(followed) == 8 + 1 + behind


def end_on_a_page(followed: Followed) -> int:
    """Commit a transaction whose commit record is the first one of a page; return where that page begins."""

    def here() -> int:
        ((found,),) = session.execute("select pg_current_wal_insert_lsn()::text").fetchall()
        return parse_position(str(found))

    def say(size: int) -> None:
        session.execute(f"select pg_logical_emit_message(true, 'x', repeat('a', {size}))".encode())

    session = followed.session
    for _ in range(20):
        with session.transaction():
            session.execute("insert into t values (7777, 'before the page')")
            while not 400 <= PAGE - here() % PAGE < 7900:
                say(1000)
            say(PAGE - here() % PAGE - 55)
            at = here()
            if at % PAGE > 40:  # somebody else has written to the log just now
                raise psycopg.Rollback
        if at % PAGE <= 40:
            followed.note()
            return at - at % PAGE
    raise AssertionError("others write to the log all the time")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "how", ["two", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("one", "bounded"))]
)
def test_a_commit_right_behind_a_message_of_somebody_elses_is_archived(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, read: Read, how: str
) -> None:
    def here() -> int:
        ((found,),) = session.execute("select pg_current_wal_insert_lsn()::text").fetchall()
        return parse_position(str(found))

    first, session = len(followed.moments), followed.session
    at, places = parse_position(followed.archive().state.streams["shop"]), []
    for number in range(12):
        with session.transaction():
            session.execute(f"insert into t values ({number})".encode())
            begins = here()
            session.execute("select pg_logical_emit_message(false, 'app', repeat('x', 3000))")  # not of the transaction
            places.append((begins + here()) // 2)
        followed.note()
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", places[4] - at)
    if how == "one":
        monkeypatch.setattr(log_windows, "WINDOWS_AT_ONCE", 1)
    if how == "bounded":
        monkeypatch.setattr(log_windows, "WINDOW_BYTES", 1 << 28)
        monkeypatch.setattr(log_windows, "MOST_CHANGES", 1)
    followed.back_up()
    agree(followed, first, exactly(followed), every=3)
    assert changes_in(followed) == 12


def test_what_cannot_be_read_does_not_keep_what_is_before_it(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, read: Read
) -> None:
    monkeypatch.setattr(following, "max_value_bytes", lambda: 4000)
    first = len(followed.moments)
    for number in range(10):
        insert(followed, number)
    insert(followed, 10, size=5000)
    with pytest.raises(UnkeepableValueError, match=r"public\.t"):
        followed.back_up()
    assert [len(each) for each in read[:2]] == [2, 1]
    assert changes_in(followed) == len([each for each in range(10) if each < changes_in(followed)]) > 0
    del followed.moments[first + changes_in(followed) :]
    agree(followed, first, exactly(followed), every=3)


@pytest.mark.exhaustive
def test_a_slot_that_is_taken_by_others_meanwhile_fails_nothing(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, read: Read
) -> None:
    def none_free(*given: Any) -> str:
        raise BusyError("no replication slot is free")

    monkeypatch.setattr(window_reader, "copy_slot", none_free)
    first = len(followed.moments)
    for number in range(24):
        insert(followed, number)
    followed.back_up()
    assert [len(each) for each in read] == [2] + [1] * (len(read) - 1)
    agree(followed, first, exactly(followed), every=3)


@pytest.mark.parametrize(("connections", "at_once"), [pytest.param(None, 2, marks=pytest.mark.exhaustive), (1, 1)])
def test_so_many_sessions_read_as_may(followed: Followed, read: Read, connections: int | None, at_once: int) -> None:
    for number in range(10):
        insert(followed, number)
    followed.back_up(connections=connections)
    assert len(read[0]) == at_once


def test_two_tasks_at_the_same_time_read_two_windows(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, read: Read
) -> None:
    monkeypatch.setattr(jobs, "SteadyExecutor", lambda: InlineExecutor(cores=2))
    first = len(followed.moments)
    for number in range(10):
        insert(followed, number)
    followed.back_up()
    assert len(read[0]) == 2
    agree(followed, first, exactly(followed), every=3)
    assert changes_in(followed) == 10


@pytest.mark.exhaustive
def test_two_tasks_of_spark_read_two_windows(address: Address, tmp_path: Path) -> None:
    place = str(tmp_path / "archive")
    with connect(address) as session:
        session.execute("create table public.t (id int primary key, pad text)")
        session.execute("alter table public.t alter pad set storage external")

    def backed_up(*given: str, more: Mapping[str, str] = command.NOTHING) -> dict[str, Any]:
        done = run_here("backup", place, "--source", address.url, *given, "--json", address=address, more=more)
        assert done.code == 0, done.err
        found: dict[str, Any] = done.value
        return found

    assert run_here("init", place).code == 0
    backed_up("--kind", "changes")
    with connect(address) as session:
        for number in range(8):  # 10 MB of log each
            session.execute(
                f"insert into public.t select {number} * 400 + i, repeat(md5(i::text), 800) "
                "from generate_series(1, 400) i".encode()
            )
    done = backed_up(more=command.ON_SPARK)
    assert (done["rows"], done["commits"], done["transactions"]) == (3200, 2, 8)
    archive = Archive.open(open_store(place))
    assert verify(archive, deep=True).damage == ()
    counted = run_here("query", place, "select count(*) n, count(distinct id) d from public.t", "--json")
    assert counted.value["rows"] == [[3200, 3200]], counted.value
    drop_slots(address)
