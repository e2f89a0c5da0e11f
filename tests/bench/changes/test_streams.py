"""The ways to read a stream of changes, on a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.changes import streams
from bench.changes.streams import MIXED, ChangeStream
from bench.support import workload
from bench.support.holdfast_command import HoldfastCommand
from bench.support.processes import ProgramError
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect


@pytest.mark.exhaustive
@pytest.mark.service
def test_every_way_reads_the_same_changes_and_the_slot_is_gone_afterwards(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_ROWS_AT_ONCE", 300)
    with ChangeStream(postgres, HoldfastCommand(postgres), tmp_path / "archive", 1000, mixed=True) as stream:
        times: dict[str, float] = {}
        for way in stream.ways:
            times |= way(tmp_path)
        assert set(times) == set(stream.measured)
        assert min(times.values()) > 0
        log, rows = stream.measured[streams.JOB + MIXED]
        assert rows == 500
        assert log > 1000 * 100
        for way in (stream.holdfast, stream.read, stream.bare, stream.receive):  # they were let go of
            with pytest.raises(ProgramError, match="brought"):
                way(tmp_path)
    with connect(stream._address.at_database("postgres")) as session:
        left = "select count(*) from pg_replication_slots where database like 'bench%'"
        assert session.execute(left.encode()).fetchone() == (0,)


def test_what_is_compared_is_measured() -> None:
    names = {name + suffix for suffix in ("", MIXED) for name in (streams.JOB, streams.READ, streams.BARE)}
    assert names <= {each.ours for each in streams.COMPARISONS} | {each.theirs for each in streams.COMPARISONS}
    assert workload.TABLE == "public.sales"
