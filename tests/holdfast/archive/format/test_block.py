"""Blocks: the objects that one names, and what it says of itself in short."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, JoinedBlock, Transactions, summary
from holdfast.archive.format.document import FileRecord, TableRecord

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def file(path: str, size: int = 1) -> FileRecord:
    return FileRecord(path=path, size=size, sha256="0" * 64)


def table(*files: FileRecord, rows: int = 0) -> TableRecord:
    return TableRecord(id="7", table_schema="shop", name="orders", rows=rows, digest="", files=files)


def paths(block: Block) -> list[str]:
    return [each.path for each in block.files()]


def full_of_files() -> Block:
    block = make_block(
        identity="b1", tables=(table(file("d/b1/1"), file("d/b1/pack#0"), rows=3), table(file("d/b1/2"), rows=4))
    )
    return block.model_copy(
        update={
            "packs": (file("d/b1/pack"),),
            "catalog": file("d/b1/catalog"),
            "schema_dump": file("d/b1/dump"),
            "sequences": file("d/b1/sequences"),
            "transactions": Transactions(file=file("d/b1/times"), count=1, first_time=NOON, last_time=NOON),
        }
    )


def test_the_objects_of_a_block_are_all_it_names_but_what_is_in_packs() -> None:
    found = paths(full_of_files())
    assert sorted(found) == [f"d/b1/{name}" for name in ("1", "2", "catalog", "dump", "pack", "sequences", "times")]
    assert paths(make_block()) == ["data/shop_db/schema/b/catalog-1.json"]


def test_a_joined_block_names_the_files_of_its_parts_too_each_once() -> None:
    part = make_block(identity="p", tables=(table(file("d/p/1")),)).model_copy(update={"catalog": file("d/b1/catalog")})
    joined = full_of_files().model_copy(update={"parts": (JoinedBlock(commit=1, block=part),) * 2})
    found = paths(joined)
    assert sorted(found) == sorted([*paths(full_of_files()), "d/p/1"])
    assert joined.rows == 7  # of its own tables, which are those of all


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("d/b1/1", True),
        ("b1", True),
        ("d/b11/1", False),
        ("d/xb1/1", False),
        ("d/b0/1", False),
        ("d/b0/b1.json", False),
    ],
)
def test_only_what_was_written_for_a_block_counts_to_its_size(path: str, *, counts: bool) -> None:
    block = make_block(identity="b1", tables=(table(file(path, 50)),))
    assert block.size == 50 * counts


def test_a_pack_counts_once_whatever_is_in_it() -> None:
    block = make_block(identity="b1", tables=(table(file("d/b1/p#0", 30), file("d/b1/p#30", 20)),))
    assert block.model_copy(update={"packs": (file("d/b1/p", 55),)}).size == 55


def test_the_summary_says_in_short_what_was_backed_up() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    block = full_of_files().model_copy(update={"whole": False, "not_included": ("a",), "unlogged": ("b", "c")})
    block = block.model_copy(update={"covers": block.covers.model_copy(update={"to_time": there})})
    assert summary(block) == {
        "block": "b1",
        "kind": "full",
        "source": "shop_db",
        "rows": 7,
        "bytes": 6 + 1,
        "tables": 2,
        "restorable_to": "2026-03-01T12:00:00.000000Z",
        "position": "0/100",
        "whole": False,
        "not_included": ["a"],
        "unlogged": ["b", "c"],
    }
    assert summary(block.model_copy(update={"kind": "changes"}))["kind"] == "changes"
