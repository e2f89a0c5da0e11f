"""Small blocks made up for tests of the archive, and a store whose replies can be lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.archive.model import Block, Coverage, FileRecord, SourceRecord, TableRecord
from holdfast.storage import ObjectStore
from locking.store import Listing, ObjectInfo, StoreOutcomeUnknown


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


class FaultyCreates:
    """Stands before a store; each create does what the next entry of `script` says.

    "lost": it happens, the reply is lost. "late": it does not happen now, the reply is lost, and it
    happens just before the next create. "never": it does not happen, the reply is lost.
    """

    def __init__(self, store: ObjectStore, script: list[str]) -> None:
        self._store = store
        self._script = script
        self._late: list[Callable[[], None]] = []
        self.creates = 0
        self.url = store.url
        self.listing_is_ordered = store.listing_is_ordered

    def create(self, key: str, body: bytes) -> None:
        self.creates += 1
        for late in self._late:
            late()
        self._late.clear()
        step = self._script.pop(0) if self._script else "ok"
        if step in ("lost", "ok"):
            self._store.create(key, body)
        if step == "late":
            self._late.append(lambda: self._store.create(key, body))
        if step != "ok":
            raise StoreOutcomeUnknown(f"the reply to creating {key} was lost")

    def list(self, prefix: str, *, start_after: str = "") -> Listing:
        return self._store.list(prefix, start_after=start_after)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        return self._store.first(prefix, count)

    def get(self, key: str) -> bytes:
        return self._store.get(key)
