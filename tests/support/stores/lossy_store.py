"""A store whose replies can be lost."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.storage import ObjectStore
from holdfast.storage.contract.object_store import StoredDocument
from locking.store import Listing, ObjectInfo, StoreOutcomeUnknown


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
        self.endpoint = store.endpoint
        self.signing = store.signing
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

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        return self._store.list(prefix, start_after=start_after, most=most)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        return self._store.first(prefix, count)

    def read(self, key: str) -> StoredDocument:
        return self._store.read(key)

    def get(self, key: str) -> bytes:
        return self._store.get(key)
