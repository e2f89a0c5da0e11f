"""Tables that are partitioned by an expression whose function fails in a restore: rows come back, bounds give way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.sparkjobs.restore.test_rows_first import brought_back, rows
from tests.support.following.followed import Followed, open_followed
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

CreateOn = Callable[..., Address]

INNER = "create function first_of(v text) returns text language sql immutable as 'select lower(left(v, 1))'"
KEY = "create or replace function key_of(v text) returns text immutable language"
WORKS = f"{KEY} plpgsql as 'begin return lower(left(v, 1)); end'"
RAISES = f"{KEY} plpgsql as $$ begin raise exception 'no key any more'; end $$"
SOME_RAISE = f"""
{KEY} plpgsql as
$$ begin if v = 'A6' then raise exception 'no key of A6'; end if; return lower(left(v, 1)); end $$
"""
COMPUTED = "create table computed (v text, k text generated always as (key_of(v)) stored)"

BOUNDS = {
    "list": ("in ('a')", "in ('b', 'c', 'd', 'e', 'f')"),
    "range": ("from ('a') to ('b')", "from ('b') to ('z')"),
    "hash": ("with (modulus 2, remainder 0)", "with (modulus 2, remainder 1)"),
}
TREES = (
    *(f"create table by_{how} (id int, v text) partition by {how} (key_of(v))" for how in BOUNDS),
    *(
        f"create table {how}_{number} partition of by_{how} for values {bound}"
        for how, bounds in BOUNDS.items()
        for number, bound in enumerate(bounds)
    ),
    *(f"insert into by_{how} select i, chr(65 + i % 6) || i from generate_series(1, 10) i" for how in BOUNDS),
)
PARTITIONS = [f"{how}_{number}" for how in BOUNDS for number in (0, 1)]

ENUM = (
    "create type side as enum ('left', 'right')",
    "create or replace function side_of(n int) returns side language plpgsql immutable as "
    "$$ begin return (enum_range(null::public.side))[1 + n % 2]; end $$",
    "create table by_side (id int, n int) partition by hash (side_of(n))",
    *(
        f"create table side_{number} partition of by_side for values with (modulus 2, remainder {number})"
        for number in (0, 1)
    ),
    "insert into by_side select i, i from generate_series(1, 10) i",
)
NO_SIDE = (
    "create or replace function side_of(n int) returns side language plpgsql immutable as "
    "$$ begin if n = 7 then raise exception 'no side'; end if; "
    "return (enum_range(null::public.side))[1 + n % 2]; end $$"
)

MAJORS = [18, pytest.param(14, marks=pytest.mark.exhaustive)]


def in_partitions(address: Address, names: list[str], schema: str = "public") -> dict[str, list[tuple[int, str]]]:
    return {name: sorted(rows(address, f"select * from only {schema}.{name}")) for name in names}


def attached(address: Address) -> set[str]:
    query = "select relname::text from pg_class where relispartition and relkind = 'r'"
    return {name for (name,) in rows(address, query)}


@pytest.mark.representatives("plpgsql-18")
@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    "function", ["plpgsql as 'begin return first_of(v); end'", "sql as 'select first_of(v)'"], ids=["plpgsql", "sql"]
)
def test_a_key_that_needs_a_search_path_has_one_while_rows_are_loaded(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn, major: int, function: str
) -> None:
    source = create_on(major, INNER, f"{KEY} {function}", *TREES, COMPUTED, "insert into computed values ('C')")
    target = create_on(major)

    left = brought_back(run_backup, run_restore, source, target)

    assert in_partitions(target, PARTITIONS) == in_partitions(source, PARTITIONS)
    assert rows(target, "select * from public.computed") == [("C", "c")]
    assert attached(target) == set(PARTITIONS)
    assert {name: each["statement"] for name, each in left.items()} == {
        "search_path of function public.key_of(text)": "alter function public.key_of(text) set search_path = public;"
    }
    assert rows(target, "select proconfig from pg_proc where proname = 'key_of'") == [(None,)]


@pytest.mark.representatives("some-18")
@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    ("breaking", "detached"),
    [
        (RAISES, PARTITIONS),
        (SOME_RAISE, ["list_0", "range_0", "hash_0"]),
        (f"{KEY} sql as 'select gone(v)'", PARTITIONS),
    ],
    ids=["all", "some", "sql"],
)
def test_a_bound_whose_function_fails_gives_way_and_can_be_attached_once_it_is_mended(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn, major: int, breaking: str, detached: list[str]
) -> None:
    source = create_on(major, WORKS, *TREES, "set check_function_bodies = off", breaking)
    target = create_on(major)

    left = brought_back(run_backup, run_restore, source, target)

    assert in_partitions(target, PARTITIONS) == in_partitions(source, PARTITIONS)
    bounds = {name for name in left if name.startswith("partition ")}
    assert bounds == {f"partition public.{name} of public.by_{name[:-2]}" for name in detached}
    assert set(PARTITIONS) - attached(target) == set(detached)
    with connect(target) as session:
        session.execute("set search_path = public")
        session.execute(WORKS.encode())
        for name, each in left.items():
            if name.startswith("partition "):
                session.execute(each["statement"].encode())
    assert attached(target) == set(PARTITIONS)
    assert rows(target, "select count(*) from public.by_hash") == [(10,)]


def test_rows_of_a_root_that_cannot_tell_where_they_belong_go_back_where_they_were(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateOn
) -> None:
    source, target = create_on(18, *ENUM, NO_SIDE), create_on(18)
    names = ["side_0", "side_1"]

    left = brought_back(run_backup, run_restore, source, target)

    assert in_partitions(target, names) == in_partitions(source, names)
    assert left  # where the others hash as in the source, they are attached again
    assert left.keys() == {f"partition public.{name} of public.by_side" for name in set(names) - attached(target)}


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        opened.make((WORKS, *TREES, *ENUM))
        for name in (*PARTITIONS, "side_0", "side_1"):
            opened.make((f"alter table {name} replica identity full",))
        opened.back_up()
        yield opened


def test_a_bound_gives_way_at_a_moment_with_changes_too(
    followed: Followed, new_database: Callable[..., Address]
) -> None:
    names = [*PARTITIONS, "side_0", "side_1"]
    followed.run("delete from by_list where id < 4", "insert into by_hash values (11, 'B11')")
    followed.run("update by_range set id = id + 100", "update by_side set n = n + 2")
    expected = in_partitions(followed.address, names)
    at = followed.run(RAISES, NO_SIDE)
    followed.back_up()

    for moment in (f"lsn:{at}", "latest"):
        target = new_database()
        said = followed.restore(moment, target)
        assert in_partitions(target, names) == expected
        left = {each["object"] for each in said["not_restored"]}
        assert left >= {f"partition public.{name} of public.by_{name[:-2]}" for name in PARTITIONS}
