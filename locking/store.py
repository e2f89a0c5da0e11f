"""Protocol of a lock's store, with an error for each outcome.

What matters is whether a request *certainly* had no effect or its outcome is not known: after the second, nothing may
be assumed and nothing cleaned up as if it had failed.
"""

# The names are public surface (they read as the situation, not as the mechanism).
# ruff: noqa: N818

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

MOST_OBJECTS = 10_000
"""Objects that a folder of locks, keys, marks or checkpoints may have: a thousand readers at once leave some thousands.

Every writer of a store chooses how many there are.
"""


class StoreError(Exception):
    """Request to the store that failed; the message says which one, and what to do.

    :ivar retry_after: seconds that the store asks to wait before the next request; 0: it asks for nothing.
    """

    retry_after: float = 0.0


class ObjectNotFound(StoreError):
    """Object that is not there."""


class TooManyObjects(StoreError):
    """Listing of more objects than its reader takes."""


class ObjectExists(StoreError):
    """Object that is there already, so that it was not created."""


class StoreDenied(StoreError):
    """Request that the store refused for its credentials or permission; never retried."""


class StoreUnavailable(StoreError):
    """Request that certainly changed nothing, refused, throttled or only a read: try again."""


class StoreOutcomeUnknown(StoreError):
    """Write that may or may not have happened, or may still: time-out, cut connection, error 500."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as a listing shows it.

    :param key: its name, relative to the store's root, parts separated by ``/``
    :param size: bytes
    :param modified: aware UTC, by the *store's* clock; may be rounded down to a whole second
    :param etag: changes when the content does; without quotes
    """

    key: str
    size: int
    modified: datetime
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Answer to one listing.

    :param objects: ordered by key
    :param now: the store's own clock, aware UTC, read after the listing was asked for and not later than its first page
        arrived; may be rounded down to a whole second. So ``now - modified`` is an object's age when the listing began,
        give or take a second.
    """

    objects: tuple[ObjectInfo, ...]
    now: datetime


def check_listed(prefix: str, listed: int, most: int | None) -> None:
    """Raise :class:`TooManyObjects` where more than ``most`` objects were listed."""
    if most is not None and listed > most:
        raise TooManyObjects(
            f"{prefix} has more than {most:,} objects, and no more are read there. Remove those that are not needed by "
            "the store's own means; of locks, 'holdfast locks reap' removes what is over."
        )


class LockStore(Protocol):
    """A store with read-after-write and list-after-write consistency.

    Every method may raise :class:`StoreDenied` and :class:`StoreUnavailable`; ``put``, ``touch`` and
    ``delete`` also :class:`StoreOutcomeUnknown`. No method repeats a write on its own.
    """

    @property
    def listing_is_ordered(self) -> bool:
        """Return whether one listing reads the names in key order, so that a check needs no second one."""
        ...

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        """Return every object with a key that starts with ``prefix``.

        :param most: so many, at most; None: however many there are
        :raises TooManyObjects: there are more; no more of them were read
        """
        ...

    def get(self, key: str) -> bytes:
        """Return an object's content; raises :class:`ObjectNotFound`."""
        ...

    def put(self, key: str, body: bytes) -> None: ...

    def delete(self, key: str) -> None:
        """Remove the object, if it is there."""
        ...

    # A store may also have ``delete_each(keys)``, which does what ``delete`` does for many keys with few requests, and
    # returns the error of each that may still be there. Without it they are deleted one by one.

    def touch(self, key: str, body: bytes) -> None:
        """Make the object's ``modified`` the store's present time; ``body`` is its present content.

        A store that can do so leaves the object in place and raises :class:`ObjectNotFound` where it is gone; one that
        cannot writes ``body`` again, which brings a removed object back.
        """
        ...
