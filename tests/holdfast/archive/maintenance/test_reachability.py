"""Which blocks of a chain a kept position needs: by hand; any histories are in test_truncation_histories.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Coverage, Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import TableRecord
from holdfast.archive.history.timeline import Chain
from holdfast.archive.maintenance.reachability import Needs

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def table(name: str) -> TableRecord:
    return TableRecord(id=str(sum(name.encode())), table_schema="shop", name=name, rows=1, digest="", files=())


def snapshot(name: str, at: int, *tables: str, since: int | None = None, **more: Any) -> Placed:
    """Return a snapshot; `since`: the position that changes had reached by then."""
    stream = Stream(slot="s", position=f"0/{at if since is None else since:X}", publication="s", publication_oid=1)
    block = make_block(identity=name, position=f"0/{at:X}", tables=tuple(map(table, tables or ("t",))))
    return Placed(block.model_copy(update={"stream": stream, **more}), at)


def changes(name: str, since: int, upto: int, *, is_cut: bool = False, home: str = "") -> Placed:
    covers = Coverage(from_position=f"0/{since:X}", to_position=f"0/{upto:X}", from_time=NOON, to_time=NOON)
    block = make_block(identity=name).model_copy(update={"kind": "changes", "covers": covers, "is_cut": is_cut})
    return Placed(block, upto, home=home)


# Two full backups and the changes around them; the last changes record the schema of their end.
CHAIN = Chain(
    0x10,
    (snapshot("full 1", 0x10), snapshot("full 2", 0x40, since=0x30)),
    (
        changes("to 20", 0x10, 0x20),
        changes("to 30", 0x20, 0x30),
        changes("to 50", 0x30, 0x50),
        changes("to 60", 0x50, 0x60, is_cut=True),
    ),
)


def needed(*kept: tuple[int, int | None], chain: Chain = CHAIN) -> set[str]:
    needs = Needs(chain)
    for low, high in kept:
        needs.keep(low, high)
    return needs.ids()


def test_nothing_is_needed_for_nothing() -> None:
    assert needed() == set()


def test_a_full_backup_alone_needs_no_changes() -> None:
    assert needed((0x10, 0x10)) == {"full 1"}


def test_a_position_needs_the_snapshot_before_it_its_changes_and_what_tells_its_schema() -> None:
    # Its schema is that of the next full backup, and changes lead there.
    assert needed((0x20, 0x20)) == {"full 1", "to 20", "to 30", "full 2"}
    assert needed((0x50, 0x50)) == {"full 2", "to 50", "to 60"}


def test_an_open_end_needs_all_behind_its_snapshot() -> None:
    assert needed((0x50, None)) == {"full 2", "to 50", "to 60"}
    assert needed((0x20, None)) == {"full 1", "full 2", "to 20", "to 30", "to 50", "to 60"}


def test_all_positions_of_a_range_are_kept_and_ranges_are_put_together() -> None:
    assert needed((0x10, 0x60)) == needed((0x20, None))
    assert needed((0x10, 0x10), (0x50, 0x50)) == {"full 1", "full 2", "to 50", "to 60"}


@pytest.mark.parametrize("high", [0x70, 0x80])
def test_behind_the_end_of_the_changes_there_is_the_snapshot_itself(high: int) -> None:
    chain = Chain(0x10, (*CHAIN.snapshots, snapshot("full 3", 0x70, since=0x60)), CHAIN.changes)
    assert needed((0x70, high), chain=chain) == {"full 3"}


def test_a_table_that_began_later_brings_its_own_snapshot_and_the_full_one_stays() -> None:
    later = snapshot("of one table", 0x30, "new", supplement=True)
    chain = Chain(0x10, (CHAIN.snapshots[0], later), CHAIN.changes)
    assert needed((0x60, 0x60), chain=chain) == {"full 1", "of one table", "to 20", "to 30", "to 50", "to 60"}


def test_a_block_that_was_joined_is_needed_by_the_name_it_has_now() -> None:
    joined = tuple(changes(f"part {at}", at, at + 0x10, is_cut=at == 0x20, home="joined") for at in (0x10, 0x20))
    assert needed((0x20, 0x20), chain=Chain(0x10, CHAIN.snapshots[:1], joined)) == {"full 1", "joined"}
