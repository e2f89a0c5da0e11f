"""Archives with the same changes in few and in many blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.changes.to_moments import PLAIN, Moments, in_blocks
from bench.support.holdfast_command import HoldfastCommand
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect


@pytest.mark.exhaustive
@pytest.mark.service
def test_the_same_changes_are_archived_in_few_and_in_many_blocks(postgres: PostgresServer, tmp_path: Path) -> None:
    command = HoldfastCommand(postgres)
    with Moments(postgres, command, tmp_path, tables=2, rows=800, blocks=(1, 8)) as moments:
        few, many = moments.blocks[in_blocks(1)], moments.blocks[in_blocks(8)]
        assert few < many  # how many depends on what else the server logs meanwhile
        assert moments.blocks[PLAIN] == 0
        assert len(moments.ways) == 3
        assert next(iter(moments.ways[1]().values())) > 0
    with connect(moments._address.at_database("postgres")) as session:
        left = "select count(*) from pg_replication_slots where database like 'bench%'"
        assert session.execute(left.encode()).fetchone() == (0,)
