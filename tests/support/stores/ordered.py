"""Folders whose listings are said to be in key order: rightly, and wrongly."""

from __future__ import annotations

import time

from holdfast.storage.folder import FolderStore
from locking.store import Listing


class Ordered(FolderStore):
    """What a listing in key order gives: one of a folder's passes may miss a client that moves, two do not."""

    listing_is_ordered = True

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        first = super().list(prefix, start_after=start_after, most=most)
        second = super().list(prefix, start_after=start_after, most=most)
        both = {info.key: info for info in (*first.objects, *second.objects)}
        return Listing(tuple(both.values()), second.now) if "moved-" in prefix else second


class ReadsBackwards(Ordered):
    """Claims an order, and reads later names first."""

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        if "moved-" not in prefix:
            return super().list(prefix, start_after=start_after, most=most)
        late = FolderStore.list(self, prefix)
        time.sleep(0.05)
        early = FolderStore.list(self, prefix)
        found = [info for info in late.objects if info.key > f"{prefix}001"]
        return Listing((*(info for info in early.objects if info.key <= f"{prefix}001"), *found), early.now)
