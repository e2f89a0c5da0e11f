"""What damage costs is compared with what restores read, over made-up histories."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings

from holdfast.archive.files.file_index import TRANSACTIONS, NamedFile, files_of
from holdfast.archive.format.block import Block, Transactions
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import FileRecord, iso
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.history.restore_points import RestorePoint
from holdfast.archive.maintenance.damage_report import DamageReport, LostRange
from tests.support.archives.backups import SOURCE, Backups
from tests.support.archives.random_histories import histories, lived
from tests.support.generator.trials import tiered


def read_by(moment: RecoveryTarget) -> set[str]:
    """Return the files that a restore of a moment reads, but for those that place a time in the log."""
    used = set()
    for parts in moment.tables().values():
        used |= {file.path for file in parts.base.files} | {parts.catalog.path}
        used |= {file.path for record in parts.changes for file in record.files}
    used.add(moment.schema.block.catalog.path)
    for placed in filter(None, (moment.sequences, moment.sequences_before)):
        used.add((placed.block.sequences or placed.block.catalog).path)
    return used


def named(made: Backups) -> list[NamedFile]:
    return [file for placed in made.state.blocks.values() for file in files_of(placed)]


def covering(costs: tuple[LostRange, ...], point: RestorePoint) -> list[LostRange]:
    """Return the costs that a restore point is among."""
    return [cost for cost in costs if cost.start <= point.at <= cost.end]


@pytest.mark.slow
@settings(max_examples=tiered(50, 150))
@example([("changes", 0), ("pieces", 0), ("remove", 3)])
@given(histories)
def test_every_restore_point_that_reads_a_file_is_among_its_costs(steps: list[tuple[str, int]]) -> None:
    made = lived(steps)
    reads = [(point, read_by(made.at(point.covered, point.position))) for point in made.points()]
    costs = DamageReport(made.state)
    for file in named(made):
        found = costs.of(file)
        needing = [point for point, paths in reads if file.path in paths]
        assert all(covering(found, point) for point in needing), file.path
        assert sum(cost.points for cost in found) >= len({point.commit for point in needing})


def test_rows_of_a_snapshot_cost_what_is_restored_from_it_and_nothing_else() -> None:
    made = Backups()
    made.full(opened=True)
    for _ in range(2):
        for _ in range(2):
            made.write(1)
            made.wait(timedelta(hours=1))
            made.changes()
        made.full()
    first = next(file for file in named(made) if file.commit == 1 and file.tables == ("1",))
    (cost,) = DamageReport(made.state).of(first)
    assert (cost.first, cost.last, cost.points) == (1, 3, 3)
    assert cost.describe() == {
        "source": SOURCE,
        "from": iso(cost.start),
        "to": iso(cost.end),
        "first": "commit:1",
        "last": "commit:3",
        "points": 3,
    }
    assert str(cost) == f"{SOURCE} from {iso(cost.start)} to {iso(cost.end)} (commit:1 to commit:3)"


def test_changes_cost_what_comes_after_them_up_to_the_next_snapshot() -> None:
    made = Backups()
    made.full(opened=True)
    for _ in range(3):
        made.write(1)
        made.wait(timedelta(hours=1))
        made.changes()
    made.full()
    made.write(1)
    made.wait(timedelta(hours=1))
    made.changes()
    second = next(file for file in named(made) if file.commit == 3 and file.tables == ("1",))
    (cost,) = DamageReport(made.state).of(second)
    assert (cost.first, cost.last) == (3, 4)
    made.write(1)
    made.changes()
    (alone,) = DamageReport(made.state).of_commit(SOURCE, 7)
    assert (alone.first, alone.last, alone.points) == (7, 7, 1)
    assert str(alone) == f"{SOURCE} at {iso(alone.end)} (commit:7)"


def test_rows_that_a_made_snapshot_has_in_common_with_an_older_one_cost_what_is_restored_from_both() -> None:
    made = Backups()
    old = made.full(opened=True)
    made.write(1)
    made.wait(timedelta(hours=1))
    (end,) = made.changes()
    made._add(
        end.model_copy(
            update={
                "id": "made",
                "kind": "snapshot",
                "after": made.state.sequence,
                "covers": end.covers.model_copy(update={"from_position": None, "from_time": end.covers.to_time}),
                "tables": old.tables,
                "stream": end.stream and end.stream.model_copy(update={"position": end.covers.to_position}),
            }
        )
    )
    made.write(2)
    made.wait(timedelta(hours=1))
    made.changes()
    files = {file.path: file for file in named(made) if file.tables == ("2",) and "/snapshot/" in file.path}
    assert len(files) == 1
    for file in files.values():
        (cost,) = DamageReport(made.state).of(file)
        assert (cost.first, cost.points) == (1, 4)


def test_rows_of_a_dropped_table_cost_nothing_from_the_next_full_backup_on() -> None:
    made = Backups()
    made.full(opened=True)
    made.write(3)
    made.wait(timedelta(hours=1))
    made.changes()
    made.drop(3)
    made.wait(timedelta(hours=1))
    made.full()
    made.write(1)
    made.wait(timedelta(hours=1))
    made.changes()
    dropped = [file for file in named(made) if file.tables == ("3",)]
    costs = [cost for file in dropped for cost in DamageReport(made.state).of(file)]
    assert [(cost.first, cost.last) for cost in costs] == [(1, 2), (2, 2)]


def with_list(made: Backups, block: Block) -> NamedFile:
    """Give a block a list of its transactions."""
    record = FileRecord(path=f"data/{SOURCE}/transactions/changes/{block.id}/0.parquet", size=1, sha256="0" * 64)
    covers = block.covers
    listed = Transactions(file=record, count=1, first_time=covers.to_time, last_time=covers.to_time)
    placed = Placed(block.model_copy(update={"transactions": listed}), made.state.blocks[block.id].commit)
    made.state = replace(made.state, blocks={**made.state.blocks, block.id: placed})
    return next(file for file in files_of(placed) if file.holds == TRANSACTIONS)


def test_a_list_of_transactions_costs_the_times_within_its_backups_and_the_end_of_none() -> None:
    made = Backups()
    made.write(1)
    made.full(opened=True)
    lists = []
    for _ in range(3):
        made.wait(timedelta(hours=1))
        made.write(1, 2)
        (block,) = made.changes()
        lists.append(with_list(made, block))
    start, *hours = (iso(point.at) for point in made.points())
    for file, (before, after) in zip(lists, pairwise([start, *hours]), strict=True):
        (cost,) = DamageReport(made.state).of(file)
        assert (cost.points, str(cost)) == (0, f"{SOURCE} between {before} and {after}, but no end of a backup")
    joined = made.join([made.state.blocks[file.block] for file in lists])
    file = with_list(made, joined)
    (cost,) = DamageReport(made.state).of(file)
    assert (cost.points, iso(cost.start), iso(cost.end)) == (0, start, hours[-1])
