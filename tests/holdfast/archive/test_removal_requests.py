"""What a truncation and the vacuum behind it ask of the store depends on what goes, and not on what stays."""

from __future__ import annotations

from datetime import timedelta

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block
from holdfast.archive.format.document import TableRecord
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import vacuum
from tests.support.stores.memory_store import MemoryStore

FILES = 3
"""Of each backup."""


def filled(backups: int) -> MemoryStore:
    """An archive with full backups, one an hour."""
    store = MemoryStore()
    archive = Archive.create(store, name="shop")
    for number in range(1, backups + 1):
        folder = f"data/shop_db/1/snapshot/{number:032x}"
        files = tuple(write_bytes(store, f"{folder}/{each:05d}-1.parquet", b"rows") for each in range(FILES))
        table = TableRecord(id="1", table_schema="public", name="orders", rows=1, digest="", files=files)
        add(
            archive,
            make_block(identity=f"{number:032x}", position=f"0/{number << 12:X}", at=store.now, tables=(table,)),
        )
        store.advance(timedelta(hours=1))
    return store


def add(archive: Archive, block: Block) -> None:
    archive.add(lambda state: Change("backup", add=(block,)), check=lambda: None, fence=None)


def requests_to_remove(count: int, store: MemoryStore, backups: int) -> list[str]:
    """Remove the oldest backups and their files; return the requests, the opening's not among them."""
    store = store.copy()
    archive = Archive.open(store)
    store.requests.clear()
    truncate(archive, parse_rules([f"last={backups - count}"]), check=lambda: None, fence=None)
    store.advance(timedelta(days=2))
    done = vacuum(archive, check=lambda: None, fence=None, grace=timedelta(0), orphans=False)
    assert done.files == FILES * count
    return store.requests


def test_removing_a_hundredth_costs_a_hundredth() -> None:
    large, small = filled(400), filled(100)
    few, many = (len(requests_to_remove(count, large, 400)) for count in (4, 204))
    for_each = (many - few) / 200
    assert for_each == FILES + 1  # its files, and the commit that tells them
    assert few - 4 * for_each < 20  # what it takes whatever goes: commits, locks and the clock
    assert len(requests_to_remove(4, small, 100)) == few
