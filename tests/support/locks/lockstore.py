"""A store in memory whose time stands still unless told, and whose every request can be watched or spoilt."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from locking.runtime import Runtime
from locking.store import Listing, ObjectInfo, ObjectNotFound, check_listed

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeTime:
    """One clock for store and holders; sleeping moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def date(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def runtime(self) -> Runtime:
        """A runtime on this clock, with half of each jitter and ids that count up."""
        return Runtime(clock=self, jitter=lambda: 0.5, new_txn=Counter())


class Counter:
    """Transaction ids in rising order, unless told otherwise."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> str:
        self.last += 1
        return f"{self.last:032x}"


@dataclass(frozen=True)
class Request:
    """One request as the store saw it; ``word`` is "list", "get", "put", "delete" or "touch"."""

    word: str
    key: str

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2].partition(".")[0]


Hook = Callable[[Request], None]


def _nothing(request: Request) -> None:
    del request


class MemoryStore:
    """A :class:`locking.store.LockStore`.

    :param before: called before each request takes effect; may raise, so that it does not
    :param after: called after each has; may raise, so that its answer is lost
    """

    def __init__(self, time: FakeTime | None = None, *, listing_is_ordered: bool = True) -> None:
        self.time = time or FakeTime()
        self.listing_is_ordered = listing_is_ordered
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.requests: list[Request] = []
        self.before: Hook = _nothing
        self.after: Hook = _nothing
        self._guard = threading.RLock()

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        request = self._begin("list", prefix)
        now = self.time.date()
        with self._guard:
            found = tuple(
                ObjectInfo(key=key, size=len(body), modified=modified, etag=str(hash(body)))
                for key, (body, modified) in sorted(self.objects.items())
                if key.startswith(prefix)
            )
        check_listed(prefix, len(found), most)
        self.after(request)
        return Listing(found, now)

    def get(self, key: str) -> bytes:
        request = self._begin("get", key)
        if key not in self.objects:
            raise ObjectNotFound(f"{key} is not there.")
        body = self.objects[key][0]
        self.after(request)
        return body

    def put(self, key: str, body: bytes) -> None:
        request = self._begin("put", key)
        self.place(key, body)
        self.after(request)

    def touch(self, key: str, body: bytes) -> None:
        request = self._begin("touch", key)
        self.place(key, body)
        self.after(request)

    def delete(self, key: str) -> None:
        request = self._begin("delete", key)
        with self._guard:
            self.objects.pop(key, None)
        self.after(request)

    def place(self, key: str, body: bytes) -> None:
        """Put an object without a request."""
        with self._guard:
            self.objects[key] = (body, self.time.date())

    def names(self) -> builtins.list[str]:
        """The last parts of all keys, less the transaction ids: ``["INTENT.WRIT", "READ"]``."""
        return [key.rpartition("/")[2].rpartition(".")[0] for key in sorted(self.objects)]

    def words(self) -> builtins.list[str]:
        """The requests since the last :meth:`forget`: ``["list", "put INTENT", …]``."""
        return [f"{each.word} {each.name}".strip() for each in self.requests]

    def forget(self) -> None:
        self.requests.clear()

    def _begin(self, word: str, key: str) -> Request:
        request = Request(word, key)
        self.requests.append(request)
        self.before(request)
        return request
