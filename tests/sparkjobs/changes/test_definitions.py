"""What becomes of moments between two backups, between which tables were made, altered or dropped.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive.history import restore_points
from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.logical import stream as streams
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.stream_rights import WantedStream
from tests.support.following.followed import Followed, agree, comes_back, known, open_followed
from tests.support.following.followed_tables import begin, gaps, names
from tests.support.servers.postgres import create_database

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]


def test_a_table_that_is_made_between_two_backups_has_a_gap_until_its_snapshot(followed: Followed) -> None:
    begin(followed, "create table first (id int primary key)")
    followed.run("create table second (id int primary key)", "insert into second values (1)")
    made = followed.moments[-1][0]
    result = followed.back_up()
    assert result["begun"] == ["public.second"]
    for at in (result["restorable_to"], f"commit:{result['commit']}"):
        assert followed.moment(at).position == covered_ranges(followed.archive().state, "shop")[-1].last
    followed.run("insert into second values (2)")
    followed.back_up()
    assert gaps(followed) == {"public.second": "it has no snapshot yet"}
    assert names(followed, f"lsn:{made}", "later") == {"public.first"}
    agree(followed, 1)


def test_what_is_changed_while_the_schema_is_read_is_read_again(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(followed, "create table kept (id int primary key)", "create table dropped (id int primary key)")
    followed.run("insert into dropped values (1)")
    position, drops = streams.flush_position, iter(["drop table dropped"])

    def flushed(session: Any) -> Any:
        found = position(session)
        for statement in drops:
            followed.run(statement)
        return found

    monkeypatch.setattr(streams, "flush_position", flushed)
    followed.back_up()
    agree(followed, 1)
    assert names(followed, f"lsn:{followed.moments[1][0]}", "earlier") == {"public.kept", "public.dropped"}
    newest = followed.moment("latest")
    assert (newest.approximate, names(followed, "latest")) == ("", {"public.kept"})
    assert parse_position(followed.moments[-1][0]) <= newest.position


@pytest.mark.exhaustive
def test_a_column_that_is_not_generated_any_more_has_its_values_from_a_snapshot_on(
    followed: Followed, new_database: NewDatabase
) -> None:
    begin(
        followed,
        "create table t (id int primary key, a int, twice int generated always as (a * 2) stored)",
        "insert into t select i, i from generate_series(1, 5) i",
    )
    followed.run("insert into t values (6, 6)", "update t set a = 10 where id = 1")
    followed.run("alter table t alter twice drop expression")
    between = followed.run("update t set twice = -1 where id = 3")
    followed.back_up()
    assert gaps(followed) == {
        "public.t": "a column of it is not generated any more, and its older changes lack what it had"
    }
    followed.run("update t set twice = -2 where id = 4")
    followed.back_up()
    for schema in ("earlier", "later"):
        assert followed.restore(f"lsn:{between}", new_database(), schema=schema)["stale"]
    target = new_database()
    assert not followed.restore("latest", target)["stale"]
    with connect(target) as session:
        assert list(known(session).values()) == list(followed.moments[-1][1].values())


@pytest.mark.exhaustive
def test_each_release_lets_the_log_tell_of_definitions(older: PostgresServer, tmp_path: Path) -> None:
    with open_followed(create_database(older), tmp_path / "archive") as followed:
        for statement in ddl_triggers.CREATED:
            followed.session.execute(statement.encode())
        begin(followed, "create table kept (id int primary key)")
        followed.run("create temp table t (id int)", "insert into kept values (1)")
        followed.run("alter table kept add word text", "insert into kept values (2, 'a')")
        followed.run("create function f() returns int language sql as 'select 1'", "insert into kept values (3, 'b')")
        followed.back_up()
        assert not any(followed.moment(f"lsn:{position}").approximate for position, _ in followed.moments[1:])
        agree(followed, 1)


@pytest.fixture
def telling(followed: Followed) -> Followed:
    """A followed database whose log tells when definitions change."""
    plan = grants.plan_setup(
        followed.address,
        [followed.address.database],
        "postgres",
        streams={followed.address.database: WantedStream("holdfast_0123456789abcdef", definitions=True)},
    )
    grants.run(followed.address, plan)
    return followed


def test_where_the_log_tells_of_definitions_each_moment_has_its_own(
    telling: Followed, new_database: NewDatabase
) -> None:
    begin(telling, "create table kept (id int primary key)", "create table dropped (id int primary key)")
    telling.run("insert into kept values (1)", "insert into dropped values (1)")
    there = telling.moments[-1][0]
    telling.session.execute("set session_replication_role = replica")
    telling.run("drop table dropped")
    telling.session.execute("reset session_replication_role")
    gone = telling.moments[-1][0]
    telling.back_up()
    assert telling.moment(f"lsn:{there}").approximate == telling.moment(f"lsn:{gone}").approximate == ""
    assert names(telling, f"lsn:{there}") == {"public.kept", "public.dropped"}
    assert names(telling, f"lsn:{gone}") == {"public.kept"}

    first = telling.run("alter table kept add word text")
    telling.run("insert into kept values (2, 'a')")
    passing = telling.run("create function f() returns int language sql as 'select 1'")
    last = telling.run("drop function f()")
    telling.back_up()
    (source,) = restore_points.describe(telling.archive().state)["sources"]
    ((span,),) = (interval["schema_approximate"] for interval in source["intervals"])
    assert parse_position(span["first"]) < parse_position(first) < parse_position(span["last"]) < parse_position(last)
    assert telling.moment(f"lsn:{first}").approximate == telling.moment(f"lsn:{last}").approximate == ""
    assert "what was made and dropped again in between" in telling.moment(f"lsn:{passing}").approximate
    agree(telling, 1)

    # What stays in the target is what was there: neither the triggers nor their schema.
    target = new_database()
    comes_back(telling, f"lsn:{there}", target)
    with connect(target) as session:
        assert not ddl_triggers.has_triggers(session)


def test_what_is_changed_and_changed_back_between_two_backups_is_not_called_exact(followed: Followed) -> None:
    define = "create or replace function f() returns int language sql as 'select {}'"
    begin(followed, "create table kept (id int primary key)", define.format(1))
    followed.run(define.format(2))
    between = followed.run("insert into kept values (1)")
    followed.run(define.format(1))
    followed.run("insert into kept values (2)")
    followed.back_up()
    assert followed.moment(f"lsn:{between}").approximate
    assert not followed.moment("latest").approximate
    agree(followed, 1)


INTERRUPTIONS = (
    "alter event trigger holdfast_dropped disable; alter event trigger holdfast_dropped enable always",
    "drop event trigger holdfast_defined",
    "alter function holdfast_log.note() rename to other",
    "create or replace function holdfast_log.note() returns event_trigger language plpgsql as 'begin end'",
)


def test_each_way_to_interrupt_the_telling_is_seen(telling: Followed) -> None:
    before = ddl_triggers.trigger_version(telling.session)
    assert before
    for meanwhile in INTERRUPTIONS:
        with telling.session.transaction(force_rollback=True):
            telling.session.execute(meanwhile.encode())
            assert ddl_triggers.trigger_version(telling.session) != before, meanwhile
    assert ddl_triggers.trigger_version(telling.session) == before


def test_where_the_telling_was_interrupted_nobody_knows(telling: Followed) -> None:
    begin(telling, "create table kept (id int primary key)")
    for statement in INTERRUPTIONS[0].split("; "):
        telling.run(statement)
    telling.run("alter table kept add word text")
    between = telling.moments[-2][0]
    telling.back_up()
    assert telling.moment(f"lsn:{between}").approximate
