"""Tables that are altered, renamed or dropped, and sequences that are set, while their changes are backed up.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from sparkjobs.driver import log_windows
from tests.support.following.followed import Followed, agree, comes_back
from tests.support.following.followed_tables import oids

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


def test_what_the_log_does_not_tell_is_begun_anew_and_all_else_goes_on(
    followed: Followed, new_database: NewDatabase
) -> None:
    keyed = "id int primary key"
    followed.run(
        "create type mood as enum ('sad', 'happy')",
        "create type place as (x int)",
        f"create table retyped ({keyed}, n int)",
        f"create table emptied ({keyed}, n int)",
        f"create table defaulted ({keyed})",
        f"create table labelled ({keyed}, mood mood)",
        f"create table placed ({keyed}, place place)",
        "create table indexed (a int not null, b int not null, constraint one unique (a), constraint other unique (b))",
        "alter table indexed replica identity using index one",
        f"create table whole ({keyed})",
        "create table parts (part int, id int, primary key (part, id)) partition by list (part)",
        "create table part_1 partition of parts for values in (1)",
        "create table part_2 partition of parts for values in (2)",
        f"create table vacuumed ({keyed}, n int)",
        f"create table emptied_only ({keyed})",
        f"create table same ({keyed}, old text, word varchar(3), price numeric(5,2))",
    )
    for table in ("retyped", "emptied", "vacuumed", "labelled (id)", "placed (id)"):
        followed.run(f"insert into {table} values (1), (2)")
    followed.run("update labelled set mood = 'sad'", "update placed set place = row(1)::place")
    followed.run("insert into parts values (1, 1), (2, 1)", "insert into indexed values (1, 10), (2, 20)")
    followed.run("insert into same values (1, 'a', 'b', 1)", "insert into defaulted values (1)")
    followed.run("insert into emptied_only values (1)", "insert into whole values (1)")
    followed.back_up()
    first = len(followed.moments)
    followed.run("alter table retyped alter n type text using 'x' || n")
    followed.run("truncate emptied", "insert into emptied values (5, 5)")
    followed.run("alter table emptied alter n type int using n + 1")
    followed.run("alter table defaulted add r float default random()")
    followed.run("alter type mood rename value 'sad' to 'blue'")
    followed.run("alter type place add attribute y int cascade")
    followed.run("alter table indexed replica identity using index other", "update indexed set a = 3 where b = 10")
    followed.run("alter table whole replica identity full")
    followed.run("alter table parts detach partition part_1")
    followed.run("insert into part_1 values (1, 2)")  # nobody publishes that
    followed.run("alter table parts attach partition part_1 for values in (1)")
    followed.session.execute("vacuum full vacuumed")
    followed.run("update vacuumed set n = 4 where id = 1", "insert into part_2 values (2, 2)")
    followed.run("truncate emptied_only", "insert into emptied_only values (7)")
    at = followed.run("alter table same drop old", "insert into same values (2, 'c', 2)")
    said = followed.back_up()
    begun = {"retyped", "emptied", "defaulted", "labelled", "placed", "indexed", "whole", "part_1"}
    assert set(said["begun"]) == {f"public.{name}" for name in begun}
    followed.run("update retyped set n = 'z'", "insert into placed values (3, row(1, 2))", "delete from whole")
    assert not followed.back_up().get("begun")
    exact = oids(followed, "part_2", "vacuumed", "emptied_only", "same")
    agree(followed, first, exact)
    assert comes_back(followed, "latest", new_database())["stale"] == []
    # Just before the tables' new snapshots their older rows do not fit: they are empty, and all else is there.
    stale = followed.restore(f"lsn:{at}", new_database(), schema="later")["stale"]
    assert {each["table"]: each["as_of"] is None for each in stale} == {
        f"public.{name}": name not in ("emptied", "indexed", "whole", "part_1") for name in begun
    }


@pytest.mark.exhaustive
def test_a_table_that_was_renamed_keeps_its_rows_through_a_full_backup_of_others(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.run("create table t (id int primary key)", "create table k (a int)", "insert into k values (1), (2)")
    followed.back_up()
    followed.run("alter table k rename to k2", "insert into t values (1)")
    followed.back_up()
    followed.back_up("full", "--tables", "public.t")
    followed.run("insert into t values (2)")
    followed.back_up()
    for at in ("latest", f"commit:{followed.archive().state.sequence - 1}"):
        target = new_database()
        (stale,) = followed.restore(at, target)["stale"]
        assert stale["table"] == "public.k2"
        assert stale["reason"].startswith("it has no primary key")
        with connect(target) as session:
            assert session.execute("select count(*) from public.k2").fetchone() == (2,)


def test_moments_before_a_table_was_dropped_say_what_nobody_knows_of_it(followed: Followed) -> None:
    followed.run(
        "create table r (id int primary key, a int) partition by range (id)",
        "create table p partition of r for values from (0) to (100)",
        "create table other (id int primary key)",
        "insert into r values (1, 1)",
    )
    followed.back_up()
    followed.run("alter table r detach partition p")
    followed.run("insert into p values (5, 5)")
    between = followed.run("insert into other values (1)")
    followed.run("drop table p")
    followed.back_up()
    moment = followed.moment(f"lsn:{between}")
    assert "table public.p went before the next backup" in moment.approximate
    assert "public.p" not in followed.moment("latest").approximate


def test_sequences_never_give_a_value_again(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.run(
        "create sequence numbers", "create table t (id bigint primary key default nextval('numbers'), pad text)"
    )
    followed.back_up()
    first = len(followed.moments)
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", 20_000)
    for _ in range(2):
        followed.run("insert into t (pad) select repeat('x', 500) from generate_series(1, 20)")
    followed.session.execute("alter table t add later int default 3")
    followed.run("insert into t (later) values (4)")
    assert followed.back_up()["commits"] > 1
    agree(followed, first, oids(followed, "t"))
    for position, rows in followed.moments[first::2]:
        target = new_database()
        comes_back(followed, f"lsn:{position}", target)
        (table,) = rows.values()
        with connect(target) as session:
            session.execute("set search_path = public")
            (following_one,) = session.execute("insert into t default values returning id").fetchone() or (0,)
        assert following_one > max(int(str(row[1])) for row in table.rows)
