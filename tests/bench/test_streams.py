"""The ways to read a stream of changes, on a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import streams, workload
from bench.processes import ProgramError
from bench.streams import ChangeStream
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import connect


@pytest.mark.service
@pytest.mark.parametrize("mixed", [False, True])
def test_every_way_reads_the_same_changes_and_the_slot_is_gone_afterwards(
    postgres: PostgresServer, tmp_path: Path, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_ROWS_AT_ONCE", 300)
    with ChangeStream(postgres, 1000, mixed=mixed) as stream:
        times: dict[str, float] = {}
        for _ in range(2):
            for way in stream.ways:
                times |= way(tmp_path)
        assert set(times) == set(stream.measured)
        assert min(times.values()) > 0
        log, rows = stream.measured[streams.JOB + (streams.MIXED if mixed else "")]
        assert rows == (500 if mixed else 1000)
        assert log > 1000 * 100
        stream._rows += 10_000
        for way in (stream.holdfast, stream.bare, stream.receive):
            with pytest.raises(ProgramError, match="brought"):
                way(tmp_path)
    with connect(stream._address.at_database("postgres")) as session:
        left = "select count(*) from pg_replication_slots where slot_name like 'bench%'"
        assert session.execute(left.encode()).fetchone() == (0,)


def test_what_is_compared_is_measured() -> None:
    names = {name + suffix for suffix in ("", streams.MIXED) for name in (streams.JOB, streams.BARE)}
    assert names <= {each.ours for each in streams.COMPARISONS} | {each.theirs for each in streams.COMPARISONS}
    assert workload.TABLE == "public.sales"
