"""The end of a server's log on its disk, and whether definitions have changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import HoldfastError
from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import flush_position as moment
from holdfast.postgresql.logical.flush_position import emit, flush_position, schema_fingerprint

pytestmark = pytest.mark.service

Connection = psycopg.Connection[tuple[Any, ...]]
SLOT = "moment_test"


@pytest.fixture
def session(address: Address) -> Iterator[Connection]:
    with connect(address) as opened:
        opened.execute("set search_path = public; create table t (id int primary key, x text)")
        yield opened


def test_what_was_committed_before_is_below_the_position_also_without_waiting_for_the_disk(session: Connection) -> None:
    session.execute("select pg_create_logical_replication_slot(%s, 'test_decoding', true)", (SLOT,))
    session.execute("set synchronous_commit = off")
    for number in range(20):
        session.execute("insert into t values (%s, 'x')", (number,))
    clock, position = flush_position(session)
    session.execute("insert into t values (99, 'later')")
    read = session.execute("select data from pg_logical_slot_peek_changes(%s, %s, null)", (SLOT, position)).fetchall()
    assert sum("INSERT" in row[0] for row in read) == 20
    assert abs((datetime.now(UTC) - clock).total_seconds()) < 60


def test_an_end_on_the_first_byte_of_a_page_is_reached(session: Connection) -> None:
    session.execute("select pg_switch_wal()")
    _, position = flush_position(session)
    assert session.execute("select %s::pg_lsn <= pg_current_wal_flush_lsn()", (position,)).fetchone() == (True,)


class _Server:
    """Says where the log ends on disk."""

    def __init__(self, flushed: str) -> None:
        self._flushed = flushed

    def execute(self, query: str) -> _Server:
        return self

    def fetchone(self) -> tuple[str]:
        return (self._flushed,)


@pytest.mark.parametrize(
    ("inserted", "flushed", "position"),
    [
        ("0/5000", "0/5000", "0/5000"),
        ("0/5000", "1/0", "0/5000"),
        ("0/5001", "0/5000", ""),
        ("0/4018", "0/4000", "0/4000"),  # behind the header of a page
        ("0/1000028", "0/1000000", "0/1000000"),  # of a segment's first page
        ("0/4030", "0/4000", ""),
        ("0/5018", "0/5000", ""),  # not on a page's first byte
    ],
)
def test_the_end_of_the_log_is_on_disk_up_to_a_pages_header(inserted: str, flushed: str, position: str) -> None:
    assert moment._flushed(_Server(flushed), inserted, 8192) == position  # type: ignore[arg-type]


def test_a_log_that_does_not_reach_its_disk_is_waited_for_with_a_bound(
    session: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    urged: list[str] = []

    class SlowDisk:
        def execute(self, query: str) -> Any:
            return _Server("0/0") if "flush_lsn" in query else session.execute(query.encode())

    monkeypatch.setattr(moment, "FLUSH_WAIT_S", 0.1)
    monkeypatch.setattr(moment, "URGE_S", 0.02)
    monkeypatch.setattr(moment, "emit", lambda session, prefix, content: urged.append(prefix))
    with pytest.raises(HoldfastError, match="was not on its disk"):
        flush_position(SlowDisk())  # type: ignore[arg-type]
    assert urged == ["holdfast_flush"]


def test_a_message_lies_before_the_position_that_is_told_and_on_disk(session: Connection) -> None:
    session.execute("set synchronous_commit = off")
    position, _ = emit(session, "holdfast", "{}")
    row = session.execute("select pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    assert parse_position(row[0]) >= parse_position(position) - 40


DDL = (
    "create table u (id int)",
    "alter table u add x text",
    "alter table u rename x to y",
    "comment on table u is 'words'",
    "grant select on u to public",
    "create index on u (id)",
    "alter table u alter id set default 7",
    "alter table u add check (id > 0)",
    "create view v as select 1 as one",
    "create function f() returns int language sql as 'select 1'",
    "create or replace function f() returns int language sql as 'select 2'",
    "create sequence s",
    "alter sequence s increment 2",
    "create type mood as enum ('sad')",
    "alter type mood add value 'glad'",
    "create statistics st on id, y from u",
    "create policy p on u using (true)",
    "alter extension plpgsql add view v",
    "alter default privileges grant select on tables to public",
    "create publication moment_publication for table u",
    "create schema other",
    "alter table u set schema other",
    "alter table other.u alter y type varchar(9)",
    "drop table other.u cascade",
)


def test_every_change_of_a_definition_changes_the_fingerprint(session: Connection) -> None:
    before = {schema_fingerprint(session)}
    for statement in DDL:
        session.execute(statement.encode())
        found = schema_fingerprint(session)
        assert found not in before, statement
        before.add(found)


def test_a_definition_in_the_place_of_another_changes_the_fingerprint(session: Connection) -> None:
    where = "select ctid::text from pg_description where objoid = 't'::regclass"
    session.execute("comment on table t is 'one'")
    before, place = schema_fingerprint(session), session.execute(where).fetchone()
    session.execute("comment on table t is null")
    session.execute("vacuum pg_description")
    session.execute("comment on table t is 'two'")
    assert session.execute(where).fetchone() == place
    assert schema_fingerprint(session) != before


def test_rows_analyze_and_vacuum_do_not_change_the_fingerprint(session: Connection, address: Address) -> None:
    session.execute("create sequence s; create temporary table gone (id int); drop table gone")
    before = schema_fingerprint(session)
    session.execute(
        "insert into t select n, repeat('x', 5000) from generate_series(1, 500) n; delete from t where id > 9"
    )
    session.execute("select nextval('s'); select lo_from_bytea(0, 'x')")
    session.execute("create temporary table fleeting (id int); drop table fleeting")
    for statement in (
        "analyze",
        "vacuum t",
        "vacuum freeze pg_catalog.pg_class",
        "vacuum freeze pg_catalog.pg_attribute",
    ):
        session.execute(statement.encode())
    assert schema_fingerprint(session) == before
    session.execute("begin; alter table t add y int")
    with connect(address) as other:
        assert schema_fingerprint(other) == before
    session.execute("rollback")
    assert schema_fingerprint(session) == before


def test_a_role_that_may_read_less_has_a_fingerprint_too(session: Connection, address: Address) -> None:
    session.execute("create role moment_reader login password 'p'")
    try:
        with connect(Address(address.url.replace("postgres@", "moment_reader@"), "p")) as reader:
            before = schema_fingerprint(reader)
            session.execute("alter table t add y int")
            changed = schema_fingerprint(reader)
            assert changed != before
            session.execute("create role moment_other; drop role moment_other")
            assert schema_fingerprint(reader) == changed
            session.execute("create role moment_other")
            assert schema_fingerprint(reader) != changed
    finally:
        session.execute("drop role if exists moment_other; drop role moment_reader")
