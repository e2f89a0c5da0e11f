"""The proof of the demo sees equal databases as equal, and every kind of difference."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from demo import prove

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.postgresql.connection.server import PostgresServer

pytestmark = pytest.mark.service


def run(server: PostgresServer, program: str, conninfo: str, *options: str) -> None:
    parameters = conninfo_to_dict(conninfo)
    environment = {**os.environ, "PGPASSWORD": str(parameters.pop("password"))}
    target = make_conninfo("", **parameters)
    subprocess.run([server.programs / program, "--dbname", target, *options], env=environment, check=True)


def test_proof_shares_no_code_with_what_it_judges() -> None:
    tree = ast.parse(Path(prove.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}

    assert not [name for name in imported if str(name).partition(".")[0] in {"holdfast", "locking", "sparkjobs"}]


def test_dump_and_restore_give_an_equal_database(server: PostgresServer, original: str, tmp_path: Path) -> None:
    restored = make_conninfo(original, dbname="restored")
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("create database restored")
    run(server, "pg_dump", original, "--format=custom", f"--file={tmp_path / 'dump'}")
    run(server, "pg_restore", restored, "--exit-on-error", str(tmp_path / "dump"))

    before, after = prove.fingerprint(original), prove.fingerprint(restored)

    assert before.rows > 5_000
    assert prove.compare(before, after) == []


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (
            "update shop.every_type set a_double = '-0' where a_double = '0' and id = 2",
            "table shop.every_type has as many rows but other values in them",
        ),
        (
            "update shop.every_type set a_numeric = 1.0 where a_numeric = 1.000",
            "table shop.every_type has as many rows but other values in them",
        ),
        (
            "update shop.every_type set a_varchar = null where a_varchar = ''",
            "table shop.every_type has as many rows but other values in them",
        ),
        (
            "update hr.employee set salary = salary + 0.01 where id = 7",
            "table hr.employee has as many rows but other values in them",
        ),
        (
            "insert into shop.visit select * from shop.visit limit 1",
            'table shop.visit has 1241 rows instead of 1240',
        ),
        (
            'delete from "Order\'s Archive"."Lines ""before"" 2023" where "Line No." = 3',
            'table "Order\'s Archive"."Lines ""before"" 2023" has 399 rows instead of 400',
        ),
        (
            "refresh materialized view shop.sales_by_product with no data",
            "table shop.sales_by_product has 0 rows instead of 100",
        ),
        ("drop table shop.cart", "table shop.cart is missing"),
        ("create table hr.extra ()", "table hr.extra was not there before"),
        (
            "select nextval('hr.countdown')",
            "sequence hr.countdown stands at -43 handed out instead of -42 handed out",
        ),
        (
            "select nextval('shop.never_used')",
            "sequence shop.never_used stands at -5 handed out instead of -5 not yet handed out",
        ),
        (
            "drop index shop.order_open",
            "schema: -CREATE INDEX order_open ON ONLY shop.\"order\" USING btree (customer_id) "
            "WHERE (status = 'open'::shop.order_status);",
        ),
        (
            "alter table hr.employee disable row level security",
            "schema: -ALTER TABLE hr.employee ENABLE ROW LEVEL SECURITY;",
        ),
    ],
)  # fmt: skip
def test_every_difference_is_noticed(original: str, make_copy: Callable[[], str], change: str, noticed: str) -> None:
    changed = make_copy()
    with psycopg.connect(changed) as connection:
        connection.execute(change.encode())

    assert noticed in prove.compare(prove.fingerprint(original), prove.fingerprint(changed))


def test_order_of_rows_makes_no_difference(original: str, make_copy: Callable[[], str]) -> None:
    rewritten = make_copy()
    with psycopg.connect(rewritten, autocommit=True) as connection:
        connection.execute("cluster shop.customer using customer_email")
        connection.execute("alter table shop.customer set without cluster")

    assert prove.compare(prove.fingerprint(original), prove.fingerprint(rewritten)) == []


def test_settings_of_the_database_make_no_difference(original: str, make_copy: Callable[[], str]) -> None:
    set_up = make_copy()
    with psycopg.connect(set_up, autocommit=True) as connection:
        name = connection.info.dbname
        for setting in ("datestyle = 'German'", "timezone = 'Asia/Kathmandu'", "extra_float_digits = -15"):
            connection.execute(f"alter database {name} set {setting}".encode())

    assert prove.compare(prove.fingerprint(original), prove.fingerprint(set_up)) == []
