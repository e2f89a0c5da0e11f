"""Small blocks made up for archives whose contents do not matter."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from holdfast.archive.format.block import Block, Coverage, SourceRecord
from holdfast.archive.format.document import FileRecord, TableRecord


def make_block(
    *,
    identity: str | None = None,
    source: str = "shop_db",
    position: str = "0/100",
    at: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC),
    tables: tuple[TableRecord, ...] = (),
    whole: bool = True,
) -> Block:
    """Return a snapshot block that names no real files unless given tables."""
    return Block(
        id=identity or uuid.uuid4().hex,
        kind="snapshot",
        run="run-1",
        source=SourceRecord(
            name=source,
            kind="postgresql",
            database="shop",
            version="180006",
            system_identifier="7",
            timeline=1,
        ),
        covers=Coverage(to_position=position, from_time=at, to_time=at),
        tables=tables,
        catalog=FileRecord(path="data/shop_db/schema/b/catalog-1.json", size=2, sha256="0" * 64),
        schema_dump=None,
        whole=whole,
    )
