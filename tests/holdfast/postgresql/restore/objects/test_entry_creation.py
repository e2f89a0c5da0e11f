"""One entry as the target takes it: without storage parameters that its server does not know."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.postgresql.restore.objects.entry_creation import create, without_parameter
from holdfast.postgresql.restore.plan.plan import RestorePlan
from tests.support.databases.planned_shop import entry

UNKNOWN = 'unrecognized parameter "pg_attver"'
COLUMN = "ALTER TABLE ONLY public.t ALTER COLUMN {} SET ({});"


@pytest.mark.parametrize(
    ("sql", "less", "message"),
    [
        (
            f"CREATE TABLE public.t (a int, b int);\n{COLUMN.format('a', 'pg_attver=1')}\n"
            f"{COLUMN.format('b', 'n_distinct=5, pg_attver=2')}",
            f"CREATE TABLE public.t (a int, b int);\n\n{COLUMN.format('b', 'n_distinct=5')}",
            UNKNOWN,
        ),
        ("CREATE TABLE t (a int)\nWITH (pg_attver='1');", "CREATE TABLE t (a int)\n;", UNKNOWN),
        ("CREATE TABLE t (a int) WITH (x='1', pg_attver='1');", "CREATE TABLE t (a int) WITH (x='1');", UNKNOWN),
        ("CREATE TABLE t (a int) WITH (own.x='1');", "CREATE TABLE t (a int) ;", "Parameter-Namensraum »own« …"),
        ("CREATE TABLE t (a int) WITH (fillfactor='9');", "CREATE TABLE t (a int) ;", 'value 9 for "fillfactor"'),
    ],
    ids=["columns", "alone", "among others", "a namespace, in German", "a value"],
)
def test_a_parameter_that_a_message_names_is_taken_out(sql: str, less: str, message: str) -> None:
    name, left = without_parameter(sql, message)
    assert left == less
    assert name in ("pg_attver", "own.x", "fillfactor")


@pytest.mark.parametrize("sql", ["CREATE TABLE t (a int) WITH (fillfactor='90');", "CREATE VIEW v AS SELECT 1 AS x;"])
def test_nothing_else_is(sql: str) -> None:
    assert without_parameter(sql, UNKNOWN) == ("", sql)


@pytest.mark.service
def test_a_table_is_created_without_what_the_server_does_not_know(undone: psycopg.Connection[Any]) -> None:
    made = "CREATE TABLE public.t (a int) WITH (fillfactor='90', pg_attver='7');\n"
    table = entry(1, "TABLE", "t", sql=made + COLUMN.format("a", "pg_attver=1, own=2"))
    plan = RestorePlan(tables=(), entries=(table,), sequences=(), materialized_views=(), roles=())

    left = create(undone, plan, table)

    assert [(each.what, each.statement) for each in left] == [
        ("parameter pg_attver of table public.t", ""),
        ("parameter own of table public.t", ""),
    ]
    assert undone.execute("select reloptions from pg_class where oid = 'public.t'::regclass").fetchone() == (
        ["fillfactor=90"],
    )
