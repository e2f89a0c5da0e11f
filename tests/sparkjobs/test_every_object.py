"""A database with every kind of object comes back as it was, by PostgreSQL's own account."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.programs import need
from holdfast.sources.postgresql.session import connect
from tests.support.jobs import RunJob

pytestmark = pytest.mark.service

SQL = Path(__file__).parents[1] / "fixtures" / "postgresql"
CreateDatabase = Callable[..., Address]

ALONE = """
select 'sequence ' || format('%I.%I', schemaname, sequencename) || ' ' || coalesce(last_value::text, 'new')
  from pg_sequences
union all select 'materialised view ' || matviewname || ' ' || ispopulated from pg_matviews
union all select 'sum ' || total from public."a first one"
union all select 'rows of parent ' || count(*) from only public.parent
union all select 'rows with children ' || count(*) from public.parent
order by 1
"""
"""What a dump of the schema does not tell."""


@pytest.fixture(scope="module")
def source(create_database: CreateDatabase) -> Address:
    parts = [
        part for name in ("every_object.sql", "every_object_18.sql") for part in _parts((SQL / name).read_text("utf-8"))
    ]
    return create_database(*parts)


def _parts(text: str) -> list[str]:
    return text.split("\n-- (commit)\n")


def schema_of(address: Address) -> list[str]:
    """What PostgreSQL's own pg_dump says of a database, line by line."""
    options = ["--schema-only", "--restrict-key=same", "--dbname", address.url]
    program = need("pg_dump", at_least=18)
    done = subprocess.run(
        [program, *options], env=address.environment(), capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout.splitlines()


def alone(address: Address) -> list[str]:
    with connect(address) as session:
        return [row[0] for row in session.execute(ALONE)]


def test_every_object_and_every_row_comes_back(
    source: Address, create_database: CreateDatabase, run_backup: RunJob, run_restore: RunJob
) -> None:
    code, backup = run_backup(source)
    assert backup.result is not None, backup.error
    assert (code, backup.result["whole"]) == (0, True)
    target = create_database()
    code, restore = run_restore(target)
    assert restore.result is not None, restore.error
    assert (code, restore.result["equal"]) == (0, True)
    assert restore.result["rows"] == backup.result["rows"] > 2000
    assert schema_of(target) == schema_of(source)
    assert alone(target) == alone(source)
