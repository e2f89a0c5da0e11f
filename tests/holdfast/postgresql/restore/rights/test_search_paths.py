"""Functions that conditions ask have a search_path while rows come in, and none of ours afterwards."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rights.search_paths import (
    asked_by,
    give_back,
    lend_by,
    lend_search_paths,
    path_of,
    take_back,
)

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


@pytest.mark.parametrize(
    ("schema", "table", "path"),
    [("lib", "shop", '"lib", "public", "shop"'), ("public", "a b", '"public", "a b"'), ("x", "x", '"x", "public"')],
)
def test_a_path_has_each_schema_once(schema: str, table: str, path: str) -> None:
    assert path_of(schema, table) == path


PATH = '"lib", "public", "shop"'


@pytest.mark.service
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


@pytest.mark.service
def test_of_a_target_with_other_things_only_what_the_restore_made_is_asked_for(session: Session) -> None:
    with session.transaction(), ledger.noted(session):
        session.execute("create function lib.ours(int) returns bool language sql immutable as 'select true'")
        session.execute("create table shop.new (id int check (lib.ours(id) and lib.positive(id)))")
    [found] = asked_by(session, [table for table in read_tables(session) if table.name == "new"]).values()
    assert found == [("lib.ours(integer)", PATH)]


@pytest.mark.service
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


@pytest.mark.service
def test_what_is_taken_back_was_never_lent(session: Session) -> None:
    lend_search_paths(session, [("lib.positive(integer)", PATH)])
    take_back(session, ["lib.positive(integer)", "lib.hardened(integer)"])
    assert paths(session) == {"hardened": ["search_path=pg_catalog"]}
    assert give_back(session) == ()
