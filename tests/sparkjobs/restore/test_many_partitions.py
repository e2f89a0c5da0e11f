"""A table with more partitions than the server can lock at once comes back, and says what has no statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import open_followed
from tests.support.servers.postgres import create_database
from tests.support.servers.versions import running

pytestmark = pytest.mark.service

PARTITIONS = 100


@pytest.mark.exhaustive
def test_each_partition_has_statistics_of_its_own_and_the_root_is_named(tmp_path: Path) -> None:
    few_locks = {"max_locks_per_transaction": "10", "max_connections": "30", "max_wal_senders": "5"}
    with running(PostgresServer(settings=few_locks)) as server:
        source, target = create_database(server), create_database(server)
        with open_followed(source, tmp_path / "archive") as followed:
            followed.make(
                (
                    "create table m (id int primary key, t text) partition by range (id)",
                    *(
                        f"create table m_{n} partition of m for values from ({n * 10}) to ({n * 10 + 10})"
                        for n in range(PARTITIONS)
                    ),
                    "insert into m select i, 'new' from generate_series(0, 999) i",
                )
            )
            followed.back_up("changes")
            followed.run("update m set t = 'changed' where id % 7 = 0")
            followed.back_up()
            done = followed.restore("latest", target)
        assert done["equal"]
        left = [each for each in done["not_restored"] if each["object"].startswith("statistics of")]
        assert [each["statement"] for each in left] == ['analyze "public"."m";']
        with connect(target) as session:
            counted = session.execute(
                "select count(*) from pg_class where relname like 'm\\_%' and relkind = 'r' and reltuples = 10"
            )
            assert counted.fetchone() == (PARTITIONS,)
