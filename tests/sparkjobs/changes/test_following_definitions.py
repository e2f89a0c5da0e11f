"""What becomes of moments between two backups, between which tables were made, altered or dropped.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive.history import restore_points
from holdfast.common.errors import UsageError
from holdfast.common.lsn import parse_position
from holdfast.point_in_time.query import Query
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.server import PostgresServer
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.logical import ddl_triggers
from holdfast.sources.postgresql.logical import stream as streams
from holdfast.sources.postgresql.setup import grants
from holdfast.sources.postgresql.setup.stream_rights import WantedStream
from sparkjobs.driver import log_windows
from tests.support.compacting import compact, everything_told
from tests.support.followed import Followed, agree, agree_at, comes_back, known, open_followed
from tests.support.servers import create_database

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        yield opened


def oid(followed: Followed, name: str) -> int:
    row = followed.session.execute("select %s::regclass::oid::int8", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def begin(followed: Followed, *statements: str) -> None:
    """Make the tables, and begin to follow them."""
    followed.make(statements)
    followed.note()
    followed.back_up()


def names(followed: Followed, at: str, schema: Any = "auto") -> set[str]:
    """Return the tables with rows of a moment."""
    return {table.label for table in followed.tables_at(followed.moment(at, schema)).values()}


def gaps(followed: Followed) -> dict[str, str]:
    """Return the reason of each table's newest gap."""
    (source,) = restore_points.describe(followed.archive().state)["sources"]
    return {gap["table"]: gap["reason"] for gap in source["gaps"] if "table" in gap}


BEGUN_ANEW = {"public.attached", "public.later", "public.emptied", "public.quick", "public.at_once"}
"""Of the partitions below, those that had rows which the log does not tell, or were given another file."""


def make_partitions(followed: Followed) -> dict[str, int]:
    """Make partitions in the ways there are, each with rows at once and rows later, and back up before and after.

    :return: their oids.
    """
    begin(
        followed,
        "create table root (id int primary key, word text default 'a') partition by range (id)",
        "create table p0 partition of root for values from (0) to (10)",
        "insert into root values (1)",
        "create table below partition of root for values from (50) to (60) partition by range (id)",
        "create table other (id int primary key)",
        "create table pair (a text, b int, n int, primary key (a, b)) partition by list (b)",
        "create table pair_1 partition of pair for values in (1)",
        "create table single (id int primary key) partition by list (id)",
        "create table single_0 partition of single for values in (0)",
    )
    followed.run("insert into root values (2)")
    followed.back_up()

    followed.run("create table plain partition of root for values from (10) to (20)")
    followed.run("insert into root values (10), (11)")
    followed.run("create table own partition of root (word default 'b') for values from (20) to (30)",
                 "insert into root (id) values (20)")  # fmt: skip
    followed.run("create table deeper partition of below for values from (50) to (55)", "insert into root values (50)")
    followed.run("create table attached (id int primary key, word text)", "insert into attached values (30)",
                 "alter table root attach partition attached for values from (30) to (40)")  # fmt: skip
    followed.run("create table later (id int primary key, word text)", "insert into later values (40)")
    followed.run("alter table root attach partition later for values from (40) to (50)")
    followed.run("create table emptied partition of root for values from (60) to (70)", "insert into root values (60)")
    followed.run("truncate emptied", "insert into root values (61)")
    followed.run("update root set word = 'new' where id % 10 = 0", "delete from root where id = 11")
    followed.run("insert into root values (12), (21), (31), (41), (51)")
    followed.run(
        "create table pair_2 partition of pair for values in (2)", "insert into pair values ('a', 2), ('b', 2)"
    )
    followed.run("update pair set a = 'c', n = 1 where a = 'b'", "create table silent partition of pair default")
    # As many commands as PARTITION OF takes, and a row that the log does not publish.
    followed.run("create table quick (id int not null)", "insert into quick values (1)",
                 "alter table single attach partition quick for values in (1)")  # fmt: skip
    followed.run("do $$ begin create table at_once (id int not null); insert into at_once values (2);"
                 "alter table single attach partition at_once for values in (2); end $$")  # fmt: skip
    followed.run("create table single_3 partition of single for values in (3)", "insert into single values (3)")
    kinds = ("plain", "own", "deeper", "pair_2", "silent", "single_3", "attached", "later", "emptied")
    every = {name: oid(followed, name) for name in kinds}
    followed.back_up()
    followed.run("update root set word = 'last'", "update pair set n = 2")
    followed.back_up()
    return every


def test_a_partition_made_between_two_backups_has_its_rows_from_the_first_on(
    followed: Followed, new_database: NewDatabase, tmp_path: Path
) -> None:
    every = make_partitions(followed)
    whole = {every[name] for name in ("plain", "own", "deeper", "pair_2", "silent", "single_3")}
    for number in range(1, len(followed.moments), 2):
        position, truth = followed.moments[number]
        got = agree_at(followed, number)
        for table in whole & truth.keys():
            assert len(truth[table].rows) == len(got[table].rows if table in got else []), (position, truth[table])
    assert not {"public.plain", "public.own", "public.deeper"} & gaps(followed).keys()
    assert gaps(followed).keys() == BEGUN_ANEW
    between = next(at for at, truth in followed.moments if every["own"] in truth)
    comes_back(followed, f"lsn:{between}", new_database())
    is_read_in_place(followed, tmp_path)

    before = everything_told(followed.store)
    compact(followed.store)
    assert everything_told(followed.store) == before
    compact(followed.store, consolidate=True)
    agree(followed, 1, every=5)
    followed.run("insert into pair values ('d', 2), ('e', 3)", "delete from pair where a = 'a'")
    followed.back_up()
    agree(followed, len(followed.moments) - 1)
    comes_back(followed, "latest", new_database())


def is_read_in_place(followed: Followed, tmp_path: Path) -> None:
    """Make sure that partitions without a snapshot can be queried, and what they are partitions of."""
    expected: list[tuple[str, list[tuple[Any, ...]]]] = [
        ("select a, n from pair_2 order by a", [("a", 2), ("c", 2)]),
        ("select count(*) from silent", [(0,)]),
        ("select count(*), sum(id) from root where id between 10 and 29", [(4, 63)]),
    ]
    for number, (text, rows) in enumerate(expected):
        (spill := tmp_path / str(number)).mkdir()
        asked = Query(followed.store, followed.moment("latest"), text, memory_bytes=1 << 28, spill=spill)
        assert [tuple(row.values()) for batch in asked.rows() for row in batch.to_pylist()] == rows


@pytest.mark.exhaustive
def test_each_release_tells_how_a_partition_was_made(older: PostgresServer, tmp_path: Path) -> None:
    with open_followed(create_database(older), tmp_path / "archive") as followed:
        make_partitions(followed)
        agree(followed, 1, every=6)
        assert gaps(followed).keys() == BEGUN_ANEW


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


def test_a_table_that_is_made_between_two_backups_has_a_gap_until_its_snapshot(followed: Followed) -> None:
    begin(followed, "create table first (id int primary key)")
    followed.run("create table second (id int primary key)", "insert into second values (1)")
    made = followed.moments[-1][0]
    result = followed.back_up()
    assert result["begun"] == ["public.second"]
    for at in (result["restorable_to"], f"commit:{result['commit']}"):
        assert followed.moment(at).position == restore_points.intervals(followed.archive().state, "shop")[-1].last
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
        assert not ddl_triggers.left(session)


@pytest.mark.exhaustive
def test_where_the_log_tells_of_definitions_rows_stored_anew_and_temporary_tables_are_no_change(
    telling: Followed,
) -> None:
    begin(
        telling,
        "create table kept (id int primary key)",
        "alter table kept cluster on kept_pkey",
        "create table staged (id int primary key)",
        "create materialized view filled as select 1 as n",
        "create sequence counter",
    )
    telling.run("insert into staged values (1)")
    telling.run("truncate staged")
    telling.session.execute("vacuum full kept")
    telling.session.execute("reindex table kept")
    telling.run("refresh materialized view filled", "select nextval('counter')", "cluster kept")
    telling.run("create temp table t (id serial primary key)", "create index on t (id)", "drop table t")
    telling.run("insert into staged values (1)")
    telling.back_up()
    versions = {placed.head.schema_version for placed in telling.archive().state.blocks.values()}
    assert len(versions) == 2
    assert not any(telling.moment(f"lsn:{position}").approximate for position, _ in telling.moments[1:])
    (source,) = restore_points.describe(telling.archive().state)["sources"]
    assert not any(interval["schema_approximate"] for interval in source["intervals"])
    telling.back_up("full")
    agree(telling, 1)
    telling.run("create table own (id int primary key)")
    telling.back_up()
    defined = [placed.head.defined for placed in telling.archive().state.blocks.values()]
    assert [len(each) for each in defined if each] == [1]


@pytest.mark.parametrize("told", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_what_is_changed_and_changed_back_between_two_backups_is_not_called_exact(
    followed: Followed, told: bool
) -> None:
    if told:
        for statement in ddl_triggers.CREATED:
            followed.session.execute(statement.encode())
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


@pytest.mark.exhaustive
def test_what_is_made_and_dropped_between_two_backups_is_missed_by_the_moments_that_had_it(telling: Followed) -> None:
    begin(telling, "create table kept (id int primary key)")
    before = telling.run("insert into kept values (1)")
    there = telling.run("create table passing (id int primary key)", "insert into passing values (1)")
    gone = telling.run("drop table passing")
    telling.back_up()
    at_once = telling.run("create table never_seen (id int)", "drop table never_seen")
    telling.back_up()
    exact = (before, gone, at_once, telling.moments[-1][0])
    assert not any(telling.moment(f"lsn:{at}").approximate for at in exact)
    assert "what was made and dropped in between" in telling.moment(f"lsn:{there}").approximate
    (source,) = restore_points.describe(telling.archive().state)["sources"]
    ((span,),) = (interval["schema_approximate"] for interval in source["intervals"])
    assert span["changed_back"]
    assert parse_position(before) <= parse_position(span["first"]) < parse_position(there)
    assert parse_position(there) <= parse_position(span["last"]) < parse_position(gone)


@pytest.mark.exhaustive
def test_a_partition_that_comes_and_goes_between_two_backups_is_seen_by_its_rows(followed: Followed) -> None:
    begin(
        followed,
        "create table root (id int primary key) partition by range (id)",
        "create table lasting partition of root for values from (0) to (10)",
    )
    followed.run("create table passing partition of root for values from (10) to (20)")
    there = followed.run("insert into root values (1), (11)")
    gone = followed.run("drop table passing")
    followed.run("insert into root values (2)")
    followed.back_up()
    assert "what was made and dropped in between" in followed.moment(f"lsn:{there}").approximate
    assert "what was made and dropped in between" in followed.moment(f"lsn:{gone}").approximate
    assert not followed.moment("latest").approximate
    agree(followed, 1)


INTERRUPTIONS = (
    "alter event trigger holdfast_dropped disable; alter event trigger holdfast_dropped enable always",
    "drop event trigger holdfast_defined",
    "alter function holdfast_log.note() rename to other",
    "create or replace function holdfast_log.note() returns event_trigger language plpgsql as 'begin end'",
)


def test_each_way_to_interrupt_the_telling_is_seen(telling: Followed) -> None:
    before = ddl_triggers.told(telling.session)
    assert before
    for meanwhile in INTERRUPTIONS:
        with telling.session.transaction(force_rollback=True):
            telling.session.execute(meanwhile.encode())
            assert ddl_triggers.told(telling.session) != before, meanwhile
    assert ddl_triggers.told(telling.session) == before


@pytest.mark.parametrize(
    "meanwhile",
    [INTERRUPTIONS[0], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in INTERRUPTIONS[1:])],
)
def test_where_the_telling_was_interrupted_nobody_knows(telling: Followed, meanwhile: str) -> None:
    begin(telling, "create table kept (id int primary key)")
    for statement in meanwhile.split("; "):
        telling.run(statement)
    telling.run("alter table kept add word text")
    between = telling.moments[-2][0]
    telling.back_up()
    assert telling.moment(f"lsn:{between}").approximate


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
def test_a_table_that_stops_being_followed_beside_a_new_partition_has_its_gap(followed: Followed) -> None:
    begin(
        followed,
        "create table root (id int primary key) partition by range (id)",
        "create table zero partition of root for values from (0) to (1)",
        "create table kept (id int primary key, n int)",
        "create table gone (id int primary key)",
    )
    followed.run("insert into kept values (1, 1)")
    followed.back_up()
    followed.run("create table part partition of root for values from (1) to (9)", "insert into root values (1)")
    followed.run("alter table kept drop constraint kept_pkey")
    followed.run("drop table gone")
    followed.back_up()

    (source,) = restore_points.describe(followed.archive().state)["sources"]

    (gap,) = source["gaps"]
    assert gap["table"] == "public.kept"
    assert gap["reason"].startswith("it has no primary key")


@pytest.mark.exhaustive
def test_a_new_partition_that_is_excluded_is_not_in_the_archive(followed: Followed) -> None:
    excluded = ("--exclude", "public.secret*")
    followed.make(
        (
            "create table root (id int primary key) partition by range (id)",
            "create table zero partition of root for values from (0) to (1)",
        )
    )
    followed.back_up("changes", *excluded)
    followed.run("create table secret_made partition of root for values from (1) to (9)", "insert into root values (1)")
    followed.run("create table secret_other (like root including all)", "insert into secret_other values (11)")
    followed.run(
        "alter table root attach partition secret_other for values from (11) to (19)", "insert into root values (12)"
    )
    followed.run("insert into root values (0)")

    for number in range(2):
        assert "begun" not in followed.back_up("changes", *excluded)
        followed.run(f"insert into root values (3 + {number}), (13 + {number})")

    assert names(followed, "latest") == {"public.zero"}
    changed = {record.label for placed in followed.archive().state.blocks.values() for record in placed.head.tables}
    assert not {each for each in changed if "secret" in each}


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
@pytest.mark.parametrize(
    "most",
    [pytest.param(3, id="windows"), pytest.param(2_000_000, id="window", marks=pytest.mark.exhaustive)],
)
def test_a_new_partition_whose_rows_were_written_anew_before_its_snapshot_is_named(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    begin(
        followed,
        "create table root (id int primary key, n int) partition by range (id)",
        "create table zero partition of root for values from (0) to (1)",
        "insert into root values (0, 1)",
    )
    with monkeypatch.context() as patched:
        patched.setattr(log_windows, "MOST_CHANGES", most)
        patched.setattr(log_windows, "WINDOWS_AT_ONCE", 1)
        followed.run("create table part partition of root for values from (1) to (9)", "insert into root values (1, 1)")
        followed.run("insert into root values (2, 2), (3, 3)")
        followed.run("insert into root values (4, 4)")
        commits = followed.back_up()["commits"]
        assert commits >= 3 if most == 3 else commits == 1  # what others write may end a window, too
    followed.run("alter table root alter n type text using n::text")
    at = followed.run("select 1")
    followed.back_up()

    said = followed.restore(f"lsn:{at}", new_database(), schema="later")

    assert {each["table"]: each["as_of"] for each in said["stale"]} == {"public.part": None, "public.zero": None}
    assert not followed.restore("latest", new_database())["stale"]
