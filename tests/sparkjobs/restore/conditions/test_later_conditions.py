"""Restores to a moment at which tables have conditions that the rows of the last full backup break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.conditioned import (
    A_CHECK,
    GENERATED,
    KEYLESS,
    MADE,
    PLAIN,
    ROOT,
    change,
    left_out,
    nothing_is_left,
    rows,
)
from tests.support.following.followed import Followed
from tests.support.following.followed_cases import Case, side_by_side

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


CONDITIONS: dict[str, Case] = {
    "a check": (PLAIN, (A_CHECK,)),
    "not null": (PLAIN, (("update plain set b = 1 where b is null",), ("alter table plain alter b set not null",))),
    "a condition of a domain": (
        PLAIN,
        (
            ("update plain set d = 'good'",),
            ("alter domain word add constraint fine check (value <> 'bad')",),
        ),
    ),
    "a new column that is filled": (
        PLAIN,
        (
            ("alter table plain add e int",),
            ("update plain set e = id",),
            ("alter table plain alter e set not null",),
        ),
    ),
    "rows that went": (
        PLAIN,
        (("delete from plain where a < 0",), ("alter table plain add constraint c check (a > 0)",)),
    ),
    "a table without a key": (
        KEYLESS,
        (
            ("delete from keyless where a < 0", "insert into keyless values (1, 'b')"),
            ("alter table keyless add check (a > 0)",),
        ),
    ),
    "a generated column and an identity": (MADE, GENERATED),
    "a partition that takes rows of the default one": (
        ROOT,
        (
            ("delete from root where id between 100 and 109",),
            (
                "create table moved partition of root for values from (100) to (110)",
                "insert into root values (100, 'again')",
            ),
        ),
    ),
}


def test_a_moment_comes_back_though_older_rows_break_what_came_later(
    archive: Followed, new_database: NewDatabase
) -> None:
    made, since = side_by_side(CONDITIONS)
    archive.make(made)
    archive.back_up()
    change(archive, *since)

    for at in ("latest", f"lsn:{archive.moments[-1][0]}"):
        target = new_database()
        assert not archive.restore(at, target)["stale"]
        assert rows(target) == rows(archive.address)
        assert nothing_is_left(target)


@pytest.mark.exhaustive
def test_conditions_that_may_have_gone_before_the_moment_give_way_to_its_rows(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(
        (
            "alter table plain add constraint had check (id < 10), alter column d set not null",
            "alter table plain add foreign key (b) references plain",
            "alter table root add constraint most check (id < 500)",
        )
    )
    followed.back_up()
    followed.run("alter table plain drop constraint had, alter column d drop not null, drop constraint plain_b_fkey")
    followed.run("alter table root drop constraint most")
    followed.run("insert into root values (500, 'w')")
    at = followed.run("insert into plain values (11, 1, 77, null)")
    expected = rows(followed.address)
    followed.run("insert into plain values (12, 1, 1, 'good')")
    followed.back_up()

    for schema in ("auto", "later"):
        target = new_database()
        said = followed.restore(f"lsn:{at}", target, schema=schema)
        assert rows(target) == expected
        if schema == "later":
            assert not left_out(said)
        else:
            assert left_out(said) == {
                "CHECK had of public.plain": 'alter table public.plain add constraint "had" CHECK ((id < 10));',
                "NOT NULL of d of public.plain": (
                    'alter table public.plain add constraint "plain_d_not_null" NOT NULL d;'
                ),
                "CHECK most of public.root": 'alter table public.root add constraint "most" CHECK ((id < 500));',
                **{key: value for key, value in left_out(said).items() if "fkey" in key},
            }
            assert any("plain_b_fkey" in each for each in left_out(said))


@pytest.mark.exhaustive
def test_a_bound_that_may_have_come_later_gives_way_with_what_is_attached(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(("create table others partition of root for values from (200) to (300)",))
    followed.back_up()
    at = followed.run("insert into root values (500, 'w')")
    expected = rows(followed.address)
    followed.run("delete from root where id = 500")
    followed.run("create table moved partition of root for values from (500) to (600)")
    followed.run("insert into plain values (12, 1, 1, 'good')")
    followed.back_up()
    target = new_database()

    said = followed.restore(f"lsn:{at}", target, schema="later")

    assert rows(target) == {**expected, "public.moved": []}
    assert left_out(said).keys() == {"partition public.rest of public.root", "attached index public.rest_pkey"}
    with connect(target) as session:
        session.execute("delete from public.rest where id = 500")
        for each in left_out(said).values():
            session.execute(each.encode())
