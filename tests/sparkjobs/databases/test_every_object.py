"""A database with every kind of object comes back as it was, by PostgreSQL's own account."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.support.databases import every_object
from tests.support.databases.roundtrips import schema_of
from tests.support.jobs.inline_jobs import RunJob

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("archive_key")]

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
def source(plain_postgres: PostgresServer, create_database: CreateDatabase) -> Address:
    every_object.create_roles(Address(plain_postgres.url(), plain_postgres.password))
    return create_database(*every_object.parts(180000))


def alone(address: Address) -> list[str]:
    with connect(address) as session:
        return [row[0] for row in session.execute(ALONE)]


def test_every_object_and_every_row_comes_back(
    source: Address, create_database: CreateDatabase, run_backup: RunJob, run_restore: RunJob
) -> None:
    comes_back(source, create_database, run_backup, run_restore)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("on_spark")
def test_every_object_and_every_row_comes_back_by_spark(
    source: Address, create_database: CreateDatabase, run_backup: RunJob, run_restore: RunJob
) -> None:
    comes_back(source, create_database, run_backup, run_restore)


def comes_back(source: Address, create_database: CreateDatabase, run_backup: RunJob, run_restore: RunJob) -> None:
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
