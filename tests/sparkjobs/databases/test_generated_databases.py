"""Databases that nobody thought of: each comes back, with every object, row and value as PostgreSQL itself says them.

A generator draws the script of a whole database. Jobs run in this process, without Spark, so that one takes a
fraction of a second.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given

from holdfast.archive import Archive, locks
from holdfast.operations import job_process
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.postgresql.snapshot.table_reader import cut
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from sparkjobs import backup, restore
from sparkjobs.driver import snapshot_reader
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.generator.databases import databases
from tests.support.generator.trials import many, same_few, tiered
from tests.support.jobs.inline_jobs import job_without_spark
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

PIECE_BYTES = 64 << 10
"""Small, so that tables of a few hundred rows have several pieces."""

_numbers = itertools.count(1)


@pytest.fixture
def there_and_back(
    plain_postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Makes the database of a script, backs it up, restores it into another one and compares the two."""
    monkeypatch.setattr(snapshot_reader, "cut", partial(cut, piece_bytes=PIECE_BYTES))

    def check(script: str) -> None:
        store = Archive.create(open_store(str(tmp_path / f"archive-{next(_numbers)}")), name="shop").store
        with passing_database(plain_postgres) as source, passing_database(plain_postgres) as target:
            with connect(source) as session:
                session.execute(script.encode())
            with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
                with hold_snapshot(source) as seen:
                    snapshot = {job_process.SNAPSHOT_VARIABLE: seen.snapshot.to_json()}
                    with job_without_spark(store, held, "there", "source", source, more=snapshot) as job:
                        assert backup.back_up(job, "shop")["not_included"] == []
                with job_without_spark(store, held, "back", "target", target) as job:
                    assert restore.restore(job, RestoreRequest())["equal"]
            assert schema_of(target) == schema_of(source)
            assert rows(target) == rows(source)
            assert hashes(source) == archived_hashes(store)

    return check


_RELATIONS = """
select quote_ident(nspname) || '.' || quote_ident(relname),
  case relkind when 'r' then 't' else '(last_value, is_called)' end
from pg_class c join pg_namespace n on n.oid = relnamespace
where relkind in ('r', 'S') and nspname !~ '^(pg_|information_schema$)'
"""


def rows(address: Address) -> dict[str, Counter[str]]:
    """Return how often each row, as text, is in each table itself; and where each sequence stands."""
    with connect(address) as session:
        return {
            name: Counter(row for (row,) in session.execute(f"select ({row})::text from only {name} t".encode()))
            for name, row in session.execute(_RELATIONS).fetchall()
        }


def archived_hashes(store: ObjectStore) -> dict[str, str]:
    (block,) = Archive.open(store).commit(1).add
    return {table.label: table.digest for table in block.tables}


@same_few(tiered(4, 6))
@given(script=databases())
def test_a_database_that_nobody_thought_of_comes_back_as_it_was(
    there_and_back: Callable[[str], None], script: str
) -> None:
    there_and_back(script)


@pytest.mark.exhaustive
@many(1000)
@given(script=databases())
def test_many_databases_that_nobody_thought_of_come_back_as_they_were(
    there_and_back: Callable[[str], None], script: str
) -> None:
    there_and_back(script)
