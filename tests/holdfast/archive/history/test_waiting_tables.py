"""Tables that wait to begin anew: what the newest backup of the source says of them counts."""

from __future__ import annotations

from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import State
from holdfast.archive.format.block import Block, Coverage, Stream, WaitingTable
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.history.restore_points import waiting_tables

NOON = make_block().covers.to_time
WAITING = {
    number: WaitingTable(table=name, since=NOON, reason="it was rewritten")
    for number, name in ((1, "shop.orders"), (2, "shop.customers"))
}


def stream(waiting: dict[int, WaitingTable]) -> Stream:
    return Stream(slot="s", position="0/1", publication="s", publication_oid=1, waiting=waiting)


def changes(waiting: dict[int, WaitingTable], position: str = "0/200", **more: Any) -> Block:
    covers = Coverage(from_position="0/100", to_position=position, from_time=NOON, to_time=NOON)
    told = {"kind": "changes", "covers": covers, "stream": stream(waiting), **more}
    return make_block(identity=f"changes to {position}").model_copy(update=told)


def snapshot(**more: Any) -> Block:
    return make_block(identity=f"snapshot {more}", position="0/300").model_copy(update=more)


def names(*blocks: Block, source: str = "shop_db") -> list[str]:
    state = State(blocks={block.id: Placed(block, number) for number, block in enumerate(blocks, 1)})
    return [each.table for each in waiting_tables(state, source)]


def test_those_that_wait_are_named_in_order() -> None:
    assert names(snapshot(), changes(WAITING)) == ["shop.customers", "shop.orders"]


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param((), id="nothing was backed up"),
        pytest.param((snapshot(),), id="nothing is followed"),
        pytest.param((changes(WAITING), changes({}, "0/300")), id="the newest changes have them"),
        pytest.param((changes(WAITING), snapshot(stream=stream(WAITING))), id="a newer full backup has them"),
        pytest.param((changes(WAITING), snapshot()), id="a full backup without a stream came"),
    ],
)
def test_none_wait_where_the_newest_backup_has_them(blocks: tuple[Block, ...]) -> None:
    assert names(*blocks) == []


def test_a_supplement_says_who_still_waits() -> None:
    rest = {1: WAITING[1]}
    assert names(changes(WAITING), snapshot(stream=stream(rest), supplement=True)) == ["shop.orders"]


def test_what_was_made_of_backups_is_no_newer_backup() -> None:
    assert names(changes(WAITING), snapshot(after=1)) == ["shop.customers", "shop.orders"]


def test_tables_of_another_source_do_not_count() -> None:
    assert names(changes(WAITING), source="crm") == []
