"""Functions have a search_path that a table asks, and only those that the server may inline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.rights.search_paths import give_back, lend_to_read
from tests.support.databases.planned_shop import entry

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

# What the server inlines finds nothing without a path: the dump's functions were written under another one.
UNQUALIFIED = (
    "CREATE FUNCTION lib.doubled(int) RETURNS int\n    LANGUAGE sql IMMUTABLE\n    AS 'select inner_one($1) * 2';\n"
    "ALTER FUNCTION lib.doubled(int) OWNER TO postgres;"
)


@pytest.fixture
def session(undone: Session) -> Session:
    undone.execute("create schema lib; set check_function_bodies = off")
    undone.execute("create function lib.inner_one(int) returns int language sql immutable as 'select $1'")
    return undone


def table(*needs: int, key: str = "lib.doubled(id)") -> DumpEntry:
    sql = f"CREATE TABLE public.parted (id int) PARTITION BY RANGE ({key});\nALTER TABLE public.parted OWNER TO nobody;"
    return entry(1, "TABLE", "parted", needs, sql, oid=7)


def function(sql: str = UNQUALIFIED) -> DumpEntry:
    return replace(entry(2, "FUNCTION", "doubled(integer)", sql=sql), schema="lib")


def lent(session: Session, wanted: DumpEntry, *others: DumpEntry) -> list[str]:
    """Create the functions, then ask what the table needs; return the paths that were lent."""
    for each in others:
        session.execute(each.sql.encode())
    with session.transaction():
        lend_to_read(session, wanted, {each.id: each for each in (wanted, *others)})
    rows = session.execute("select s from pg_proc, unnest(proconfig) s where pronamespace = 'lib'::regnamespace")
    return [row[0] for row in rows]


def test_a_function_that_a_partition_key_inlines_is_lent_a_path_until_the_restores_end(session: Session) -> None:
    assert lent(session, table(2), function()) == ["search_path=lib, public"]
    session.execute("create table public.parted (id int) partition by range (lib.doubled(id))")
    assert [each.what for each in give_back(session)] == ["search_path of function lib.doubled(integer)"]


def test_an_operators_function_is_lent_one_too(session: Session) -> None:
    made = "CREATE OPERATOR lib.## (FUNCTION = lib.doubled, RIGHTARG = int);"
    operator = replace(entry(3, "OPERATOR", "##", [2], made), schema="lib")
    assert lent(session, table(3, key="(operator(lib.##) id)"), function(), operator) == ["search_path=lib, public"]


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        (table(2), UNQUALIFIED.replace("IMMUTABLE", "IMMUTABLE\n    SET search_path TO 'lib'")),
        (table(), UNQUALIFIED),
        (replace(table(2), kind="VIEW"), UNQUALIFIED),
    ],
    ids=["it has a path of its own", "it is not asked", "no table"],
)
def test_nothing_is_lent_where_it_would_not_help(session: Session, wanted: DumpEntry, made: str) -> None:
    assert set(lent(session, wanted, function(made))) <= {"search_path=lib"}
    assert give_back(session) == ()
