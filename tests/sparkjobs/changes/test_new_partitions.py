"""Partitions that are made between two backups: which of them have their rows from the first on.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.point_in_time.query import Query
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from tests.support.archives.compacting import compact, everything_told
from tests.support.following.followed import Followed, agree, agree_at, comes_back, open_followed
from tests.support.following.followed_tables import begin, gaps, oid
from tests.support.servers.postgres import create_database

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


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
    for number, (text, wanted) in enumerate(expected):
        (spill := tmp_path / str(number)).mkdir()
        asked = Query(followed.store, followed.moment("latest"), text, memory_bytes=1 << 28, spill=spill)
        assert [tuple(row.values()) for batch in asked.rows() for row in batch.to_pylist()] == wanted


@pytest.mark.exhaustive
def test_each_release_tells_how_a_partition_was_made(older: PostgresServer, tmp_path: Path) -> None:
    with open_followed(create_database(older), tmp_path / "archive") as followed:
        make_partitions(followed)
        agree(followed, 1, every=6)
        assert gaps(followed).keys() == BEGUN_ANEW
