"""Which positions can be restored from which blocks, both ways: by a model that scans all blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings

from holdfast.archive.format.block import Block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import TableRecord
from holdfast.archive.history.coverage import Chain, Positions, covered_ranges, from_of, to_of, union
from holdfast.archive.history.table_bases import not_selected
from tests.support.archives.backups import SOURCE, Backups
from tests.support.archives.random_histories import histories, lived
from tests.support.archives.truncating import check_truth, content, positions
from tests.support.generator.trials import tiered


def is_still_there(full: Block, record: TableRecord) -> bool:
    """Return whether a full backup without a table's rows says that it exists."""
    stream = full.stream
    is_named = stream is not None and (int(record.id) in stream.followed or record.label in stream.not_followed)
    return not full.whole and (is_named or not_selected(record.label) in full.not_included)


def rows_needed(chain: Chain, position: int) -> set[tuple[str, str]]:
    """Return the blocks and tables whose rows a position needs, by a look at every block of its chain."""
    is_behind = position > chain.end
    before = [
        placed
        for placed in chain.snapshots
        if (to_of(placed.head) == position if is_behind else to_of(placed.head) + placed.begins <= position)
    ]
    bases: dict[str, tuple[TableRecord, Placed]] = {}
    for placed in before:
        if not placed.head.supplement:
            bases = {table: base for table, base in bases.items() if is_still_there(placed.head, base[0])}
        bases |= {record.id: (record, placed) for record in placed.head.tables}
    needed = {(placed.id, table) for table, (_, placed) in bases.items()}
    for placed in chain.changes:
        tables = {record.id for record in placed.head.tables} & bases.keys()
        since = {table: to_of(bases[table][1].head) for table in tables}
        if from_of(placed.head) < position:
            needed |= {(placed.id, table) for table in tables if to_of(placed.head) > since[table]}
    return needed


def check_rows(chain: Chain, position: int) -> None:
    """What the chain says that a block is needed for is what the model finds, and no more."""
    blocks = (*chain.snapshots, *chain.changes)
    needed = {
        (placed.id, record.id)
        for placed in blocks
        for record in placed.head.tables
        if any(first <= position < end for first, end in chain.needing_rows(placed, record.id))
    }
    assert needed == rows_needed(chain, position)
    assert {(placed.id, table) for table, placed in chain.bases(position).items()} <= needed


def is_among(position: int, ranges: list[Positions]) -> bool:
    return any(first <= position < end for first, end in ranges)


def check_positions(made: Backups) -> None:
    """All positions need what a restore reads, and nothing else has to be there for it."""
    for covered, position in positions(made):
        chain = covered.chain
        check_rows(chain, position)
        target = made.at(covered, position)
        assert is_among(position, list(chain.needing_schema(target.schema)))
        for placed in filter(None, (target.sequences, target.sequences_before)):
            assert is_among(position, [chain.needing_sequences(placed)])
        kept = chain.needed([(position, position)])
        rest = replace(made.state, blocks={each: made.state.blocks[each] for each in kept})
        ranges = [each for each in covered_ranges(rest, SOURCE) if each.first <= position <= each.last]
        assert content(made, target) in [content(made, made.at(each, position)) for each in ranges]


@pytest.mark.slow
@settings(max_examples=tiered(40, 300), deadline=None)
@example([("changes", 0), ("leave", 1), ("part", 2), ("drop", 1), ("changes", 0), ("full", 0), ("changes", 0)])
@example([("pieces", 0), ("join", 0), ("consolidate", 0), ("anew", 1), ("changes", 0), ("remove", 1)])
@given(histories)
def test_positions_and_blocks_are_related_as_a_look_at_every_block_says(steps: list[tuple[str, int]]) -> None:
    made = lived(steps)
    check_truth(made)
    check_positions(made)


@pytest.mark.slow
@settings(max_examples=tiered(40, 300), deadline=None)
@given(histories)
def test_the_end_of_every_backup_is_covered_while_none_was_removed(steps: list[tuple[str, int]]) -> None:
    made = lived([(step, number) for step, number in steps if step != "remove"])
    ends = {to_of(placed.head) for placed in made.state.blocks.values() if not placed.head.supplement}
    ranges = covered_ranges(made.state, SOURCE)
    assert all(any(covered.first <= end <= covered.last for covered in ranges) for end in ends)


def test_ranges_that_overlap_or_touch_are_one() -> None:
    assert list(union([(5, 7), (1, 3), (2, 4), (4, 5), (9, 10)])) == [(1, 7), (9, 10)]
    assert list(union([])) == []
