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
from holdfast.postgresql.logical import stream as streams
from tests.support.following.followed import Followed, agree
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
