from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.parallel_sessions import OneSession, Sessions
from holdfast.postgresql.connection.session import connect
from tests.support.jobs.command import until

pytestmark = pytest.mark.service

Session = psycopg.Connection[tuple[Any, ...]]


def test_results_come_in_the_order_of_the_items(address: Address) -> None:
    def double(session: Session, item: int) -> int:
        row = session.execute("select %s * 2", (item,)).fetchone()
        assert row
        return int(row[0])

    with Sessions(address, 3) as sessions:
        assert sessions.run(range(20), double) == [2 * each for each in range(20)]
        assert sessions.run([], double) == []


def test_sessions_are_at_work_at_once_and_no_more_than_allowed(address: Address) -> None:
    both = threading.Barrier(2, timeout=10)
    pids: set[int] = set()

    def meet(session: Session, item: int) -> None:
        pids.add(session.info.backend_pid)
        both.wait()

    with Sessions(address, 2) as sessions:
        sessions.run(range(6), meet)
        sessions.run(range(6), meet)
    assert len(pids) == 2


def test_one_at_once_keeps_the_order(address: Address) -> None:
    done: list[int] = []
    with Sessions(address, 3) as sessions:
        sessions.run(range(20), lambda session, item: done.append(item), at_once=1)
    assert done == list(range(20))


def test_one_session_does_all_in_its_own_transaction(address: Address) -> None:
    with connect(address) as session, session.transaction():
        session.execute("create table public.t ()")
        assert OneSession(session).run(["public.t", "pg_am"], _rows, after={0: [1]}, at_once=2)[0] == 0


def _rows(session: Session, name: str) -> int:
    return session.execute(f"select from {name}".encode()).rowcount


def test_an_item_begins_when_those_before_it_are_done(address: Address) -> None:
    done: list[int] = []

    def note(session: Session, item: int) -> None:
        done.append(item)

    with Sessions(address, 4) as sessions:
        sessions.run(range(4), note, after={0: [3], 3: [1, 2]})
    assert done[2:] == [3, 0]


def test_sessions_begin_with_their_settings(address: Address) -> None:
    def show(session: Session, item: int) -> Any:
        return session.execute("show xmloption").fetchone()

    with Sessions(address, 1, settings="set xmloption = document; set jit = off") as sessions:
        assert sessions.run([1], show) == [("document",)]


def test_an_error_ends_what_the_other_sessions_are_at(address: Address) -> None:
    def work(session: Session, item: int) -> None:
        if item == 0:
            session.execute("select pg_sleep(600)")
        with connect(address) as watcher:
            sleeps = "select count(*) from pg_stat_activity where query = 'select pg_sleep(600)'"
            until(lambda: watcher.execute(sleeps).fetchone() == (1,), "the other session to sleep")
        raise ValueError("broken")

    with Sessions(address, 2) as sessions, pytest.raises(ValueError, match="broken"):
        sessions.run([0, 1], work)
