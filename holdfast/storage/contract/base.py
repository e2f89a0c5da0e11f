"""The object store that archives live in: small objects through it, bulk data through its filesystem."""

from __future__ import annotations

import contextlib
import threading
import uuid
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any

from locking.store import (
    Listing,
    ObjectExists,
    ObjectInfo,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pyarrow.fs import FileSystem

PROBE_ROUNDS = 3

_DELETED_AT_ONCE = 8


class ObjectStore(ABC):
    """Objects under keys, at one URL. Safe for threads; a pickled store opens the same URL again.

    It is a :class:`locking.store.LockStore` with what an archive needs beyond that. Errors are those of
    :mod:`locking.store`; a key that is none raises :class:`holdfast.storage.contract.keys.InvalidKey`.
    """

    url: str
    """Where the store is; never contains a secret."""

    endpoint: str = ""
    """The address of the server behind the URL, where the URL does not say it; never contains a secret."""

    key: str | None = None
    """The address of the key that opens what is there; None where nothing is encrypted, as far as is known."""

    clock_source: str = "unknown"
    """In words: where the times in listings come from."""

    listing_is_ordered: bool

    @property
    def is_encrypted(self) -> bool:
        """Whether what is written through this store is encrypted by it."""
        return False

    def begin(self, like: ObjectStore | None = None) -> None:  # noqa: B027 - most stores have nothing to do
        """Make an empty place ready for an archive: a store with a key makes its data keys, if there are none.

        :param like: where the archive is copied from; under the same key, a copy has the same data keys, so that an
            object of one can be put in the place of the other's.
        """

    @abstractmethod
    def list(self, prefix: str, *, start_after: str = "") -> Listing:
        """Every object whose key starts with ``prefix`` and sorts after ``start_after``, by key."""

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        """The first objects of a listing, by key: so many at most, and no more work than they are.

        A cloud's placeholder of a folder below the prefix may leave fewer: nobody may conclude from that.
        """
        return self.list(prefix).objects[:count]

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Size and time of one object; raises :class:`ObjectNotFound`."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The whole content of a small object; raises :class:`ObjectNotFound`."""

    @abstractmethod
    def put(self, key: str, body: bytes) -> None:
        """Write or replace an object; readers see the old content or the new, never a part."""

    @abstractmethod
    def create(self, key: str, body: bytes) -> None:
        """Write an object only if the key is free, decided by the store in one step.

        :raises ObjectExists: the key was taken; nothing was changed
        :raises StoreOutcomeUnknown: read the key back to learn whose content it has
        """

    def replace(self, key: str, body: bytes, etag: str) -> None:
        """Replace an object only if it still has this etag, decided by the store in one step.

        :raises ObjectChanged: it has another; nothing was changed
        :raises ConditionNotSupported: the store does not offer this
        """
        raise ConditionNotSupported(f"Could not replace {key!r}: {self.url} does not offer compare-and-swap.")

    def gated(self, gate: Callable[[], None]) -> ObjectStore:
        """This store, but that ``create`` and ``replace`` call ``gate`` before the last byte of a request is sent.

        For measurements of what the store does with requests that are under way together. A store that does not send
        its requests in parts is returned as it is.
        """
        del gate
        return self

    @abstractmethod
    def touch(self, key: str, body: bytes) -> None:
        """Make the object's ``modified`` the store's present time (:meth:`LockStore.touch`)."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; removing what is not there succeeds."""

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        """Remove objects for good: where the store keeps older versions of them, those, too.

        What is not there counts as removed. Only for keys that are never written again: a request that was lost
        may be repeated.

        :returns: the keys of those that may still be there, each with what the store said;
            :class:`ObjectRetained` where it must keep the object for now
        """

        def remove(key: str) -> StoreError | None:
            try:
                self.delete(key)
            except StoreError as error:
                return error
            return None

        with ThreadPoolExecutor(_DELETED_AT_ONCE) as pool:
            return {key: error for key, error in zip(keys, pool.map(remove, keys), strict=True) if error is not None}

    @abstractmethod
    def filesystem(self) -> tuple[FileSystem, str]:
        """The pyarrow filesystem for bulk data, and this store's root path inside it."""

    @abstractmethod
    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """A binary file to fill with a new object of any size.

        The object appears, durable, when the block ends without an error; after an error nothing stays.
        Keys are meant to be unique per attempt; where the store can tell, a taken key raises
        :class:`ObjectExists`.
        """

    @abstractmethod
    def open_read(self, key: str) -> IO[bytes]:
        """A seekable binary file on one object; raises :class:`ObjectNotFound`."""

    def copy_from(self, source: ObjectStore, key: str, size: int, sha256: str) -> bool:
        """Copy an object of another store to the same key here without its bytes passing through this process.

        It appears whole and only with this SHA-256 (in hex), which the store has computed itself.

        :returns: False: nothing was done. The two stores cannot do this, or what was copied had another checksum: send
            the bytes, to find out
        :raises ObjectExists: the key was taken; nothing was changed
        :raises StoreOutcomeUnknown: it may be there
        """
        del source, key, size, sha256
        return False

    def probe_create_if_absent(self, threads: int = 8) -> bool:
        """Whether of several concurrent creates of one key exactly one wins, and its content stands.

        Servers that call themselves S3-compatible have let several win. Leaves nothing behind.
        """
        return all(self._one_creator_wins(threads) for _ in range(PROBE_ROUNDS))

    def _one_creator_wins(self, threads: int) -> bool:
        key = f"probes/create-{uuid.uuid4().hex}"
        barrier = threading.Barrier(threads)

        def contend(number: int) -> bytes | None:
            body = f"creator {number}".encode()
            barrier.wait()
            try:
                self.create(key, body)
            except ObjectExists:
                return None
            return body

        try:
            with ThreadPoolExecutor(threads) as pool:
                winners = [body for body in pool.map(contend, range(threads)) if body is not None]
            return len(winners) == 1 and self.get(key) == winners[0]
        except ConditionNotSupported:
            return False
        finally:
            # A scratch object that could not be removed is only litter; the probe's answer stands.
            with contextlib.suppress(StoreError):
                self.delete(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_url, (self.url,)

    @classmethod
    @abstractmethod
    def from_url(cls, url: str) -> ObjectStore:
        """The store at ``url`` as its own :attr:`url` says it."""


class StoreFull(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """There is no room left (disk or quota); nothing was written."""


class ConditionNotSupported(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """The store does not know the condition of this request, such as create-if-absent."""


class ObjectRetained(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """The store keeps the object for now, whoever asks (object lock): try again later.

    :param until: when that ends by itself; None for a legal hold, which somebody has to take back
    """

    def __init__(self, message: str, until: datetime | None = None) -> None:
        super().__init__(message, until)
        self.message = message
        self.until = until

    def __str__(self) -> str:
        return self.message


class ObjectChanged(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """The object is not what it was when it was looked at, so it was not replaced."""


def without_answer(action: str, key: str, why: str, *, writes: bool) -> StoreError:
    """Return what a request means whose answer never came, or says nothing about what was done.

    :param action: what was tried, for the message: "read", "list", …
    :param writes: whether it may have changed something
    """
    if writes:
        return StoreOutcomeUnknown(f"Whether {key!r} was changed is not known: look before trying again ({why}).")
    return StoreUnavailable(f"Could not {action} {key!r}: {why}.")
