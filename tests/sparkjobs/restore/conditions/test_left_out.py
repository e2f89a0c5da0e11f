"""What older rows break for good is left out: conditions, keys and bounds, to be made once the rows are mended."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from holdfast.common.errors import RefusedError, ReportedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows import load
from tests.support.following.conditioned import (
    PLAIN,
    change,
    left_out,
    nothing_is_left,
    rows,
)
from tests.support.following.followed import Followed
from tests.support.following.followed_cases import schemas, side_by_side

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


OLDER: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...], set[str]]] = {
    "a unique index": (
        ("create table bare (a int, b int)", "insert into bare values (1, 1), (1, 2)"),
        (("delete from bare where b = 2",), ("create unique index only_one on bare (a)",)),
        {"index public.only_one"},
    ),
    "an index of an expression": (
        ("create table bare (a int)", "insert into bare values (0), (1)"),
        (("delete from bare where a = 0",), ("create index parts on bare ((1 / a))", "comment on index parts is 'x'")),
        {"index public.parts", "comment public.INDEX parts"},
    ),
    "an index whose rows would be too long": (
        (
            "create table bare (a text)",
            "insert into bare select string_agg(md5(i::text), '') from generate_series(1, 999) i",
        ),
        (("delete from bare",), ("create index by_a on bare (a)",)),
        {"index public.by_a"},
    ),
    "a condition that excludes": (
        ("create table bare (r int4range)", "insert into bare values ('[1,5)'), ('[2,7)')"),
        (("delete from bare where r @> 1",), ("alter table bare add constraint apart exclude using gist (r with &&)",)),
        {"constraint public.bare apart"},
    ),
    "a primary key, and what needs it": (
        (
            "create table bare (a int, b int)",
            "alter table bare replica identity nothing",
            "insert into bare values (1, 1), (1, 2)",
        ),
        (
            ("delete from bare where b = 2", "insert into bare values (2, 2), (3, 3)"),
            ("alter table bare add constraint one primary key (a)",),
            ("alter table plain add constraint to_one foreign key (id) references bare not valid",),
            ("create view grouped as select a, b from bare group by a",),
        ),
        {"constraint public.bare one", "foreign key public.plain to_one", "rule public.grouped _RETURN"},
    ),
    "a key of a partitioned table": (
        (
            "create table parted (a int, b int) partition by list (b)",
            "create table parted_1 partition of parted for values in (1)",
            "create table parted_2 partition of parted for values in (2)",
            "insert into parted values (1, 1), (1, 1), (1, 2)",
        ),
        (("truncate parted_1",), ("alter table parted add constraint one unique (a, b) deferrable",)),
        {"constraint public.parted_1 parted_1_a_b_key", "attached index public.parted_1_a_b_key"},
    ),
    "the bound of a partition": (
        (
            "create table parted (a int, b int) partition by list (b)",
            "create table parted_1 partition of parted for values in (1)",
            "create table parted_2 partition of parted for values in (2)",
            "create index on parted (a)",
            "insert into parted values (1, 1), (2, 2)",
        ),
        (
            ("alter table parted detach partition parted_1", "update parted_1 set b = 3"),
            ("alter table parted attach partition parted_1 for values in (3)",),
        ),
        {"partition public.parted_1 of public.parted", "attached index public.parted_1_a_idx"},
    ),
    "the bound of a partition of a partition, and conditions of both": (
        (
            "create table parted (a int, b int) partition by range (a)",
            "create table middle partition of parted for values from (0) to (10) partition by list (b)",
            "create table parted_1 partition of middle for values in (1)",
            "insert into parted values (1, 1), (9, 1)",
        ),
        (
            ("delete from parted where a = 9", "alter table parted detach partition middle"),
            (
                "alter table parted attach partition middle for values from (0) to (5)",
                "alter table parted add constraint more check (a <> 9)",
            ),
        ),
        {"partition public.parted_1 of public.middle", "CHECK more of public.parted"},
    ),
    "a partition beside the default one": (
        (
            "create table parted (a int, b int) partition by list (b)",
            "create table rest_of_it partition of parted default",
            "insert into parted values (1, 1), (2, 2)",
        ),
        (
            ("delete from parted where b = 2", "create table parted_2 partition of parted for values in (2)"),
            ("create function same() returns trigger language plpgsql as 'begin return new; end'",),
            ("create trigger each before insert on parted for each row execute function same()",),
            ("alter table rest_of_it disable trigger each",),
        ),
        {"partition public.rest_of_it of public.parted", "trigger public.rest_of_it each"},
    ),
    "conditions of domains": (
        (
            "create domain digit as int",
            "create table bare (a digit, b word)",
            "insert into bare values (1, 'bad'), (null, 'good')",
        ),
        (
            ("update plain set d = 'good'", "delete from bare"),
            ("alter domain word add constraint fine check (value <> 'bad')", "alter domain digit set not null"),
        ),
        {"CHECK fine of domain public.word", "NOT NULL of domain public.digit"},
    ),
    "conditions of a domain over another one": (
        (
            "create domain letters as text",
            "create domain letter as letters",
            "create table bare (a letter)",
            "insert into bare values ('ab'), (null)",
        ),
        (
            ("delete from bare",),
            ("alter domain letters add constraint one check (length(value) = 1)", "alter domain letters set not null"),
        ),
        {"CHECK one of domain public.letters", "NOT NULL of domain public.letters"},
    ),
    "a condition of what it inherits from": (
        (
            "create table above (a int)",
            "create table bare () inherits (above)",
            "insert into bare values (1), (null)",
        ),
        (("delete from bare where a is null",), ("alter table above add constraint more check (a is not null)",)),
        {"CHECK more of public.above"},
    ),
}


def test_what_older_rows_break_is_left_out_and_can_be_made_when_they_are_mended(
    archive: Followed, new_database: NewDatabase
) -> None:
    cases = {name: ((*PLAIN, *made), since) for name, (made, since, _) in OLDER.items()}
    made, since = side_by_side(cases)
    archive.make(made)
    archive.back_up()
    older = rows(archive.address)
    change(archive, *since)
    target = new_database()

    said = archive.restore("latest", target)

    stale = {each["table"] for each in said["stale"]}
    there = rows(target)
    assert {name: there[name] for name in stale} == {name: older.get(name, []) for name in stale}
    found = left_out(said)
    for name, schema in schemas(cases).items():
        assert found.keys() >= {each.replace("public.", f"{schema}.") for each in OLDER[name][2]}
    with connect(target) as session:
        for name in stale:
            session.execute(f"delete from {name}".encode())
        for each in found.values():
            session.execute(each.encode())


@pytest.mark.exhaustive
def test_what_older_rows_break_gives_way_beside_other_tables_and_goes_with_a_restore_that_fails(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_keys, of_bounds = OLDER["a primary key, and what needs it"], OLDER["the bound of a partition"]
    followed.make((of_keys[0], of_bounds[0]))
    followed.back_up("full")
    change(followed, *of_keys[1], *of_bounds[1])
    target = new_database()
    with connect(target) as session:
        session.execute("create table public.mine (id int)")

    def failed(*_: object) -> None:
        raise RefusedError("it ends here")

    with monkeypatch.context() as patched:
        patched.setattr(load, "refresh_views", failed)
        with pytest.raises(ReportedError, match=r"it ends here.*dropped again"):
            followed.restore("latest", target, "public.parted")
    assert rows(target).keys() == {"public.mine"}

    said = followed.restore("latest", target, "public.parted")
    assert left_out(said).keys() >= of_bounds[2]
    assert nothing_is_left(target)

    said = followed.restore("latest", target, "public.plain", "public.bare")
    assert left_out(said).keys() >= {each for each in of_keys[2] if "grouped" not in each}
    assert nothing_is_left(target)


@pytest.mark.exhaustive
def test_a_domain_that_the_target_had_keeps_its_condition(followed: Followed, new_database: NewDatabase) -> None:
    followed.make(("create table bare (b word)", "insert into bare values ('bad')"))
    followed.back_up("full")
    change(
        followed,
        ("update plain set d = 'good'", "delete from bare"),
        ("alter domain word add constraint fine check (value <> 'bad')",),
    )
    target = new_database()
    with connect(target) as session:
        session.execute("create domain public.word as text constraint fine check (value <> 'bad')")

    with pytest.raises(ReportedError, match="fine"):
        followed.restore("latest", target, "public.bare")

    with connect(target) as session, pytest.raises(psycopg.errors.CheckViolation):
        session.execute("select 'bad'::public.word")


def test_a_materialized_view_that_cannot_be_filled_is_left_empty_and_named(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.make(("create materialized view shares as select 6 / a as share from plain",))
    change(followed, ("update plain set a = 0 where id = 1",))
    target = new_database()

    said = followed.restore("latest", target)

    assert left_out(said) == {"rows of materialized view public.shares": 'refresh materialized view "public"."shares";'}
    assert rows(target) == rows(followed.address)
