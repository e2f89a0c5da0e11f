"""Snapshots that other sessions read in, and what keeps their positions from being exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.export import (
    Snapshot,
    SnapshotGoneError,
    enter_snapshot,
    export_plain,
    export_snapshot,
    try_sharing,
    why_no_decoding,
    why_no_slot,
    why_not_exact,
)
from holdfast.postgresql.snapshot.obstacles import Obstacle

SNAPSHOT = Snapshot(
    name="00000003-1", marker="10:20:", position="0/15", taken_at=datetime(2026, 3, 1, tzinfo=UTC), exact=False,
    note="why", system_identifier=None, timeline=None,
)  # fmt: skip


@pytest.mark.parametrize(
    "snapshot", [SNAPSHOT, replace(SNAPSHOT, system_identifier="77", timeline=3, standby=True, database_oid=5)]
)
def test_a_snapshot_survives_its_description(snapshot: Snapshot) -> None:
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 1}', SNAPSHOT.to_json().replace("2026", "soon")])
def test_what_describes_no_snapshot_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="this describes no snapshot: start jobs by command or operator"):
        Snapshot.from_json(text)


@pytest.fixture
def session(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as opened:
        opened.execute("create table public.orders as select 1 as id")
        yield opened


def rows(address: Address, snapshot: Snapshot) -> int:
    with connect(address) as reader:
        enter_snapshot(reader, snapshot)
        row = reader.execute("select count(*) from public.orders").fetchone()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader.execute("insert into public.orders values (9)")
    assert row is not None
    return int(row[0])


@pytest.mark.service
def test_the_position_of_a_slots_snapshot_is_exact_and_that_of_a_transaction_says_why_not(
    address: Address, session: psycopg.Connection[Any]
) -> None:
    with export_snapshot(address) as by_slot, export_plain(address) as plain:
        session.execute("insert into public.orders values (2)")
        assert (rows(address, by_slot), rows(address, plain)) == (1, 1)
    assert (by_slot.exact, by_slot.note) == (True, "")
    assert (plain.exact, plain.note) == (False, "it was not asked for")
    same = "system_identifier", "timeline", "database_oid", "standby"
    assert [getattr(by_slot, name) for name in same] == [getattr(plain, name) for name in same]
    assert by_slot.taken_at <= plain.taken_at
    later = session.execute("select %s::pg_lsn <= %s and %s < pg_current_wal_lsn()", (
        by_slot.position, plain.position, plain.position)).fetchone()  # fmt: skip
    assert later == (True,)


@pytest.mark.service
def test_a_snapshot_that_nobody_holds_any_more_is_gone(address: Address, session: psycopg.Connection[Any]) -> None:
    with export_plain(address) as snapshot:
        pass
    with pytest.raises(SnapshotGoneError, match="the session that held it has ended"):
        enter_snapshot(session, snapshot)


@pytest.mark.service
def test_another_snapshot_than_the_described_one_is_noticed(address: Address, session: psycopg.Connection[Any]) -> None:
    with export_plain(address) as snapshot, pytest.raises(HoldfastError, match="is a pooler in between"):
        enter_snapshot(session, replace(snapshot, marker="1:1:"))
    try_sharing(address)


@pytest.mark.service
def test_without_a_free_slot_the_position_is_approximate(address: Address, session: psycopg.Connection[Any]) -> None:
    assert why_no_slot(session) == why_not_exact(session) == ()
    free = "current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots)::int"
    session.execute(
        f"select pg_create_physical_replication_slot('export_' || i) from generate_series(1, {free}) i".encode()
    )
    try:
        assert why_no_slot(session) == (
            Obstacle("no replication slot is free", "raise max_replication_slots and restart"),
        )
        assert why_no_decoding(session) == ()
        with export_snapshot(address) as snapshot:
            assert (snapshot.exact, snapshot.note) == (False, "no replication slot is free")
            assert rows(address, snapshot) == 1
    finally:
        session.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name ~ '^export_'"
        )


@pytest.mark.service
def test_who_may_not_replicate_is_told_the_right(address: Address, session: psycopg.Connection[Any]) -> None:
    session.execute("create role export_reader")
    try:
        session.execute("set role export_reader")
        wanted = (Obstacle("the role has no REPLICATION right", "alter role export_reader replication"),)
        assert why_no_decoding(session) == wanted
        session.execute("reset role; alter role export_reader replication; set role export_reader")
        assert why_no_decoding(session) == ()
    finally:
        session.execute("reset role; drop role export_reader")
