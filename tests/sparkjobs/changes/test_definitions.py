"""What becomes of moments between two backups, between which tables were made, altered or dropped.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.lsn import parse_position
from holdfast.postgresql.logical import stream as streams
from tests.support.following.followed import Followed, agree
from tests.support.following.followed_tables import begin, gaps, names

pytestmark = pytest.mark.service


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
