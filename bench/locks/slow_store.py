"""A store that is as far away as one says, and counts what it is asked."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from locking.store import LockStore

if TYPE_CHECKING:
    from locking.store import Listing

PAGE = 1000
"""Keys in one page of a listing, as S3 has it."""


class SlowStore(LockStore):
    """Another store whose every request takes so much longer; safe for threads but for the counts.

    :param latency: seconds that each request waits before it is sent; a listing waits once for each page.
    :param ordered: what it says of the order of its listings; None for the truth. Saying so where it is not
        true makes locks unsafe: only for who measures without rivals.
    """

    def __init__(self, store: LockStore, latency: float, *, ordered: bool | None = None) -> None:
        self._store = store
        self._latency = latency
        self._ordered = store.listing_is_ordered if ordered is None else ordered
        self.requests = 0
        self.pages = 0

    @property
    def listing_is_ordered(self) -> bool:
        return self._ordered

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        self._wait()
        listing = self._store.list(prefix, most=most)
        pages = max(1, math.ceil(len(listing.objects) / PAGE))
        self.pages += pages
        for _ in range(pages - 1):
            self._wait()
        return listing

    def get(self, key: str) -> bytes:
        self._wait()
        return self._store.get(key)

    def put(self, key: str, body: bytes) -> None:
        self._wait()
        self._store.put(key, body)

    def delete(self, key: str) -> None:
        self._wait()
        self._store.delete(key)

    def touch(self, key: str, body: bytes) -> None:
        self._wait()
        self._store.touch(key, body)

    def _wait(self) -> None:
        self.requests += 1
        if self._latency:
            time.sleep(self._latency)
