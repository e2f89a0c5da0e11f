"""Which blocks of changes are worth being joined, and what the joined block says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import JoinedBlock, Mark
from holdfast.archive.format.model import Hold
from holdfast.archive.history import restore_points, target_resolution
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.maintenance.compaction import (
    CompactionPolicy,
    check_format,
    check_neighbours,
    form_runs,
    join_transactions,
    plan_compaction,
)
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.common.lsn import parse_position, show_position
from holdfast.config.archives_model import CompactionConfig
from holdfast.storage import ObjectStore
from tests.support.archives.written_blocks import KB, POLICY, Writer, file


def test_small_neighbours_are_joined_and_fewer_than_the_least_number_are_not(writer: Writer) -> None:
    ids = [writer.changes(), writer.changes()]
    assert writer.plan() == []
    ids.append(writer.changes())
    assert writer.plan() == [ids]


def test_young_blocks_wait_by_the_stores_clock(writer: Writer) -> None:
    ids = [writer.changes() for _ in range(5)]
    assert writer.plan(later=timedelta(minutes=9, seconds=59)) == [ids[:-1]]
    assert writer.plan(later=timedelta(minutes=10)) == [ids]
    assert writer.plan(later=timedelta(minutes=-60)) == []


def test_a_block_that_is_not_small_parts_its_neighbours(writer: Writer) -> None:
    before = [writer.changes() for _ in range(3)]
    writer.changes(100 * KB)
    behind = [writer.changes() for _ in range(3)]
    assert writer.plan() == [before, behind]


def test_what_is_joined_is_no_larger_than_the_target(writer: Writer) -> None:
    ids = [writer.changes(90 * KB) for _ in range(7)]
    assert writer.plan() == [ids[:3], ids[3:6]]


def test_a_block_holds_no_more_transactions_than_a_time_can_be_looked_up_among(writer: Writer) -> None:
    ids = [writer.changes(transactions=400_000) for _ in range(8)]
    assert writer.plan() == [ids[:5], ids[5:]]


def test_blocks_before_and_behind_a_full_snapshot_stay_apart(writer: Writer) -> None:
    before = [writer.changes() for _ in range(3)]
    writer.full()
    behind = [writer.changes() for _ in range(3)]
    assert writer.plan() == [before, behind]


def test_a_snapshot_of_single_tables_parts_nothing(writer: Writer) -> None:
    ids = [writer.changes() for _ in range(2)]
    writer.full(supplement=True)
    ids.append(writer.changes())
    assert writer.plan() == [ids]


def test_a_full_snapshot_inside_of_a_block_parts_it_from_those_before(writer: Writer) -> None:
    before = [writer.changes() for _ in range(3)]
    writer.at += 8
    writer.full()
    writer.at -= 8
    behind = [writer.changes() for _ in range(3)]
    assert writer.plan() == [before, behind]


def test_blocks_with_a_hole_between_them_stay_apart(writer: Writer) -> None:
    before = [writer.changes() for _ in range(3)]
    hole = writer.changes(100 * KB)
    behind = [writer.changes() for _ in range(3)]
    change = Change(kind="truncation", remove=(hole,))
    writer.archive.add(lambda state: change, check=lambda: None, fence=None)
    assert writer.plan() == [before, behind]


def test_blocks_of_two_streams_stay_apart(writer: Writer) -> None:
    before = [writer.changes() for _ in range(3)]
    writer.slot = "another"
    behind = [writer.changes() for _ in range(3)]
    assert writer.plan() == [before, behind]


def test_only_the_source_that_is_named_is_looked_at(writer: Writer) -> None:
    ids = [writer.changes() for _ in range(3)]
    now = writer.noon + timedelta(days=1)
    (found,) = plan_compaction(writer.archive.state, POLICY, now, source="shop_db")
    assert found.ids == tuple(ids)
    assert plan_compaction(writer.archive.state, POLICY, now, source="another") == ()


def test_what_was_joined_is_joined_again_only_with_as_much_as_it_is(writer: Writer) -> None:
    for _ in range(10):
        writer.changes()
    (joined,) = writer.compact()
    behind = [writer.changes() for _ in range(9)]
    assert writer.plan() == [behind]
    behind.append(writer.changes())
    assert writer.plan() == [[joined, *behind]]


def test_restore_points_stay_what_they_are_however_often_blocks_are_joined(writer: Writer) -> None:
    for number in range(12):
        mark = Mark(name=f"m{number}", position=show_position(0x100 + writer.at + 4), at=writer.noon)
        ddl = (show_position(0x100 + writer.at + 2),)
        version = str(number // 5)
        writer.changes(transactions=2, marks=(mark,), is_cut=number % 3 == 0, schema_version=version, ddl=ddl)
    for more in (0, 14):
        for _ in range(more):
            writer.changes()
        before = restore_points.describe(writer.archive.state)
        assert before["sources"][0]["intervals"][0]["schema_approximate"]
        chain = covered_ranges(writer.archive.state, "shop_db")[0].chain
        (identity,) = writer.compact(CompactionPolicy(min_blocks=2, min_age=timedelta(0)))
        state = writer.archive.state
        assert restore_points.describe(state) == before
        after = covered_ranges(state, "shop_db")[0].chain
        assert [(each.id, each.commit) for each in after.changes] == [(each.id, each.commit) for each in chain.changes]
        assert {each.home for each in after.changes} == {identity}
        assert [part.block.tables for part in state.blocks[identity].head.parts] == [()] * (12 + more)


def test_a_restore_point_that_is_held_stays_one_when_its_block_is_joined(writer: Writer) -> None:
    for _ in range(4):
        writer.changes()
    at = writer.noon + timedelta(minutes=2)
    hold = Hold(id="h", source="shop_db", position="0/120", at=at, owner="audit", reason="2026", created=writer.noon)
    writer.archive.add(lambda state: Change(kind="hold", holds=(hold,)), check=lambda: None, fence=None)
    before = target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", "lsn:0/120")
    assert writer.compact()
    after = target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", "lsn:0/120")
    assert set(writer.archive.state.holds) == {"h"}
    assert (after.position, after.at, after.commit) == (before.position, before.at, before.commit)


def test_changes_of_a_table_come_into_one_record_for_each_form_in_their_order(writer: Writer) -> None:
    old, new = ({"name": "id"},), ({"name": "number"},)
    for columns in (old, old, new, new, new, old):
        writer.changes(10, rows=2, columns=columns)
    (group,) = writer.groups()
    runs = form_runs(group)
    assert [(run.number, len(run.records), run.rows, run.size) for run in runs] == [
        (0, 2, 4, 20),
        (1, 3, 6, 30),
        (2, 1, 2, 10),
    ]
    record = runs[1].record([file("a", 1, 5), file("b", 1, 1)])
    assert (record.first, record.last) == (runs[1].records[0].first, runs[1].records[-1].last)
    assert (record.rows, record.columns, record.key) == (6, new, (1,))


def test_a_list_of_transactions_that_is_gone_costs_no_time_at_the_end_of_its_backup(writer: Writer) -> None:
    identity = writer.changes(transactions=3)  # the list is told, and no file is written
    state, store = writer.archive.state, writer.archive.store
    covers = state.blocks[identity].head.covers
    found = target_resolution.resolve(state, store, "shop_db", covers.to_time.isoformat())
    assert found.position == parse_position(covers.to_position)
    with pytest.raises(DamagedError, match=r"transactions/changes/.* is missing"):
        target_resolution.resolve(state, store, "shop_db", (covers.to_time - timedelta(microseconds=1)).isoformat())


def test_a_joined_block_covers_all_that_its_parts_did(writer: Writer) -> None:
    first = writer.changes(transactions=3)
    for _ in range(3):
        last = writer.changes(transactions=1)
    state = writer.archive.state
    start, end = state.blocks[first].head, state.blocks[last].head
    (identity,) = writer.compact()
    joined = writer.archive.state.blocks[identity].block
    assert joined.covers.from_position == start.covers.from_position
    assert joined.covers.from_time == start.covers.from_time
    assert (joined.covers.to_position, joined.covers.to_time) == (end.covers.to_position, end.covers.to_time)
    assert joined.transactions is not None
    assert joined.transactions.count == 6
    assert isinstance(joined.parts[0], JoinedBlock)
    assert [part.commit for part in joined.parts] == [2, 3, 4, 5]
    assert set(writer.archive.state.removed) == {part.block.id for part in joined.parts}


def test_transactions_that_get_lost_are_noticed_before_a_commit(writer: Writer) -> None:
    for _ in range(3):
        writer.changes(transactions=2)
    (group,) = writer.groups()
    for listed in (None, file("short", 1, 5)):
        with pytest.raises(DamagedError, match="transactions of shop_db were written where 6 are"):
            join_transactions(group, listed)


def test_a_group_is_not_joined_once_something_came_between(writer: Writer) -> None:
    ids = [writer.changes() for _ in range(4)]
    (group,) = writer.groups()
    check_neighbours(writer.archive.state, group)
    change = Change(kind="truncation", remove=(ids[0],))
    writer.archive.add(lambda state: change, check=lambda: None, fence=None)
    with pytest.raises(RefusedError, match="nothing was joined"):
        check_neighbours(writer.archive.state, group)


def test_a_group_is_not_joined_across_a_full_snapshot_that_has_come(writer: Writer) -> None:
    for _ in range(2):
        writer.changes()
    end = writer.at
    for _ in range(2):
        writer.changes()
    (group,) = writer.groups()
    writer.at = end
    writer.full()
    with pytest.raises(RefusedError, match="a full backup came between"):
        check_neighbours(writer.archive.state, group)


def test_an_archive_of_format_1_has_to_be_migrated_first(store: ObjectStore) -> None:
    with pytest.raises(RefusedError, match=r"holdfast migrate .* --to 2"):
        check_format(Archive.create(store, name="old", number=1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_blocks": 1},
        {"small_bytes": 0},
        {"small_bytes": 2, "target_bytes": 1},
        {"min_age": timedelta(seconds=-1)},
    ],
)
def test_a_policy_that_cannot_be_meant_is_a_mistake(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="compaction"):
        CompactionPolicy(**wrong)


def test_the_defaults_of_the_configuration_are_those_of_the_policy() -> None:
    assert CompactionPolicy.configured(CompactionConfig()) == CompactionPolicy()
