"""What becomes of moments between two backups, between which tables were made, altered or dropped.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.archive.history import restore_points
from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.errors import UsageError
from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from tests.support.following.followed import Followed, agree, comes_back, known
from tests.support.following.followed_tables import begin, gaps, names, oid

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


@pytest.mark.exhaustive
def test_the_schema_before_has_what_was_dropped_behind_a_moment(followed: Followed, new_database: NewDatabase) -> None:
    begin(
        followed,
        "create table altered (id int primary key, gone text)",
        "create table dropped (id int primary key)",
        "create table quiet (id int primary key)",
        "insert into altered values (1, 'a')",
        "insert into dropped values (1)",
        "insert into quiet values (1)",
    )
    followed.run("alter table altered add more int", "insert into altered values (2, 'b', 2)")
    between = followed.moments[-1][0]
    followed.run("insert into dropped values (2)")
    followed.run("drop table quiet", "alter table altered drop gone", "insert into altered values (3, 3)")
    still = followed.moments[-1][0]
    followed.run("drop table dropped")
    followed.run("insert into altered values (4, 4)")
    followed.back_up()

    # Its rows are changed behind that moment, so it was there.
    assert names(followed, f"lsn:{between}") == {"public.altered", "public.dropped", "public.quiet"}
    moment = followed.moment(f"lsn:{between}")
    assert "it lacks column public.altered.more, which --schema later has" in moment.approximate
    assert names(followed, f"lsn:{between}", "later") == {"public.altered"}

    # Of these nobody can tell: the later schema is taken, and what it lacks is named.
    assert names(followed, f"lsn:{still}") == {"public.altered"}
    lacking = "column public.altered.gone, table public.dropped, table public.quiet"
    uncertain = followed.moment(f"lsn:{still}")
    assert uncertain.approximate.startswith("the schema was changed between ")
    assert uncertain.approximate.endswith(f"; it lacks {lacking}, which --schema earlier has")
    assert gaps(followed) == {}
    with pytest.raises(UsageError, match=r"matches no table.*--schema earlier has"):
        followed.restore(f"lsn:{still}", new_database(), "public.dropped")
    agree(followed, 1)

    target = new_database()
    comes_back(followed, f"lsn:{between}", target)


def test_the_schema_is_taken_that_has_more_of_what_was_there(followed: Followed, new_database: NewDatabase) -> None:
    begin(
        followed,
        "create table filled (id int primary key, old int)",
        "create table dropped (id int primary key)",
        "insert into filled select i from generate_series(1, 100) i",
        "insert into dropped values (1)",
    )
    followed.run("alter table filled add more int", "update filled set more = id")
    at = followed.moments[-1][0]
    followed.run("insert into dropped values (2)")
    followed.run("drop table dropped")
    followed.back_up()

    moment = followed.moment(f"lsn:{at}")
    assert names(followed, f"lsn:{at}") == {"public.filled"}
    assert moment.lost == ("rows of table public.dropped (2 or more)",)
    assert moment.approximate.startswith("rows of table public.dropped (2 or more) lost, which --schema earlier has; ")
    earlier = followed.moment(f"lsn:{at}", "earlier")
    assert earlier.lost == ("values of column public.filled.more (100 or more)",)
    assert earlier.approximate.startswith(f"{earlier.lost[0]} lost, which --schema later has; ")

    said = followed.restore(f"lsn:{at}", new_database())
    assert (said["equal"], said["lost"]) == (False, list(moment.lost))
    # Behind the drop, nothing is lost.
    assert followed.moment("latest").lost == ()


@pytest.mark.exhaustive
def test_rows_that_fit_an_earlier_schema_only_come_back_in_that(followed: Followed, new_database: NewDatabase) -> None:
    begin(
        followed,
        "create table retyped (id int primary key, n int)",
        "create table seen (id int primary key)",
        "insert into retyped values (1, 1)",
    )
    followed.run("insert into retyped values (2, 2)")
    followed.back_up()
    followed.run("alter table seen add word text", "insert into seen values (1, 'a')")
    between = followed.moments[-1][0]
    followed.run("alter table retyped drop constraint retyped_pkey, alter n type text using n || 'x'")
    after = followed.moments[-1][0]
    result = followed.back_up()
    assert result["begun"] == ["public.retyped"]

    said = comes_back(followed, f"lsn:{between}", new_database())
    assert "--schema later" in said["schema_note"]
    (stale,) = said["stale"]
    assert stale["table"] == "public.retyped"
    assert stale["as_of"] is not None
    assert [len(each.rows) for each in followed.tables_at(followed.moment(f"lsn:{after}")).values()] == [2, 1]
    latest = followed.tables_at(followed.moment("latest"))
    assert list(latest[oid(followed, "retyped")].rows) == [{1: "1", 2: "1x"}, {1: "2", 2: "2x"}]
    comes_back(followed, "latest", new_database())
    assert "begun" not in followed.back_up()  # it fits now, though it is not followed
    agree(followed, 1)


@pytest.mark.exhaustive
def test_a_table_that_is_not_followed_any_more_is_as_it_was_when_that_ended(
    followed: Followed, new_database: NewDatabase
) -> None:
    begin(followed, "create table kept (id int primary key, n int)", "insert into kept values (1, 1)")
    followed.run("insert into kept values (2, 2)", "update kept set n = 10 where id = 1")
    followed.back_up()
    followed.run("alter table kept drop constraint kept_pkey")
    followed.run("insert into kept values (3, 3)")
    followed.back_up()
    followed.run("insert into kept values (4, 4)")
    followed.back_up()
    target = new_database()
    said = comes_back(followed, "latest", target)
    (stale,) = said["stale"]
    (gap,) = restore_points.describe(followed.archive().state)["sources"][0]["gaps"]
    assert (stale["table"], stale["as_of"]) == ("public.kept", gap["from"])
    (table,) = followed.tables_at(followed.moment("latest")).values()
    assert sorted(row[2] or "" for row in table.rows) == ["10", "2"]
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
