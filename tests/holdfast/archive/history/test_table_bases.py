"""Which snapshot has the newest rows of each table, and which tables are gone by then."""

from __future__ import annotations

from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import TableRecord
from holdfast.archive.history.table_bases import TableBases, not_selected


def table(number: int) -> TableRecord:
    return TableRecord(id=str(number), table_schema="shop", name=f"t{number}", rows=1, digest="", files=())


def snapshot(name: str, *tables: int, stream: dict[str, Any] | None = None, **more: Any) -> Placed:
    told = Stream(slot="s", position="0/100", publication="s", publication_oid=1, **stream) if stream else None
    block = make_block(identity=name, tables=tuple(map(table, tables)))
    return Placed(block.model_copy(update={"stream": told, **more}), 1)


def bases(*snapshots: Placed) -> dict[str, str]:
    live = TableBases()
    for each in snapshots:
        live.add(each)
    assert {each.id for each in live.blocks()} == {placed.id for _, placed in live.tables.values()}
    return {name: placed.id for name, (_, placed) in live.tables.items()}


def test_each_table_has_its_rows_in_the_newest_snapshot_of_it() -> None:
    supplement = snapshot("b", 2, 3, supplement=True)
    assert bases(snapshot("a", 1, 2), supplement) == {"1": "a", "2": "b", "3": "b"}


def test_a_whole_backup_has_all_tables_that_there_are() -> None:
    assert bases(snapshot("a", 1, 2), snapshot("b", 1)) == {"1": "b"}


@pytest.mark.parametrize(
    ("more", "is_there"),
    [
        ({"others": (2,)}, True),
        ({"others": (9,)}, False),
        ({"stream": {"followed": {2: 20}}}, True),
        ({"stream": {"followed": {2: 20}}, "others": (9,)}, True),
        ({"stream": {"not_followed": {"shop.t2": "it has no key"}}}, True),
        ({"not_included": (not_selected("shop.t2"),)}, True),
        # Where oids are recorded, names tell nothing: another table may be called so by now.
        ({"not_included": (not_selected("shop.t2"),), "others": (9,)}, False),
        ({}, False),
    ],
)
def test_a_backup_of_chosen_tables_leaves_the_others_that_it_says_are_there(
    more: dict[str, Any], is_there: bool
) -> None:
    found = bases(snapshot("a", 1, 2), snapshot("b", 1, whole=False, **more))
    assert found == ({"1": "b", "2": "a"} if is_there else {"1": "b"})
