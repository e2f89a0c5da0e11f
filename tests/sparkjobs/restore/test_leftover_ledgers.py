"""What a restore that failed has left in a database is never backed up with it, nor restored from an older archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.postgresql.catalog import catalog
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import dump
from holdfast.postgresql.restore.plan import ledger
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]

SHOP = (
    "create table orders (id int generated always as identity primary key)",
    "insert into orders select from generate_series(1, 3)",
    "create table holdfast_restore (id int)",
    "insert into holdfast_restore values (1)",
)
"""With a table of the user's own that is called as our schema is."""


def leave_a_ledger(address: Address) -> None:
    """Do what a restore does that fails at its end, by a role that nobody else has."""
    with connect(address) as session:
        session.execute("drop role if exists restorer")
        session.execute("create role restorer superuser")
        session.execute("set role restorer")
        ledger.create_ledger(session, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        session.execute("create table holdfast_restore.rows_1 (id int primary key, orders public.orders)")
        session.execute("insert into holdfast_restore.rows_1 values (1, null)")


def relations(address: Address) -> list[str]:
    with connect(address) as session:
        query = "select relname::text from pg_class where relnamespace = 'public'::regnamespace order by 1"
        assert session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)
        return [name for (name,) in session.execute(query)]


def back_and_forth(run_restore: RunJob, target: Address, *arguments: str) -> dict[str, Any]:
    code, record = run_restore(target, *arguments)
    assert record.result is not None, record.error
    assert code == 0
    assert "holdfast_restore" in relations(target)
    return record.result


def test_a_leftover_schema_is_named_and_no_part_of_a_backup(
    create_database: CreateDatabase, run_backup: RunJob, run_restore: RunJob
) -> None:
    source = create_database(*SHOP)
    leave_a_ledger(source)
    code, record = run_backup(source)
    assert record.result is not None
    assert (code, record.result["rows"]) == (0, 4)
    (named,) = record.result["not_included"]
    assert named.startswith("schema holdfast_restore: it is what a restore noted that has not come to its end")
    target = create_database("alter role restorer rename to elsewhere")
    assert back_and_forth(run_restore, target)["not_restored"] == []
    with connect(source) as session:
        session.execute("drop owned by elsewhere cascade; drop role elsewhere")


def test_a_schema_of_the_users_own_that_is_called_so_is_to_be_renamed(
    create_database: CreateDatabase, run_backup: RunJob
) -> None:
    code, record = run_backup(
        create_database("create schema holdfast_restore", "create table holdfast_restore.t (a int)")
    )
    assert record.result is not None
    assert (code, record.result["not_included"]) == (
        0,
        ["schema holdfast_restore: restores need this name for themselves; rename the schema, and it is backed up"],
    )


@pytest.mark.exhaustive
def test_an_archive_in_which_there_is_one_is_restored_without_it(
    create_database: CreateDatabase, run_backup: RunJob, run_restore: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create_database(*SHOP)
    leave_a_ledger(source)
    with monkeypatch.context() as older:
        for name in ("_TABLES", "_SEQUENCES", "_ROLES", "_LEFT_OUT"):
            older.setattr(catalog, name, getattr(catalog, name).replace("holdfast_restore", "none"))
        older.setattr(dump, "LEDGER", "none")
        code, record = run_backup(source)
    assert record.result is not None
    assert (code, record.result["rows"] > 4) == (0, True)
    (left,) = back_and_forth(run_restore, create_database())["not_restored"]
    assert left["object"] == "schema holdfast_restore"
    back_and_forth(run_restore, create_database(), "--tables", "public.*")
    back_and_forth(run_restore, create_database("create schema mine"), "--map", "public=public")
