"""Store that asks once for what cannot have changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.storage.encryption.signed_store import SignedStore
from locking.store import Listing

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.common.signing import Signing
    from holdfast.storage.contract.object_store import ObjectStore, StoredDocument

_WRITTEN_ONCE: Final = ("runs/", "locks/")
"""Objects below these never change: a record has a number, and the record of a lock its transaction."""

_SELDOM_LISTED: Final = ("runs/drill-", "runs/break-", "runs/key-proof.", "runs/verification/")
"""Records that come a few times a day. Of all runs there may be hundreds of thousands: they are never listed."""

_MOST_DOCUMENTS: Final = 2000

_AT_ONCE: Final = 2
"""Listings, beside that of commits and that of locks, that one look may take."""


class RememberedStore(SignedStore):
    """Store that reads each document once, and lists drills, breaks and verifications in turns."""

    def __init__(self, inner: ObjectStore, key: str | None = None, signing: Signing | None = None) -> None:
        super().__init__(inner, key, signing)
        self._remembering = threading.Lock()
        self._listings: dict[str, Listing] = {}
        self._documents: dict[str, StoredDocument] = {}
        self._now: datetime | None = None

    def begin_look(self) -> None:
        """Let the next look list what was listed longest ago: four listings at most."""
        with self._remembering:
            # Where listings are not in key order, that of locks is made twice.
            for prefix in list(self._listings)[: _AT_ONCE if self.listing_is_ordered else _AT_ONCE - 1]:
                del self._listings[prefix]

    def forget(self) -> None:
        """Let the next look list everything."""
        with self._remembering:
            self._listings.clear()

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        if prefix == IDENTITY_KEY and self._now is not None:
            return Listing((), self._now)  # it is listed for the store's time alone
        seldom = next((listed for listed in _SELDOM_LISTED if prefix.startswith(listed)), None)
        if seldom is None or start_after or most is not None:
            return self._timed(super().list(prefix, start_after=start_after, most=most))
        with self._remembering:
            listing = self._listings.get(seldom)
        if listing is None:
            listing = self._timed(super().list(seldom))
            with self._remembering:
                self._listings[seldom] = listing
        return Listing(tuple(info for info in listing.objects if info.key.startswith(prefix)), listing.now)

    def _timed(self, listing: Listing) -> Listing:
        self._now = listing.now
        return listing

    def read(self, key: str) -> StoredDocument:
        if not key.startswith(_WRITTEN_ONCE):
            return super().read(key)
        with self._remembering:
            document = self._documents.get(key)
        if document is None:
            document = super().read(key)
            if document.is_believed:
                with self._remembering:
                    self._documents[key] = document
                    while len(self._documents) > _MOST_DOCUMENTS:
                        del self._documents[next(iter(self._documents))]
        return document
