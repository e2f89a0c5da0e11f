"""A store in the memory of one process, for many: its listings are snapshots, as those of the known clouds are ordered.

No server that could be had here promises an order, and on a store that does not, a check takes two listings.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, cast

from locking.store import Listing, LockStore, ObjectInfo, ObjectNotFound, check_listed

if TYPE_CHECKING:
    from collections.abc import Iterator


class MemoryStore(LockStore):
    """Objects in a dictionary; one request at a time."""

    listing_is_ordered = True

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, datetime]] = {}
        self._guard = threading.Lock()

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        with self._guard:
            found = [
                ObjectInfo(key, len(body), modified, hashlib.sha256(body).hexdigest())
                for key, (body, modified) in sorted(self._objects.items())
                if key.startswith(prefix)
            ]
            check_listed(prefix, len(found), most)
            return Listing(tuple(found), datetime.now(UTC))

    def get(self, key: str) -> bytes:
        with self._guard:
            if key not in self._objects:
                raise ObjectNotFound(f"{key} is not there.")
            return self._objects[key][0]

    def put(self, key: str, body: bytes) -> None:
        with self._guard:
            self._objects[key] = (body, datetime.now(UTC))

    def delete(self, key: str) -> None:
        with self._guard:
            self._objects.pop(key, None)

    def touch(self, key: str, body: bytes) -> None:
        self.put(key, body)


class _Server(BaseManager):
    """Serves one store over a socket; the clients' proxies survive a fork."""


_Server.register("store", MemoryStore, exposed=["list", "get", "put", "delete", "touch"])


@contextmanager
def serving() -> Iterator[LockStore]:
    """Start a process with an empty store; yield what reaches it from here and from forked children."""
    with _Server() as server:
        yield cast("LockStore", server.store())  # type: ignore[attr-defined] # made by register()
