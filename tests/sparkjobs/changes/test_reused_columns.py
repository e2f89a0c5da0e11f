"""Columns and keys that come, go and come again between two backups: nothing comes back in another's place.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from sparkjobs.driver import log_windows
from tests.support.following.followed import Followed, comes_back
from tests.support.following.followed_cases import Case, follow

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


@pytest.fixture(params=[pytest.param("one window", marks=pytest.mark.exhaustive), "a window for each transaction"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "one window":
        monkeypatch.setattr(log_windows, "MOST_CHANGES", 1)
        monkeypatch.setattr(log_windows, "WINDOWS_AT_ONCE", 1)


_ID = ["create table t (id int primary key)", "insert into t values (1)"]


_TEXT = ["create table t (id int primary key, a text)", "insert into t values (1, 'one')"]


_INT = ["create table t (id int primary key, a int)", "insert into t values (1, 1)"]


AGAIN: dict[str, Case] = {
    "added, dropped and added": (
        _ID,
        ["alter table t add z int", "insert into t values (2, 2)", "alter table t drop z", "alter table t add z int"],
    ),
    "added again with another length": (
        _ID,
        [
            "alter table t add z varchar(9)",
            "update t set z = 'old'",
            "alter table t drop z",
            "alter table t add z text default 'new'",
        ],
    ),
    "dropped and added": (
        _TEXT,
        [["alter table t drop a", "alter table t add a text"], "insert into t values (2, 'x')"],
    ),
    "renamed and back, its name given to another": (
        _TEXT,
        [
            "alter table t rename a to b",
            "insert into t values (2, 'two')",
            ["alter table t drop b", "alter table t add b text"],
        ],
    ),
    "two that change places": (
        _INT,
        [
            "alter table t add b int",
            "update t set b = 5",
            ["alter table t drop a", "alter table t rename b to a"],
            "insert into t values (3, 3)",
            "alter table t add b int default 8",
        ],
    ),
}  # fmt: skip


def test_a_column_does_not_come_back_with_values_of_another(followed: Followed, new_database: NewDatabase) -> None:
    follow(followed, AGAIN)
    comes_back(followed, "latest", new_database())


_FULL = [
    "create table t (id int primary key, k int not null, v text)",
    "alter table t replica identity full",
    "insert into t values (1, 11, 'a'), (2, 12, 'b'), (3, 13, 'c')",
]


_DEFAULT = [_FULL[0], _FULL[2]]


KEYS: dict[str, Case] = {
    "dropped for a while": (
        _FULL,
        [["alter table t drop constraint t_pkey", "update t set id = id + 1", "alter table t add primary key (id)"]],
    ),
    "on another column for a while": (
        _DEFAULT,
        [
            "update t set v = 'c' where id = 1",
            ["alter table t drop constraint t_pkey", "alter table t add primary key (k)"],
            "update t set v = 'z', id = 5 where k = 11",
            "insert into t values (1, 15, 'q')",
            ["alter table t drop constraint t_pkey", "alter table t add primary key (id)"],
            "update t set v = 'zz' where id = 1",
            "delete from t where id = 2",
        ],
    ),
    "an identity without a key for a while": (
        _DEFAULT,
        [
            "update t set v = 'x' where id = 1",
            "alter table t replica identity nothing",
            "insert into t values (4, 14, 'd')",
            "alter table t replica identity default",
            "update t set v = 'z' where id = 4",
            "delete from t where id = 1",
        ],
    ),
    "whole rows for a while": (
        _DEFAULT,
        [
            "update t set v = 'x' where id = 1",
            "alter table t replica identity full",
            "update t set v = 'y', id = 7 where id = 1",
            "alter table t replica identity default",
            "update t set v = 'z' where id = 7",
            "insert into t values (1, 20, 'n')",
        ],
    ),
    "another index for a while": (
        [
            "create table t (id int not null, k int not null, v text)",
            "create unique index tk on t (k)",
            "create unique index ti on t (id)",
            "alter table t replica identity using index tk",
            "insert into t values (1, 1, 'a'), (2, 2, 'b')",
        ],
        [
            "update t set v = 'x' where k = 1",
            "alter table t replica identity using index ti",
            "update t set k = 9 where id = 1",
            "insert into t values (3, 1, 'c')",
            "alter table t replica identity using index tk",
            "update t set v = 'y' where k = 1",
        ],
    ),
}  # fmt: skip


@pytest.mark.usefixtures("windows")
def test_rows_are_told_apart_by_the_key_that_they_had(followed: Followed, new_database: NewDatabase) -> None:
    follow(followed, KEYS)
    comes_back(followed, "latest", new_database())


_ROOT = [
    "create table root (id int primary key, v text) partition by range (id)",
    "create table t partition of root for values from (0) to (100)",
    "insert into root values (1, 'a'), (2, 'b')",
]


PARTITIONS: dict[str, Case] = {
    "unlogged for a while": (
        _ROOT,
        [
            "alter table t set unlogged",
            ["insert into root values (3, 'c')", "update root set v = 'x' where id = 1"],
            "alter table t set logged",
            "insert into root values (4, 'd')",
        ],
    ),
    "unlogged for a while, without large values": (
        ["create table root (id int primary key) partition by range (id)", _ROOT[1], "insert into root values (1)"],
        [["alter table t set unlogged", "insert into root values (2)", "alter table t set logged"]],
    ),
    "new, with whole rows, and without a key for a while": (
        [_ROOT[0], "create table other partition of root for values from (100) to (200)"],
        [
            ["create table t partition of root for values from (0) to (100)", "alter table t replica identity full"],
            "insert into root values (1, 'a'), (2, 'b')",
            "alter table root drop constraint root_pkey",
            "insert into root values (1, 'c')",
            "delete from t where v = 'c'",
            "alter table root add primary key (id)",
        ],
    ),
}


@pytest.mark.usefixtures("windows")
def test_a_partition_begins_anew_whose_rows_the_log_does_not_tell(
    followed: Followed, new_database: NewDatabase
) -> None:
    follow(followed, PARTITIONS)
    comes_back(followed, "latest", new_database())


def test_what_is_stale_is_named_as_it_is_called_at_the_moment(followed: Followed, new_database: NewDatabase) -> None:
    followed.make(["create table t (id int primary key)", "create table u (a int)"])
    followed.back_up()
    followed.run("alter table t rename to v", "alter table u rename to t", "alter table v rename to u")
    followed.run("insert into t values (1)", "insert into u values (1)")
    followed.back_up()
    assert [each["table"] for each in followed.restore("latest", new_database())["stale"]] == ["public.t"]
