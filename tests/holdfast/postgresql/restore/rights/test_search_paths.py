"""Functions that conditions ask have a search_path while rows come in, and none of ours afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rights.search_paths import (
    asked_by,
    give_back,
    lend_by,
    lend_search_paths,
    lend_to_read,
    take_back,
)
from tests.support.databases.planned_shop import entry

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

OBJECTS = """
create schema lib; create schema shop;
create function lib.positive(int) returns bool language sql immutable as 'select $1 > 0';
create function lib.even(int) returns bool language sql immutable as 'select $1 % 2 = 0';
create function lib.hardened(int) returns bool language sql immutable set search_path = pg_catalog as 'select true';
create function lib.twice(int) returns int language sql immutable as 'select 2 * $1';
create function lib.idle(int) returns bool language sql immutable as 'select true';
create function lib.same(int, int) returns bool language sql immutable as 'select $1 = $2';
create operator lib.=== (leftarg = int, rightarg = int, function = lib.same);
create domain lib.counted as int check (lib.even(value));
create table shop.checked (id int check (lib.positive(id) and lib.hardened(id)));
create table shop.typed (id lib.counted);
create table shop.computed (id int, twice int generated always as (lib.twice(id)) stored);
create table shop.by_operator (id int check (id operator(lib.===) id));
create table shop.parted (id int) partition by range (lib.twice(id));
create table shop.parted_1 partition of shop.parted for values from (0) to (10);
create table shop.plain (id int check (id > 0));
"""


@pytest.fixture
def session(undone: Session) -> Session:
    undone.execute(OBJECTS)
    return undone


def paths(session: Session) -> dict[str, list[str]]:
    query = "select proname, proconfig from pg_proc where proconfig is not null and pronamespace = 'lib'::regnamespace"
    return dict(session.execute(query).fetchall())


PATH = '"lib", "public", "shop"'


def test_what_a_table_asks_is_found_through_conditions_types_formulas_and_keys(session: Session) -> None:
    tables = read_tables(session)
    names = {table.oid: table.name for table in tables}
    assert {names[oid]: [*found] for oid, found in asked_by(session, tables).items()} == {
        "checked": [("lib.positive(integer)", PATH)],
        "typed": [("lib.even(integer)", PATH)],
        "computed": [("lib.twice(integer)", PATH)],
        "by_operator": [("lib.same(integer,integer)", PATH)],
        "parted": [("lib.twice(integer)", PATH)],
        "parted_1": [("lib.twice(integer)", PATH)],
    }
    assert asked_by(session, ()) == {}


def test_of_a_target_with_other_things_only_what_the_restore_made_is_asked_for(session: Session) -> None:
    with session.transaction(), ledger.noted(session):
        session.execute("create function lib.ours(int) returns bool language sql immutable as 'select true'")
        session.execute("create table shop.new (id int check (lib.ours(id) and lib.positive(id)))")
    [found] = asked_by(session, [table for table in read_tables(session) if table.name == "new"]).values()
    assert found == [("lib.ours(integer)", PATH)]


def test_what_was_lent_is_given_back_once_and_told(session: Session) -> None:
    lend_search_paths(session, [("lib.positive(integer)", PATH), ("lib.even(integer)", '"lib"')])
    lend_search_paths(session, [("lib.positive(integer)", '"other"')])  # it has one
    with session.transaction():
        lend_by(session, "alter function lib.twice(integer)", PATH)
    own = {"hardened": ["search_path=pg_catalog"]}
    assert paths(session) == {
        **own,
        "positive": ["search_path=lib, public, shop"],
        "even": ["search_path=lib"],
        "twice": ["search_path=lib, public, shop"],
    }
    told = give_back(session)
    assert paths(session) == own
    assert [each.what for each in told] == [
        f"search_path of function lib.{name}(integer)" for name in ("even", "positive", "twice")
    ]
    assert told[0].reason.startswith(
        "what conditions, generated columns or partition keys ask it could be answered only with search_path = lib"
    )
    assert told[0].statement == "alter function lib.even(integer) set search_path = lib;"
    session.execute("alter function lib.even(int) set search_path = lib")
    assert give_back(session) == told
    assert "even" in paths(session)


def test_what_is_taken_back_was_never_lent(session: Session) -> None:
    lend_search_paths(session, [("lib.positive(integer)", PATH)])
    take_back(session, ["lib.positive(integer)", "lib.hardened(integer)"])
    assert paths(session) == {"hardened": ["search_path=pg_catalog"]}
    assert give_back(session) == ()


# What the server inlines finds nothing without a path: the dump's functions were written under another one.
UNQUALIFIED = (
    "CREATE FUNCTION lib.doubled(int) RETURNS int\n    LANGUAGE sql IMMUTABLE\n    AS 'select inner_one($1) * 2';\n"
    "ALTER FUNCTION lib.doubled(int) OWNER TO postgres;"
)


@pytest.fixture
def unread(undone: Session) -> Session:
    undone.execute("create schema lib; set check_function_bodies = off")
    undone.execute("create function lib.inner_one(int) returns int language sql immutable as 'select $1'")
    return undone


def table(*needs: int, key: str = "lib.doubled(id)") -> DumpEntry:
    sql = f"CREATE TABLE public.parted (id int) PARTITION BY RANGE ({key});\nALTER TABLE public.parted OWNER TO nobody;"
    return entry(1, "TABLE", "parted", needs, sql, oid=7)


def function(sql: str = UNQUALIFIED) -> DumpEntry:
    return replace(entry(2, "FUNCTION", "doubled(integer)", sql=sql), schema="lib")


def lent(unread: Session, wanted: DumpEntry, *others: DumpEntry) -> list[str]:
    """Create the functions, then ask what the table needs; return the paths that were lent."""
    for each in others:
        unread.execute(each.sql.encode())
    with unread.transaction():
        lend_to_read(unread, wanted, {each.id: each for each in (wanted, *others)})
    rows = unread.execute("select s from pg_proc, unnest(proconfig) s where pronamespace = 'lib'::regnamespace")
    return [row[0] for row in rows]


def test_a_function_that_a_partition_key_inlines_is_lent_a_path_until_the_restores_end(unread: Session) -> None:
    assert lent(unread, table(2), function()) == ["search_path=lib, public"]
    unread.execute("create table public.parted (id int) partition by range (lib.doubled(id))")
    assert [each.what for each in give_back(unread)] == ["search_path of function lib.doubled(integer)"]


def test_an_operators_function_is_lent_one_too(unread: Session) -> None:
    made = "CREATE OPERATOR lib.## (FUNCTION = lib.doubled, RIGHTARG = int);"
    operator = replace(entry(3, "OPERATOR", "##", [2], made), schema="lib")
    assert lent(unread, table(3, key="(operator(lib.##) id)"), function(), operator) == ["search_path=lib, public"]


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        (table(2), UNQUALIFIED.replace("IMMUTABLE", "IMMUTABLE\n    SET search_path TO 'lib'")),
        (table(), UNQUALIFIED),
        (replace(table(2), kind="VIEW"), UNQUALIFIED),
    ],
    ids=["it has a path of its own", "it is not asked", "no table"],
)
def test_nothing_is_lent_where_it_would_not_help(unread: Session, wanted: DumpEntry, made: str) -> None:
    assert set(lent(unread, wanted, function(made))) <= {"search_path=lib"}
    assert give_back(unread) == ()
