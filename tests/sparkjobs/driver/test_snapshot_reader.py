"""What a backup may use of its source, and what it goes on from after a killed driver; test_backup.py reads."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.archive.format.document import FileRecord
from holdfast.archive.format.resume import BegunBlock, FinishedPiece
from holdfast.common.errors import UsageError
from holdfast.operations.job_process import SNAPSHOT_VARIABLE
from holdfast.postgresql.snapshot.export import Snapshot
from holdfast.postgresql.snapshot.table_reader import Piece
from sparkjobs.driver.application import Job
from sparkjobs.driver.snapshot_reader import NO_LIMITS, Limits, OpenBlock, given_snapshot
from tests.support.databases.planned_shop import CATALOG
from tests.support.databases.records import column, table

FILE = FileRecord(path="data/x", size=1, sha256="0" * 64)


def job(cores: int) -> Job:
    return cast("Job", SimpleNamespace(cores=cores))


@pytest.mark.parametrize(
    ("limits", "cores", "tasks", "pace"),
    [
        (NO_LIMITS, 4, 9, None),
        (Limits(connections=2), 4, 9, None),
        (Limits(bandwidth=100.0), 4, 9, 25.0),
        (Limits(bandwidth=100.0), 4, 2, 50.0),
        (Limits(connections=2, bandwidth=100.0), 4, 9, 50.0),
        (Limits(connections=9, bandwidth=100.0), 4, 9, 25.0),
        (Limits(bandwidth=100.0), 4, 0, 100.0),
    ],
)
def test_the_bandwidth_is_shared_by_as_many_sessions_as_read_at_a_time(
    limits: Limits, cores: int, tasks: int, pace: float | None
) -> None:
    assert limits.pace(job(cores), tasks) == pace


def piece(oid: int, number: int, first: int = 0, end: int | None = None) -> Piece:
    return Piece(table(column("id"), oid=oid), number, first, end, 10)


def finished(oid: int, number: int, first: int = 0, end: int | None = None) -> FinishedPiece:
    return FinishedPiece(table=oid, number=number, first=first, end=end, files=(FILE,))


def test_pieces_are_read_again_that_were_cut_otherwise() -> None:
    read = (finished(1, 0, 0, 10), finished(1, 1, 10), finished(2, 0))
    begun = BegunBlock(
        id="b", snapshot="{}", started_from=None, catalog=FILE, schema_dump=FILE, not_included=(), schema_version="",
        schema_digest="",
    )  # fmt: skip
    block = OpenBlock(begun, CATALOG, read)
    wanted = [piece(1, 0, 0, 10), piece(1, 1, 10, 20), piece(2, 0), piece(3, 0)]
    left, done = block.split(wanted)
    assert left == [wanted[1], wanted[3]]
    assert done == [read[0], read[2]]
    assert OpenBlock(begun, CATALOG).split(wanted) == (wanted, [])


def test_a_job_that_was_given_no_snapshot_is_told_who_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SNAPSHOT_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="start this job with 'holdfast backup' or its Airflow operator"):
        given_snapshot()
    monkeypatch.setenv(SNAPSHOT_VARIABLE, "no snapshot")
    with pytest.raises(UsageError, match="describes no snapshot"):
        given_snapshot()
    values: dict[str, Any] = {"name": "1", "marker": "1:2:", "position": "0/1", "taken_at": "2026-03-01T12:00:00Z",
                              "exact": True, "note": "", "system_identifier": None, "timeline": None}  # fmt: skip
    monkeypatch.setenv(SNAPSHOT_VARIABLE, json.dumps(values))
    found = given_snapshot()
    assert isinstance(found, Snapshot)
    assert (found.marker, found.position) == ("1:2:", "0/1")
