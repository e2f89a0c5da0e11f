"""References to blocks: what they say without reading a commit, and what stands for tables and joined blocks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, Born, Coverage, Stream
from holdfast.archive.format.block_ref import Beginning, JoinedPart, LoadedBlock, Placed, load
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.common.errors import DamagedError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 13, tzinfo=UTC)
FILE = FileRecord(path="data/shop_db/7/snapshot/a/0.parquet", size=50, sha256="0" * 64)
TABLE = TableRecord(id="7", table_schema="shop", name="orders", rows=3, digest="3:1", files=(FILE,))


def changes(name: str, *born: Born) -> Block:
    covers = Coverage(from_position="0/100", to_position="0/200", from_time=NOON, to_time=LATER)
    stream = Stream(slot="s", position="0/100", publication="s", publication_oid=1, born=born)
    return make_block(identity=name).model_copy(update={"kind": "changes", "covers": covers, "stream": stream})


class Recalled(LoadedBlock):
    """A block of which only the head is in memory; reading it is counted, and may fail."""

    def __init__(self, block: Block, *, is_damaged: bool = False) -> None:
        super().__init__(block)
        self._is_damaged = is_damaged
        self.reads = 0

    def head(self) -> Block:
        return self._block.model_copy(update={"tables": ()})

    def block(self) -> Block:
        self.reads += 1
        if self._is_damaged:
            raise DamagedError("commit 3 is another")
        return self._block


def test_a_block_is_read_when_it_is_asked_for_and_only_once() -> None:
    recalled = Recalled(make_block(identity="a", tables=(TABLE,)))
    placed = Placed(recalled, 3)
    assert (placed.id, placed.source, placed.rows, placed.head.tables, recalled.reads) == ("a", "shop_db", 3, (), 0)
    assert (placed.block.tables, placed.block.tables, recalled.reads) == ((TABLE,), (TABLE,), 1)


def test_a_block_has_the_number_of_its_commit_unless_it_has_another_one() -> None:
    placed = Placed(make_block(identity="a"), 3)
    assert (placed.number, placed.numbered(14).number, placed.numbered(14).commit) == (3, 14, 3)


def test_blocks_are_equal_by_where_they_are_and_what_they_hold() -> None:
    block = make_block(identity="a", tables=(TABLE,))
    placed = Placed(block, 3)
    assert placed == Placed(Recalled(block), 3)
    assert hash(placed) == hash(Placed(Recalled(block), 3))
    others = [Placed(block, 4), Placed(block, 3, home="j"), placed.numbered(4), Placed(make_block(identity="a"), 3)]
    assert placed not in others
    assert placed != "a"


def test_a_part_of_a_joined_block_has_its_own_document_and_the_tables_of_all() -> None:
    joined = Recalled(changes("j").model_copy(update={"tables": (TABLE,)}))
    part = Placed(JoinedPart(Placed(joined, 9), changes("b")), 2, home="j")
    assert (part.id, part.rows, part.size) == ("b", 0, 0)  # they count once, with the joined one
    assert (part.head.id, part.head.tables, joined.reads) == ("b", (), 0)
    assert (part.block.id, part.block.tables) == ("b", (TABLE,))


def test_tables_that_are_made_among_changes_begin_with_an_empty_snapshot() -> None:
    placed = Placed(changes("b", Born(oid=7, table_schema="shop", name="orders")), 2)
    begins = Placed(Beginning(placed), 2)
    assert (begins.begins, placed.begins) == (True, False)
    block = begins.block
    assert (block.id, block.kind, block.supplement, block.is_cut) == ("b begins", "snapshot", True, False)
    # It stands where the changes begin: there these tables had no row.
    assert (block.covers.to_position, block.covers.to_time) == ("0/100", NOON)
    assert [(table.id, table.label, table.rows, table.files) for table in block.tables] == [("7", "shop.orders", 0, ())]
    assert block == begins.head


def test_blocks_are_loaded_together_and_damage_is_told() -> None:
    recalled = [Recalled(make_block(identity=name)) for name in "abc"]
    load(Placed(each, number) for number, each in enumerate(recalled, 1))
    assert [each.reads for each in recalled] == [1, 1, 1]
    with pytest.raises(DamagedError, match="commit 3 is another"):
        load([Placed(Recalled(make_block(), is_damaged=True), 3)])
