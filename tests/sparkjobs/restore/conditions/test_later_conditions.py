"""Restores to a moment at which tables have conditions that the rows of the last full backup break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.common.errors import ReportedError
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
from tests.support.following.followed_cases import Case, chosen, together_and_alone

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


@pytest.mark.parametrize("which", together_and_alone(CONDITIONS))
def test_a_moment_comes_back_though_older_rows_break_what_came_later(
    archive: Followed, new_database: NewDatabase, which: str
) -> None:
    made, since = chosen(CONDITIONS, which)
    archive.make(made)
    archive.back_up()
    change(archive, *since)

    for at in ("latest", f"lsn:{archive.moments[-1][0]}"):
        target = new_database()
        assert not archive.restore(at, target)["stale"]
        assert rows(target) == rows(archive.address)
        assert nothing_is_left(target)


@pytest.mark.exhaustive
def test_all_conditions_at_once_come_back_beside_other_tables(followed: Followed, new_database: NewDatabase) -> None:
    names = ("a check", "not null", "a table without a key")
    change(followed, *(each for name in names for each in CONDITIONS[name][1]))
    target = new_database()
    with connect(target) as session:
        session.execute("create table public.mine (id int)")

    followed.restore("latest", target, "public.plain", "public.keyless")

    assert rows(target) == {
        "public.mine": [],
        **{name: rows(followed.address)[name] for name in ("public.plain", "public.keyless")},
    }


@pytest.mark.exhaustive
def test_rows_that_break_a_condition_and_never_change_end_a_strict_restore_with_its_name(
    followed: Followed, new_database: NewDatabase
) -> None:
    fine = "create or replace function public.fine(n int) returns boolean language sql as"
    change(
        followed,
        (f"{fine} 'select true'", "alter table plain add constraint later check (fine(a))"),
        (f"{fine} 'select n > 0'", "update plain set b = 7 where a > 0"),
    )

    with pytest.raises(ReportedError, match=r'public.plain does not take its rows: .*"later"'):
        followed.restore("latest", new_database(), strict=True)

    target = new_database()
    assert left_out(followed.restore("latest", target)) == {
        "CHECK later of public.plain": 'alter table public.plain validate constraint "later";'
    }
    assert rows(target) == rows(followed.address)


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
def test_keys_that_may_have_gone_before_the_moment_end_a_strict_restore_with_the_schema_to_take(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(("alter table plain add constraint had unique (a)",))
    followed.back_up()
    followed.run("alter table plain drop constraint had")
    at = followed.run("insert into plain values (11, 2, 1, 'good')")
    followed.run("insert into plain values (12, 2, 1, 'good')")
    followed.back_up()

    with pytest.raises(ReportedError, match=r"had.*it is not known when.*--schema later takes the other one"):
        followed.restore(f"lsn:{at}", new_database(), strict=True)

    assert left_out(followed.restore(f"lsn:{at}", new_database())).keys() == {"constraint public.plain had"}
    assert not left_out(followed.restore(f"lsn:{at}", new_database(), schema="later", strict=True))


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


@pytest.mark.exhaustive
def test_conditions_of_tables_that_are_not_followed_give_way_to_their_older_rows(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(
        (
            "create table bare (a int, b int)",
            "insert into bare values (-1, null), (2, 2)",
            "create table parted (a int, b int) partition by list (b)",
            "create table parted_1 partition of parted for values in (1)",
            "create table parted_2 partition of parted for values in (2)",
            "insert into parted values (null, 1), (null, 2)",
        )
    )
    followed.back_up("full")
    older = rows(followed.address)
    change(
        followed,
        ("update bare set a = 1, b = 1", "update parted set a = 1"),
        ("alter table bare alter b set not null, add constraint more check (a > 0)",),
        ("alter table parted alter a set not null",),
    )
    target = new_database()

    said = followed.restore("latest", target)

    assert {each["table"] for each in said["stale"]} == {"public.bare", "public.parted_1", "public.parted_2"}
    assert left_out(said).keys() == {
        "NOT NULL of b of public.bare",
        "CHECK more of public.bare",
        "NOT NULL of a of public.parted",
    }
    assert rows(target) == older
