"""An archive whose blocks have no rows: plans are made of their heads alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block, Coverage, Stream
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.table import Table
from holdfast.storage import ObjectStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fill(store: ObjectStore, blocks: int, tables: tuple[Table, ...] = ()) -> None:
    """Add a snapshot and blocks of changes, a minute apart, that have no rows.

    :param tables: that the source has.
    """
    archive = Archive.open(store)
    objects = Catalog(
        database="shop", server_version=180006, encoding="UTF8", tables=tables, sequences=(), materialized_views=(),
        references=(), roles=(),
    )  # fmt: skip
    catalog = write_bytes(store, "data/shop_db/schema/b/catalog.json", objects.model_dump_json().encode())
    for number in range(blocks + 1):
        at = NOON + timedelta(minutes=number)
        block = make_block(position=f"0/{0x100 + 16 * number:X}", at=at)
        covers = block.covers
        if number:
            since = NOON + timedelta(minutes=number - 1)
            covers = Coverage(from_position=f"0/{0x100 + 16 * (number - 1):X}", to_position=covers.to_position,
                              from_time=since, to_time=at)  # fmt: skip
        stream = Stream(
            slot="s", position=covers.from_position or "0/100", opened=not number, publication="s", publication_oid=1
        )
        kind = "changes" if number else "snapshot"
        told = {"catalog": catalog, "schema_version": "1"}
        add(archive, block.model_copy(update={"kind": kind, "covers": covers, "stream": stream, **told}))


def add(archive: Archive, block: Block) -> None:
    change = Change(kind="backup", add=(block,))
    archive.add(lambda state: change, check=lambda: None, fence=None)
