"""Snapshots that are made of an older one and changes: what the new block says."""

from __future__ import annotations

from holdfast.archive import Change
from holdfast.archive.history import restore_points
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.maintenance.consolidation import newest_cut
from tests.support.archives.written_blocks import Writer


def test_a_snapshot_that_is_made_behind_a_cut_leaves_the_end_of_the_interval_where_it_is(writer: Writer) -> None:
    cut, last = writer.changes(), writer.changes(is_cut=False)
    before = restore_points.describe(writer.archive.state)
    writer.consolidate()
    state = writer.archive.state
    assert restore_points.describe(state) == before
    found = covered_ranges(state, "shop_db")[0]
    assert (found.placed.id, [placed.head.after for placed in found.snapshots]) == (last, [None, 2])
    made = found.snapshots[-1].head
    assert made.covers.to_position == state.blocks[cut].head.covers.to_position
    writer.changes()
    assert len(covered_ranges(writer.archive.state, "shop_db")) == 1


def test_there_is_nothing_to_consolidate_without_changes_whose_end_is_known(writer: Writer) -> None:
    assert newest_cut(writer.archive.state, "shop_db") is None
    writer.changes(is_cut=False)
    assert newest_cut(writer.archive.state, "shop_db") is None
    ids = [writer.changes(), writer.changes(is_cut=False)]
    found = newest_cut(writer.archive.state, "shop_db")
    assert found is not None
    assert found.id == ids[0]
    writer.consolidate()
    assert newest_cut(writer.archive.state, "shop_db") is None
    assert newest_cut(writer.archive.state, "another") is None


def test_a_snapshot_that_was_made_says_which_tables_were_left_out_by_choice(writer: Writer) -> None:
    writer.changes()
    writer.consolidate(left_out=("shop.logs",))
    (*_, made) = writer.archive.state.blocks.values()
    assert (made.head.whole, made.head.not_included) == (False, ("rows of shop.logs: not selected",))
    (found,) = covered_ranges(writer.archive.state, "shop_db")
    assert found.whole


def test_what_a_snapshot_that_was_made_begins_with_may_go(writer: Writer) -> None:
    ids = [writer.changes() for _ in range(3)]
    writer.consolidate()
    change = Change(kind="truncation", remove=("full-1", *ids))
    writer.archive.add(lambda state: change, check=lambda: None, fence=None)
    writer.changes()
    (found,) = covered_ranges(writer.archive.state, "shop_db")
    assert (found.first, found.last) == (0x130, 0x140)


def test_blocks_before_and_behind_a_snapshot_that_was_made_stay_apart(writer: Writer) -> None:
    before = [writer.changes() for _ in range(3)]
    writer.consolidate()
    behind = [writer.changes() for _ in range(3)]
    assert writer.plan() == [before, behind]
