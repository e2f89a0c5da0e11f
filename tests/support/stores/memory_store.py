"""A store in memory whose time stands still unless told, and any request to which can fail or be the last."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Literal, cast

from pyarrow.fs import FileSystem

from holdfast.storage import ObjectExists, ObjectNotFound, ObjectStore, StoreError
from locking.store import Listing, ObjectInfo, check_listed


class Killed(BaseException):
    """In place of the end of the process."""


@dataclass(frozen=True)
class Spoilt:
    """A request that goes wrong.

    :param at: its number, from 1.
    :param when: before it takes effect, or after.
    :param error: what is raised; after `Killed` no request succeeds any more.
    """

    at: int
    when: Literal["before", "after"]
    error: BaseException


class MemoryStore(ObjectStore):
    """Objects in memory, with times of a clock of its own; many deletions are one request each, in order."""

    listing_is_ordered = True

    def __init__(self) -> None:
        self.url = "memory"
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.requests: list[str] = []
        self.spoilt: Spoilt | None = None
        self._objects: dict[str, tuple[bytes, datetime]] = {}
        self._guard = threading.RLock()

    @classmethod
    def from_url(cls, url: str) -> ObjectStore:
        raise NotImplementedError("what is in memory stays in its process")

    def advance(self, time: timedelta) -> None:
        """Let time pass."""
        self.now += time

    def copy(self) -> MemoryStore:
        """Return a store with the same objects and time."""
        twin = MemoryStore()
        twin.now, twin._objects = self.now, dict(self._objects)
        return twin

    def keys(self, prefix: str = "") -> set[str]:
        """Return all keys, without a request."""
        return {key for key in self._objects if key.startswith(prefix)}

    @contextmanager
    def _request(self, name: str) -> Iterator[None]:
        with self._guard:
            self.requests.append(name)
            late = len(self.requests) - self.spoilt.at if self.spoilt else -1
            if self.spoilt and late > 0 and isinstance(self.spoilt.error, Killed):
                raise self.spoilt.error
            if self.spoilt and late == 0 and self.spoilt.when == "before":
                raise self.spoilt.error
            yield
            if self.spoilt and late == 0:
                raise self.spoilt.error

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        with self._request(f"list {prefix}"):
            found = sorted(key for key in self._objects if key.startswith(prefix) and key > start_after)
            check_listed(prefix, len(found), most)
            return Listing(tuple(map(self._info, found)), self.now)

    def _info(self, key: str) -> ObjectInfo:
        body, modified = self._objects[key]
        return ObjectInfo(key=key, size=len(body), modified=modified, etag=str(hash((body, modified))))

    def head(self, key: str) -> ObjectInfo:
        with self._request(f"head {key}"):
            self._must_be_there(key)
            return self._info(key)

    def get(self, key: str) -> bytes:
        with self._request(f"get {key}"):
            self._must_be_there(key)
            return self._objects[key][0]

    def _must_be_there(self, key: str) -> None:
        if key not in self._objects:
            raise ObjectNotFound(f"{key} is not there.")

    def put(self, key: str, body: bytes) -> None:
        with self._request(f"put {key}"):
            self._objects[key] = (body, self.now)

    def create(self, key: str, body: bytes) -> None:
        with self._request(f"create {key}"):
            if key in self._objects:
                raise ObjectExists(f"{key} is there already.")
            self._objects[key] = (body, self.now)

    def touch(self, key: str, body: bytes) -> None:
        self.put(key, body)

    def delete(self, key: str) -> None:
        with self._request(f"delete {key}"):
            self._objects.pop(key, None)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        errors: dict[str, StoreError] = {}
        for key in keys:
            try:
                self.delete(key)
            except StoreError as error:
                errors[key] = error
        return errors

    def filesystem(self) -> tuple[FileSystem, str]:
        raise NotImplementedError("there is none")

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        file = io.BytesIO()
        yield file
        self.create(key, file.getvalue())

    def open_read(self, key: str) -> IO[bytes]:
        return cast(IO[bytes], io.BytesIO(self.get(key)))
