"""Types whose labels and attributes come, go and come again between two backups: values mean what they meant.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import Followed, comes_back
from tests.support.following.followed_cases import Case, follow, side_by_side

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


_ID = ["create table t (id int primary key)", "insert into t values (1)"]


_INT = ["create table t (id int primary key, a int)", "insert into t values (1, 1)"]


_SWAP = [
    "alter type mood rename value 'sad' to 'x'",
    "alter type mood rename value 'happy' to 'sad'",
    "alter type mood rename value 'x' to 'happy'",
]


_MOOD = "create type mood as enum ('sad', 'happy')"


_MOODS = [_MOOD, "create table t (id int primary key, m mood)", "insert into t values (1, 'sad')"]


_ARRAYS = [_MOOD, "create table t (id int primary key, m mood[])", "insert into t values (1, '{sad,NULL}')"]


_PAIRS = [
    "create type pair as (a int, b text)",
    "create table t (id int primary key, p pair)",
    "insert into t values (1, '(1,x)')",
]


TYPES: dict[str, Case] = {
    "labels that change places and back": (_MOODS, [_SWAP, "insert into t values (2, 'sad')", _SWAP]),
    "labels of arrays that change places and back": (_ARRAYS, [_SWAP, "insert into t values (2, '{sad}')", _SWAP]),
    "a label that is added, used and renamed": (
        _MOODS,
        [
            "alter type mood add value 'tpyo'",
            "insert into t values (2, 'tpyo')",
            "alter type mood rename value 'tpyo' to 'typo'",
        ],
    ),
    "one of arrays": (
        _ARRAYS,
        [
            "alter type mood add value 'a \"b\"'",
            "insert into t values (2, array['a \"b\"', 'sad']::mood[])",
            "alter type mood rename value 'a \"b\"' to 'c'",
        ],
    ),
    "one inside of a composite type": (
        [_MOOD, "create type pair as (a int, m mood)", *_PAIRS[1:2], "insert into t values (1, '(1,sad)')"],
        [
            "alter type mood add value 'tpyo'",
            "insert into t values (2, '(2,tpyo)')",
            "alter type mood rename value 'tpyo' to 'typo'",
        ],
    ),
    "an attribute that is added, used and dropped": (
        _PAIRS,
        [
            "alter type pair add attribute c int",
            "insert into t values (2, '(2,y,3)')",
            "alter type pair drop attribute c",
        ],
    ),
    "an attribute inside of a domain": (
        [_PAIRS[0], "create domain d as pair", "create table t (id int primary key, p d)", _PAIRS[2]],
        [
            "alter type pair add attribute c int",
            "insert into t values (2, '(2,y,3)')",
            "alter type pair drop attribute c",
        ],
    ),
    "an attribute inside of a range": (
        [
            _PAIRS[0],
            "create type pairs as range (subtype = pair)",
            "create table t (id int primary key, p pairs)",
            "insert into t values (1, '[\"(1,x)\",\"(2,x)\")')",
        ],
        [
            "alter type pair add attribute c int",
            "insert into t values (2, '[\"(1,x,1)\",\"(2,x,1)\")')",
            "alter type pair drop attribute c",
        ],
    ),
    "a number that becomes an oid, which is kept as text": (
        _INT,
        ["update t set a = -1", "alter table t alter a type oid", "insert into t values (2, 4000000000)"],
    ),
    "the same, where whole rows are told apart": (
        ["create table t (id int, a int)", "alter table t replica identity full", _INT[1]],
        ["alter table t alter a type oid", "delete from t", "insert into t values (2, 4000000000)"],
    ),
    "a column of a table whose rows are values": (
        ["create table pair (a int, b text)", *_PAIRS[1:]],
        ["alter table pair add c int", "insert into t values (2, '(2,y,3)')", "alter table pair drop c"],
    ),
    "an attribute of a type that no column had before": (
        [*_PAIRS[:1], *_ID],
        [
            "alter table t add p pair",
            "alter type pair add attribute c int",
            "update t set p = '(1,x,3)'",
            "alter type pair drop attribute c",
        ],
    ),
    "a column of a table whose rows were no values before": (
        ["create table pair (a int, b text)", *_ID],
        ["alter table t add p pair", "update t set p = '(1,x)'", "alter table pair add c int"],
    ),
}  # fmt: skip


def test_values_mean_what_they_meant(followed: Followed, new_database: NewDatabase) -> None:
    follow(followed, TYPES)
    comes_back(followed, "latest", new_database())


GONE: dict[str, Case] = {
    kind: (
        [_MOOD, f"create table t (id int primary key, m {kind})"],
        [
            "alter type mood add value 'so so'",
            f"insert into t values (1, '{value}')",
            ["alter table t drop m", "drop type mood"],
        ],
    )
    for kind, value in (("mood", "so so"), ("mood[]", "{sad,so so}"))
}


def test_a_moment_has_the_labels_of_a_type_that_is_gone_by_now(followed: Followed, new_database: NewDatabase) -> None:
    made, (added, used, gone) = side_by_side(GONE)
    followed.make(made)
    followed.back_up()
    followed.run(*added)
    at = followed.run(*used)
    followed.run(*gone)
    followed.back_up()
    comes_back(followed, f"lsn:{at}", new_database())


def test_a_label_that_another_type_always_had_tells_nothing_of_when_one_got_it(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(
        [
            "create type job_status as enum ('todo', 'done')",
            "create type event_type as enum ('deferred', 'cancelled')",
            "create table jobs (id int primary key, status job_status)",
            "create table events (id int primary key, type event_type, types event_type[])",
            "insert into jobs values (1, 'todo')",
        ]
    )
    followed.back_up()
    at = followed.run("insert into events values (1, 'cancelled', '{cancelled}')")
    followed.run("alter type job_status add value 'cancelled'")
    followed.run("alter table jobs add priority int", "insert into jobs values (2, 'cancelled', 7)")
    assert "begun" not in followed.back_up()
    target = new_database()
    followed.restore(f"lsn:{at}", target)
    with connect(target) as session:
        (jobs,) = session.execute("select array_agg(j::text) from public.jobs j").fetchall()
        assert jobs == (["(1,todo)"],)
        assert session.execute("select types::text from public.events").fetchall() == [("{cancelled}",)]
