"""Interface of the object stores that archives live in.

Small objects are read and written whole, data files through `open_read` and `open_write`. Scans use `filesystem()`.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from abc import ABC, abstractmethod
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from holdfast.common.errors import DamagedError, RefusedError
from holdfast.common.side_by_side import do_side_by_side
from holdfast.common.signing import Signing
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

PROBE_TRIES = 5
"""Of a round whose answers are lost, at most."""

_DELETED_AT_ONCE = 8

LARGEST_DOCUMENT = 1 << 30
"""Bytes of an object that is read whole into memory, at most: a commit of some millions of files has so many."""


class Extended(NamedTuple):
    """Result of extending object locks."""

    looked_at: int  # objects that were asked how long they are locked
    extended: int  # those whose lock ended too soon
    failed: Mapping[str, StoreError]  # those that could not be asked or extended, by key, with the reason


class StoredDocument(NamedTuple):
    """Small object as it is stored."""

    body: bytes  # its content; `signed`: with its signature, if it has one, for `create_signed` of another store
    signed: bytes
    is_believed: bool = True  # a key that is known here has signed it, or no signature is asked for
    signer: str = ""  # fingerprint of the key that it says to be signed by, which proves nothing; "" for none


class ObjectStore(ABC):
    """Objects under keys, at one URL: a :class:`locking.store.LockStore` with what an archive needs.

    It is safe for threads; a pickled store opens the same URL again. A key that is none raises `InvalidKey`.
    """

    url: str  # where the store is; never contains a secret

    endpoint: str = ""
    """The address of the server behind the URL, where the URL does not say it; never contains a secret."""

    key: str | None = None
    """The address of the key that opens what is there; None where nothing is encrypted, as far as is known."""

    signing: Signing = Signing()
    """Who signs what is written to the archive that is there, and whose signatures are believed."""

    clock_source: str = "unknown"  # in words: where the times in listings come from

    listing_is_ordered: bool

    @property
    def locks_objects(self) -> bool:
        return False

    def extend_locks(self, keys: Sequence[str]) -> Extended:
        """Extend the locks of objects that end before half time."""
        return Extended(len(keys), 0, {})

    def harmful_rules(self) -> tuple[str, ...]:
        """Return the store's rules that hide or delete objects, in words."""
        return ()

    @property
    def bare(self) -> ObjectStore:
        """Return the store that has the objects as they are stored: this one, unless it seals what it stores."""
        return self

    @property
    def is_encrypted(self) -> bool:
        """Return whether this store encrypts the objects written through it."""
        return False

    def begin(self, like: ObjectStore | None = None) -> None:  # noqa: B027 - most stores have nothing to do
        """Prepare an empty store for an archive: one with a key makes its data keys, if there are none.

        :param like: where the archive is copied from; under the same key, a copy has the same data keys, so that an
            object of one can be put in the place of the other's.
        """

    @abstractmethod
    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        """Return all objects with a prefix, behind ``start_after``, by key; TooManyObjects: more than ``most``."""

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        """Return the first objects of a listing, at most ``count``, by as much work.

        A cloud's placeholder of a folder below the prefix may leave fewer: that there are fewer proves nothing.
        """
        return self.list(prefix).objects[:count]

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Return the size and time of one object; raises :class:`ObjectNotFound`."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """Return the content of a small object; raises :class:`ObjectNotFound`."""

    def read(self, key: str) -> StoredDocument:
        """Return a small object, and whether it is to be believed; `get` refuses one that is not."""
        body = self.get(key)
        return StoredDocument(body, body)

    def create_signed(self, key: str, body: bytes) -> None:
        """Create an object as another store has it signed; errors as for `create`."""
        self.create(key, body)

    @abstractmethod
    def put(self, key: str, body: bytes) -> None:
        """Write or replace an object in one step: readers never see a part."""

    @abstractmethod
    def create(self, key: str, body: bytes) -> None:
        """Create an object, only if the key is free: the store decides that in one step.

        :raises ObjectExists: the key was taken; nothing was changed
        :raises StoreOutcomeUnknown: read the key back to learn whose content it has
        """

    def replace(self, key: str, body: bytes, etag: str) -> None:
        """Replace an object only if it has this etag, in one step; ObjectChanged, ConditionNotSupported: it was not."""
        raise ConditionNotSupported(f"Could not replace {key!r}: {self.url} does not offer compare-and-swap.")

    def gated(self, gate: Callable[[], None]) -> ObjectStore:
        """Return this store with ``gate`` called before the last byte of each create and replace.

        This is for measurements of what the store does with requests that are under way together. A store that does not
        send its requests in parts is returned as it is.
        """
        del gate
        return self

    def impatient(self) -> ObjectStore:
        """Return this store, with short requests that are not repeated: for a look at one that may hang."""
        return self

    @abstractmethod
    def touch(self, key: str, body: bytes) -> None:
        """Make the object's ``modified`` the store's present time (:meth:`LockStore.touch`)."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        """Remove objects for good, with all older versions; return the errors by key.

        What is not there counts as removed. Only for keys that are never written again: a request that was lost may be
        repeated. :class:`ObjectRetained` where the store must keep the object for now.
        """

        return _delete_each(self, keys)

    def delete_each(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        """Remove objects as `delete` does, by few requests where the store can; return the errors by key."""
        return _delete_each(self, keys)

    @abstractmethod
    def filesystem(self) -> tuple[FileSystem, str]:
        """Return the pyarrow filesystem for bulk data, and the root path in it."""

    @abstractmethod
    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Open a new object of any size as a binary file to fill.

        The object appears, durable, when the block ends without an error; after an error nothing stays. Keys are meant
        to be unique per attempt; where the store can tell, a taken key raises :class:`ObjectExists`.
        """

    @abstractmethod
    def open_read(self, key: str) -> IO[bytes]:
        """Open an object as a seekable binary file; raises :class:`ObjectNotFound`."""

    def copy_from(self, source: ObjectStore, key: str, size: int, sha256: str) -> bool:
        """Copy an object of another store to the same key here, without its bytes in this process.

        It appears whole and only with this SHA-256 (in hex), which the store has computed itself.

        :returns: False: nothing was done. The two stores cannot do this, or what was copied had another checksum: send
            the bytes, to find out
        :raises ObjectExists: the key was taken; nothing was changed
        :raises StoreOutcomeUnknown: it may be there
        """
        del source, key, size, sha256
        return False

    def probe_create_if_absent(self, threads: int = 8) -> bool:
        """Return whether exactly one of several concurrent creates wins, and its content stands.

        The content of the winner must stand, too. Servers that call themselves S3-compatible have let several win.
        Leaves nothing behind. A round whose answers were lost proves nothing, and is repeated.

        :raises StoreOutcomeUnknown: answers were lost each time
        """
        again = Retrying(
            retry=retry_if_exception_type(StoreOutcomeUnknown), stop=stop_after_attempt(PROBE_TRIES), reraise=True
        )
        return all(again(self._one_creator_wins, threads) for _ in range(PROBE_ROUNDS))

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
            winners = [body for body in do_side_by_side(contend, range(threads), at_once=threads) if body is not None]
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
        """Return the store at a URL in the form of :attr:`url`."""


class StoreFull(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """Store without room left, on its disk or in its quota: nothing was written."""


class ObjectTooLarge(DamagedError, StoreError):  # noqa: N818 - named after the situation, like the store errors
    """Object that is larger than any document of an archive."""


def check_document(key: str, size: int) -> None:
    """Raise :class:`ObjectTooLarge` rather than read into memory what is larger than any document."""
    if size > LARGEST_DOCUMENT:
        raise ObjectTooLarge(
            f"{key} is damaged or not ours: it has {size:,} bytes. Restore this object from a copy of the archive, or "
            "remove it if it is not needed."
        )


def check_new_document(key: str, size: int) -> None:
    """Raise RefusedError rather than write a document, of so many stored bytes, that no one could read."""
    if size > LARGEST_DOCUMENT:
        raise RefusedError(
            f"{key} would have {size:,} bytes, and documents of an archive have {LARGEST_DOCUMENT:,} at the most: "
            "nothing was added. It names too many files: back up fewer tables at once, by several sources with "
            "'tables' of their own in archives.yaml"
        )


class ConditionNotSupported(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """Condition of a request, such as create-if-absent, that the store does not know."""


class ObjectRetained(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """Object that the store has to keep for now (object lock), for every user.

    :param until: when that ends by itself; None for a legal hold, which an administrator has to take back
    """

    def __init__(self, message: str, until: datetime | None = None) -> None:
        super().__init__(message, until)
        self.message = message
        self.until = until

    def __str__(self) -> str:
        return self.message


class ObjectChanged(StoreError):  # noqa: N818 - named after the situation, like the store errors
    """Object that has changed since it was looked at, and was not replaced."""


def throttled(
    what: str, headers: Mapping[str, str], kind: type[StoreUnavailable] = StoreUnavailable
) -> StoreUnavailable:
    """Return the error for a busy server's refusal; `Retry-After` counts in seconds (RFC 9110, 10.2.3)."""
    error = kind(what)
    seconds = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    error.retry_after = float(seconds) if seconds.isascii() and seconds.isdigit() else 0.0
    return error


class ObjectArchived(StoreError):  # noqa: N818 - as above
    """Object in a storage class out of which nothing is read at once, by a rule or a person."""

    @classmethod
    def in_class(cls, action: str, key: str, storage_class: str, bring_back: str) -> ObjectArchived:
        """Return the error for an object that could not be "read", …, with the store's words to bring it back."""
        return cls(
            f"Could not {action} {key!r}: it was moved to the storage class {storage_class}, out of which nothing is "
            f"read at once. Bring it back ({bring_back}), as all others that were moved, and let no lifecycle rule "
            "move objects of an archive there ('holdfast probe' names such rules; see docs/object-lock.md)."
        )


def without_answer(action: str, key: str, why: str, *, writes: bool) -> StoreError:
    """Return the error for a request without a conclusive answer: after a write, the outcome is unknown."""
    why = why.rstrip(".")  # some clients say sentences
    if writes:
        return StoreOutcomeUnknown(f"Whether {key!r} was changed is not known: look before trying again ({why}).")
    return StoreUnavailable(f"Could not {action} {key!r}: {why}.")


def _delete_each(store: ObjectStore, keys: Sequence[str]) -> Mapping[str, StoreError]:
    def remove(key: str) -> StoreError | None:
        try:
            store.delete(key)
        except StoreError as error:
            return error
        return None

    errors = zip(keys, do_side_by_side(remove, keys, at_once=_DELETED_AT_ONCE), strict=True)
    return {key: error for key, error in errors if error is not None}
