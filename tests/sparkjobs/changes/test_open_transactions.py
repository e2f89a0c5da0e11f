"""Transactions that are open over backups, and commits that wait for standbys: all come whole, and once.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.archive.history import restore_points
from holdfast.operations import backup_run
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot
from tests.support.following.followed import Followed, agree, open_followed
from tests.support.following.followed_tables import oids

pytestmark = pytest.mark.service


_WAIT_S = 30.0


@pytest.fixture
def own(prepared: PostgresServer, tmp_path: Path) -> Iterator[Followed]:
    """A database of that server."""
    name = f"own_{tmp_path.name}"
    with connect(Address(prepared.url(), prepared.password)) as session:
        session.execute(f"create database {ident(name)}".encode())
    with open_followed(Address(prepared.url(name), prepared.password), tmp_path / "archive") as opened:
        yield opened


Begin = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def begin(own: Followed) -> Iterator[Begin]:
    """Begins a transaction of its own."""
    with ExitStack() as stack:

        def open_one(*statements: str) -> psycopg.Connection[Any]:
            session = stack.enter_context(connect(own.address))
            for each in ("set search_path = public", "begin", *statements):
                session.execute(each.encode())
            return session

        yield open_one


def wait_for(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def asked(followed: Followed, query: str) -> bool:
    with connect(followed.address) as session:
        return session.execute(query.encode()).fetchone() is not None


def test_transactions_that_are_open_over_backups_come_whole_and_once(own: Followed, begin: Begin) -> None:
    own.run("create table t (id int primary key)", "insert into t values (0)")
    own.back_up()
    first = len(own.moments)
    long = begin("insert into t values (1)")
    long.execute("savepoint a")
    long.execute("insert into t values (100)")
    long.execute("rollback to a")
    long.execute("savepoint b")
    long.execute("insert into t values (2)")
    own.run("insert into t values (3)")
    begin("insert into t values (4)", "prepare transaction 'p'")
    begin("insert into t values (101)", "prepare transaction 'q'")
    own.run("insert into t values (5)")
    own.back_up()
    long.execute("insert into t values (6)")
    own.run("insert into t values (7)")
    own.back_up()
    long.execute("commit")
    own.note()
    own.session.execute("commit prepared 'p'")
    own.note()
    own.session.execute("rollback prepared 'q'")
    own.run("insert into t values (8)")
    assert own.back_up()["rows"] == 6 - 1  # of 1, 2, 6; 4; and 8
    agree(own, first, oids(own, "t"))


_WAITS = "select 1 from pg_locks where locktype = 'transactionid' and not granted and transactionid = '{}'::xid"


def xid(session: psycopg.Connection[Any]) -> str:
    row = session.execute("select (pg_current_xact_id()::text::int8 % 4294967296)::text").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.representatives("in a stream")
@pytest.mark.parametrize("kind", ["full", "changes"], ids=["in a stream", "at the beginning of one"])
def test_a_snapshot_and_the_first_change_meet_exactly_while_commits_wait_for_standbys(
    own: Followed, begin: Begin, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A full backup's slot waits for what is open, twice; what begins meanwhile is open over its position.

    One of these ends before the position in the log, and is not visible by then to anybody: it waits for a standby that
    never comes.
    """
    local = "set local synchronous_commit = local"
    own.run("create table t (id int primary key)", "insert into t values (0)")
    if kind == "full":
        own.back_up()
    is_decided, go_on = threading.Event(), threading.Event()

    def hold(address: Address, *, ddl_waits: bool = False) -> AbstractContextManager[HeldSnapshot]:
        is_decided.set()
        assert go_on.wait(_WAIT_S)
        return hold_snapshot(address, ddl_waits=ddl_waits)

    monkeypatch.setattr(backup_run, "hold_snapshot", hold)
    results: list[Any] = []
    backup = threading.Thread(target=lambda: results.append(own.back_up(kind)))
    hung = threading.Thread()
    try:
        backup.start()
        assert is_decided.wait(_WAIT_S)  # a new stream has its slot
        with connect(own.address) as session:
            session.execute("alter system set synchronous_standby_names = 'nobody'")
            session.execute("select pg_reload_conf()")
        older = begin(local, "insert into t values (1)")
        go_on.set()
        wait_for(lambda: asked(own, _WAITS.format(xid(older))))
        old = begin(local, "insert into t values (2)")
        older.execute("commit")
        wait_for(lambda: asked(own, _WAITS.format(xid(old))))
        over = begin(local, "insert into t values (3)")
        waiting = begin("insert into t values (4)")
        hung = threading.Thread(target=waiting.execute, args=("commit",))
        hung.start()
        wait_for(lambda: asked(own, "select 1 from pg_stat_activity where wait_event = 'SyncRep'"))
        assert not asked(own, "select 1 from public.t where id = 4")
        old.execute("commit")
        backup.join(_WAIT_S)
        assert results, "the full backup has not ended"
        assert results[0]["snapshot_note"] == ""
        over.execute("insert into t values (5)")
        over.execute("commit")
    finally:
        with connect(own.address) as session:
            session.execute("alter system reset synchronous_standby_names")
            session.execute("select pg_reload_conf()")
        if hung.ident:
            hung.join(_WAIT_S)
        backup.join(_WAIT_S)
    own.run("insert into t values (6)")
    said = own.back_up()
    before_it = 3 if kind == "full" else 0  # 1, 2 and 4 are in the log and in the snapshot
    assert (said["commits"], said["rows"]) == (2 if kind == "full" else 1, before_it + 3)
    moment = own.moment("latest")
    assert moment.full.commit == results[0]["commit"]
    (table,) = own.tables_at(moment).values()
    assert table.only([1]) == [(str(number),) for number in range(7)]
    (before,) = own.tables_at(own.moment(f"commit:{results[0]['commit']}")).values()
    assert ("4",) in before.only([1])
    assert ("3",) not in before.only([1])


@pytest.mark.exhaustive
def test_a_partition_whose_commit_waits_for_a_standby_loses_no_row(own: Followed, begin: Begin) -> None:
    """Its rows are in the log that is read, though nobody sees it yet: it has to begin with a snapshot."""
    own.run("create table root (id int primary key) partition by list (id)", "create table t (id int primary key)")
    own.run("create table zero partition of root for values in (0)", "insert into root values (0)")
    own.back_up()
    own.run("insert into t values (1)")
    own.back_up()
    hung = threading.Thread()
    try:
        with connect(own.address) as session:
            session.execute("alter system set synchronous_standby_names = 'nobody'")
            session.execute("select pg_reload_conf()")
        waiting = begin("create table others partition of root default", "insert into root values (7), (8)")
        hung = threading.Thread(target=waiting.execute, args=("commit",))
        hung.start()
        wait_for(lambda: asked(own, "select 1 from pg_stat_activity where wait_event = 'SyncRep'"))
        assert not asked(own, "select 1 from pg_class where relname = 'others'")
        own.back_up()
    finally:
        with connect(own.address) as session:
            session.execute("alter system reset synchronous_standby_names")
            session.execute("select pg_reload_conf()")
        if hung.ident:
            hung.join(_WAIT_S)
    own.note()

    assert own.back_up()["begun"] == ["public.others"]

    own.run("insert into root values (9)", "insert into t values (2)")
    own.back_up()
    (table,) = (each for each in own.tables_at(own.moment("latest")).values() if each.label == "public.others")
    assert table.only([1]) == [("7",), ("8",), ("9",)]
    assert [gap["table"] for gap in restore_points.describe(own.archive().state)["sources"][0]["gaps"]] == [
        "public.others"
    ]
