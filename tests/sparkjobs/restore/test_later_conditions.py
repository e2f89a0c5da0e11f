"""Restores to a moment at which tables have conditions that the rows of the last full backup break."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import RefusedError, ReportedError
from holdfast.sources.postgresql.catalog.table import Table
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.restore.rows import load, staging_tables
from tests.support.followed import Followed, known, open_followed
from tests.support.followed_cases import Case, chosen, schemas, together_and_alone

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

PLAIN = (
    "create domain word as text",
    "create table plain (id int primary key, a int, b int, d word)",
    "insert into plain values (1, -1, null, 'bad'), (2, 2, 2, 'good'), (3, -3, 3, 'good')",
)
KEYLESS = (
    "create type \"kind of\" as enum ('a', 'b')",
    'create table keyless (a int, k "kind of")',
    "alter table keyless replica identity full",
    "insert into keyless values (-1, 'a'), (-1, 'b'), (5, null)",
)
MADE = (
    'create table made (id int generated always as identity primary key, n int, "The Name" text collate "C", '
    'upper text generated always as (upper("The Name")) stored)',
    "insert into made (n, \"The Name\") values (-7, 'x'), (8, 'y')",
)
ROOT = (
    "create table root (id int primary key, w text) partition by range (id)",
    "create table low partition of root for values from (0) to (10)",
    "create table rest partition of root default",
    "insert into root select i, 'w' from generate_series(1, 120) i",
)
BEGINNING = (*PLAIN, *KEYLESS, *MADE, *ROOT)

A_CHECK = ("update plain set a = 1 where a < 0", "alter table plain add check (a > 0)")
GENERATED = (
    ("update made set n = 0, \"The Name\" = 'moved' where n < 0",),
    ("alter table made add check (n >= 0)",),
)

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


@pytest.fixture
def archive(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database without tables, and its archive."""
    with open_followed(address, tmp_path / "archive") as opened:
        yield opened


@pytest.fixture
def followed(archive: Followed) -> Followed:
    archive.make((BEGINNING,))
    archive.back_up()
    return archive


def rows(address: Address) -> dict[str, list[str]]:
    """Return the rows of every table, by its name."""
    with connect(address) as session:
        found = known(session).values()
    return {table.label: sorted(map(str, (list(row.values()) for row in table.rows))) for table in found}


def change(followed: Followed, *transactions: Sequence[str]) -> None:
    """Run transactions and back them up."""
    for statements in transactions:
        followed.run(*statements)
    followed.back_up()


def nothing_is_left(address: Address) -> bool:
    with connect(address) as session:
        return session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)


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


def left_out(said: dict[str, Any]) -> dict[str, str]:
    return {each["object"]: each["statement"] for each in said["not_restored"]}


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


@pytest.mark.parametrize("which", together_and_alone(OLDER))
def test_what_older_rows_break_is_left_out_and_can_be_made_when_they_are_mended(
    archive: Followed, new_database: NewDatabase, which: str
) -> None:
    cases = {name: ((*PLAIN, *made), since) for name, (made, since, _) in OLDER.items()}
    made, since = chosen(cases, which)
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
    for name, schema in schemas(cases, which).items():
        assert found.keys() >= {each.replace("public.", f"{schema}.") for each in OLDER[name][2]}
    with connect(target) as session:
        for name in stale:
            session.execute(f"delete from {name}".encode())
        for each in found.values():
            session.execute(each.encode())


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


@pytest.mark.exhaustive
def test_what_is_aside_goes_with_a_restore_of_tables_that_failed(followed: Followed, new_database: NewDatabase) -> None:
    fine = "create or replace function public.fine(n int) returns boolean language sql as"
    change(
        followed,
        (f"{fine} 'select true'", "alter table keyless add constraint later check (fine(a))"),
        (f"{fine} 'select n > 0'", "delete from keyless where a > 0"),
    )
    target = new_database()

    with pytest.raises(ReportedError, match=r"dropped again"):
        followed.restore("latest", target, "public.keyless", strict=True)

    assert nothing_is_left(target)
    with connect(target) as session:
        assert session.execute("select to_regtype('public.\"kind of\"')").fetchone() == (None,)


class EndedError(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize(
    "when",
    [
        pytest.param((("set_aside", "after"), ("bring_back", "before")), id="all aside"),
        pytest.param((("set_aside", "before"), ("bring_back", "after")), id="none", marks=pytest.mark.exhaustive),
    ],
)
def test_a_restore_that_ended_goes_on_with_rows_that_are_aside(
    followed: Followed,
    new_database: NewDatabase,
    monkeypatch: pytest.MonkeyPatch,
    when: Sequence[tuple[str, str]],
) -> None:
    change(followed, A_CHECK, *GENERATED)
    for step, moment in when:
        ends_and_goes_on(followed, new_database(), monkeypatch, step, moment)


def ends_and_goes_on(
    followed: Followed, target: Address, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    does = getattr(staging_tables, step)

    def ended(*given: object, **options: object) -> None:
        if moment == "after":
            does(*given, **options)
        raise EndedError

    with monkeypatch.context() as patched:
        patched.setattr(staging_tables, step, ended)
        with pytest.raises(Exception, match="EndedError"):
            followed.restore("latest", target)

    followed.restore("latest", target)
    assert rows(target) == rows(followed.address), (step, moment)
    assert nothing_is_left(target)


@pytest.mark.exhaustive
def test_who_is_late_loads_no_file_into_a_table_whose_rows_are_aside(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(followed, A_CHECK)
    target = new_database()
    loads: list[tuple[Table, str]] = []
    does = load.load_file

    def noted(session: object, table: Table, file: str, batches: object, **options: str) -> int:
        loads.append((table, file))
        return does(session, table, file, batches, **options)  # type: ignore[arg-type]

    def late(session: object, table: Table, **options: str) -> None:
        again = [(each, file) for each, file in loads if each.table_schema == "public" and each.oid == table.oid]
        with connect(target) as other:
            assert [does(other, each, file, iter(())) for each, file in again] == [0] * len(again)
        assert again
        loose_bring_back(session, table, **options)  # type: ignore[arg-type]

    loose_bring_back = staging_tables.bring_back
    monkeypatch.setattr("sparkjobs.tasks.restore_files.load_file", noted)
    monkeypatch.setattr(staging_tables, "bring_back", late)

    followed.restore("latest", target)

    assert rows(target) == rows(followed.address)
