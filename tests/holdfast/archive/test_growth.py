"""What is done with an archive's blocks and tables grows as they do: twice as many of both take twice the work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import pytest

from bench.support.blocks import make_block
from holdfast.archive import State
from holdfast.archive.files.file_index import files_of
from holdfast.archive.format.block import Block, Coverage, Stream
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.versions import FORMAT, WRITER
from holdfast.archive.history import restore_points as points
from holdfast.archive.history import target_resolution
from holdfast.archive.maintenance.compaction import CompactionPolicy, plan_compaction
from holdfast.archive.maintenance.damage_report import DamageReport
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import plan_truncation
from holdfast.common.lsn import show_position
from holdfast.storage import ObjectStore, open_store

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = timedelta(minutes=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    return open_store(str(tmp_path_factory.mktemp("growth")))


def table(number: int, kind: str) -> TableRecord:
    record = FileRecord(path=f"data/shop_db/{number}/{kind}/1.parquet", size=9, sha256="0" * 64, rows=1)
    return TableRecord(id=str(number), table_schema="public", name=f"t{number}", rows=1, digest="", files=(record,))


def block(sequence: int, tables: int, full_every: int) -> Block:
    """Return a full backup, or changes of two tables, at whose end the schema is known."""
    snapshot = sequence % full_every == 1
    numbers = range(tables) if snapshot else (sequence % tables, (sequence + 1) % tables)
    at = START + EVERY * sequence
    position = show_position(sequence * 1000)
    return make_block(identity=f"b{sequence}").model_copy(
        update={
            "kind": "snapshot" if snapshot else "changes",
            "covers": Coverage(
                from_position=None if snapshot else show_position((sequence - 1) * 1000),
                to_position=position,
                from_time=at - EVERY,
                to_time=at,
            ),
            "tables": tuple(table(each, "snapshot" if snapshot else "changes") for each in sorted(set(numbers))),
            "stream": Stream(
                slot="s",
                position=position,
                opened=snapshot,
                publication="s",
                publication_oid=1,
                followed={each: each + 1 for each in range(tables)},
            ),
            "schema_version": "1",
            "catalog": FileRecord(path=f"data/shop_db/schema/b{sequence}/catalog.json", size=2, sha256="0" * 64),
        }
    )


def state_of(blocks: int, tables: int, full_every: int) -> State:
    tip = None
    commits = []
    for sequence in range(1, blocks + 1):
        commits.append(
            ArchiveCommit(
                sequence=sequence,
                id=f"c{sequence}",
                parent=tip,
                kind="backup",
                format=FORMAT,
                min_reader=FORMAT,
                min_writer=FORMAT,
                fence=None,
                committed_at=START + EVERY * sequence,
                writer=WRITER,
                add=(block(sequence, tables, full_every),),
            )
        )
        tip = commits[-1].id
    return State.begun(FORMAT).after(commits)


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of our own some work runs: the same number on every machine."""
    count = 0
    package = str(Path(points.__file__).parents[1])

    def each_line(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return each_line

    def each_call(frame: FrameType, event: str, argument: object) -> object:
        return each_line if frame.f_code.co_filename.startswith(package) else None

    before = sys.gettrace()
    sys.settrace(each_call)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def restore_points(state: State, store: ObjectStore) -> object:
    return points.describe(state)


def newest_moment(state: State, store: ObjectStore) -> object:
    return target_resolution.resolve(state, store, "shop_db", "latest").tables()


def truncation(state: State, store: ObjectStore) -> object:
    now = START + EVERY * (len(state.blocks) + 1)
    return plan_truncation(state, parse_rules(["within=30m", "daily=7"]), now)


def compaction(state: State, store: ObjectStore) -> object:
    return plan_compaction(state, CompactionPolicy(), START + timedelta(days=365))


def costs_of_all_files(state: State, store: ObjectStore) -> object:
    costs = DamageReport(state)
    return [costs.of(file) for placed in state.blocks.values() for file in files_of(placed)]


@pytest.mark.parametrize("work", [restore_points, newest_moment, truncation, compaction, costs_of_all_files])
@pytest.mark.parametrize(
    ("full_every", "tables"),
    [(10_000, (40, 80)), (20, (40, 40))],  # where there are twice as many full backups of all tables, not of these, too
    ids=["one full backup", "many full backups"],
)
def test_twice_as_many_are_twice_the_work(
    store: ObjectStore, work: Callable[[State, ObjectStore], object], full_every: int, tables: tuple[int, int]
) -> None:
    few, many = state_of(100, tables[0], full_every), state_of(200, tables[1], full_every)
    assert 100 < lines_run(lambda: work(many, store)) < 2.3 * lines_run(lambda: work(few, store))
