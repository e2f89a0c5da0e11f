"""What becomes of moments between two backups, between which tables were made, altered or dropped.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from tests.support.following.followed import Followed, agree, known
from tests.support.following.followed_tables import begin, gaps, names

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
