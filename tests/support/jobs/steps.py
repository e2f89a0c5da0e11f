"""Numbers every step of a job, and ends its process at a chosen one.

A step is a request to the store, a statement or connection to the database, or a program that is started. The
settings that every session begins with are none: nothing depends on where among them a process ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal, cast

import psycopg
import psycopg.sql
from pyarrow.fs import FileSystem

from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.session import SETTINGS_QUERY
from holdfast.storage import ObjectStore
from locking.store import Listing, ObjectInfo

When = Literal["before", "after"]


@dataclass(frozen=True)
class Kill:
    """Where a process is to end: at a step, by its number among those with some words in their names."""

    at: int
    named: str = ""
    when: When = "before"


_OF_ONE_ALONE = re.compile(r"[0-9a-f-]{8,}|\d+", re.IGNORECASE)
"""Ids, attempts and numbers, by which steps of one kind differ."""

_OF_THE_STORE = ("put", "create", "touch", "delete", "begin", "write", "end", "COPY", "transaction", "start", "wait")
_CHANGING_SELECT = re.compile(r"\b(pg_\w*(?:slot|advisory|lock)\w*|setval|nextval|lo_\w+)\b")


def _kind(step: str) -> str:
    """Return the kind of a step: what changes something is told apart finely, and what only looks by its first word."""
    first, *others = step.split()[:2] or [""]
    changing = _CHANGING_SELECT.search(step)
    if first.lower() == "select":
        return changing.group() if changing else first
    if first in _OF_THE_STORE:
        return _OF_ONE_ALONE.sub("#", step)
    return first if first in ("list", "get", "head", "read") else " ".join([first, *others]).lower()


def one_of_each_kind(steps: Sequence[str]) -> list[int]:
    """Return the numbers of steps, from 1, of which each is the last of its kind: a proof that can be made often."""
    return sorted({_kind(name): number for number, name in enumerate(steps, 1)}.values())


_NO_STEPS = frozenset({SETTINGS_QUERY})


class Steps:
    """Counts steps, from any thread, and kills this process right before or right after one of them.

    :param at: the number of that step, from 1; 0 lets the process live.
    :param tell: is told the name of each step as it begins.
    :param named: only steps with this in their name are counted.
    :param end: the signal that ends it, or suspends it.
    """

    def __init__(
        self,
        at: int,
        when: When,
        tell: Callable[[str], None],
        named: str = "",
        end: signal.Signals = signal.SIGKILL,
    ) -> None:
        self._end = end
        self._at = at
        self._named = named
        self._when = when
        self._tell = tell
        self._lock = threading.Lock()
        self._count = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        with self._lock:
            counts = self._named in name
            self._count += counts
            mine = counts and self._count == self._at
            self._tell(name)
        if mine and self._when == "before":
            os.kill(os.getpid(), self._end)
        yield
        if mine and self._when == "after":
            os.kill(os.getpid(), self._end)


def before_first(words: str, action: Callable[[], None]) -> Steps:
    """Return steps that do something right before the first of them with these words in its name."""
    done: list[str] = []

    def tell(name: str) -> None:
        if words in name and not done:
            done.append(name)
            action()

    return Steps(0, "before", tell)


class SteppedStore(ObjectStore):
    """A store each of whose requests is a step; of a file that is written, its begin, every write and its end."""

    def __init__(self, store: ObjectStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps
        self.url = store.url
        self.listing_is_ordered = store.listing_is_ordered

    @classmethod
    def from_url(cls, url: str) -> ObjectStore:
        raise NotImplementedError("what is counted stays in its process")

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        with self._steps.step(f"list {prefix}"):
            return self._store.list(prefix, start_after=start_after, most=most)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        with self._steps.step(f"list {prefix}"):
            return self._store.first(prefix, count)

    def head(self, key: str) -> ObjectInfo:
        with self._steps.step(f"head {key}"):
            return self._store.head(key)

    def get(self, key: str) -> bytes:
        with self._steps.step(f"get {key}"):
            return self._store.get(key)

    def put(self, key: str, body: bytes) -> None:
        with self._steps.step(f"put {key}"):
            self._store.put(key, body)

    def create(self, key: str, body: bytes) -> None:
        with self._steps.step(f"create {key}"):
            self._store.create(key, body)

    def touch(self, key: str, body: bytes) -> None:
        with self._steps.step(f"touch {key}"):
            self._store.touch(key, body)

    def delete(self, key: str) -> None:
        with self._steps.step(f"delete {key}"):
            self._store.delete(key)

    def filesystem(self) -> tuple[FileSystem, str]:
        raise NotImplementedError("its requests would not be counted")

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        with ExitStack() as stack:
            with self._steps.step(f"begin {key}"):
                file = stack.enter_context(self._store.open_write(key))
            yield cast(IO[bytes], _SteppedFile(file, key, self._steps))
            with self._steps.step(f"end {key}"):
                stack.close()

    def open_read(self, key: str) -> IO[bytes]:
        with self._steps.step(f"read {key}"):
            return self._store.open_read(key)


class _SteppedFile:
    def __init__(self, file: IO[bytes], key: str, steps: Steps) -> None:
        self._file = file
        self._key = key
        self._steps = steps

    def write(self, data: bytes) -> int:
        with self._steps.step(f"write {self._key}"):
            return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def count_database_steps(steps: Steps) -> None:
    """Make steps of what this process does with databases, for the rest of its life."""
    _count(psycopg, "connect", steps, lambda *_, **__: "connect")
    _count(psycopg.Cursor, "execute", steps, lambda cursor, query, *_, **__: _words(query))
    _count(psycopg.Cursor, "executemany", steps, lambda cursor, query, *_, **__: _words(query))
    _count(psycopg.Connection, "close", steps, lambda *_: "close")
    for part in ("__enter__", "write", "__exit__"):
        _count(psycopg.Copy, part, steps, lambda *_, part=part: f"COPY {part}")
    for part in ("__enter__", "__exit__"):
        _count(psycopg.Transaction, part, steps, lambda *_, part=part: f"transaction {part}")
    _count(ArrowSession, "__init__", steps, lambda *_: "connect by ADBC")
    for part in ("execute", "batches"):
        _count(ArrowSession, part, steps, lambda session, query: _words(query))
    _count(ArrowSession, "close", steps, lambda *_: "close by ADBC")
    _count(subprocess.Popen, "__init__", steps, lambda program, command, **_: f"start {command[0]}")
    _count(subprocess.Popen, "communicate", steps, lambda *_, **__: "wait for a program")


def _count(owner: Any, name: str, steps: Steps, describe: Callable[..., str]) -> None:
    original = getattr(owner, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        name = describe(*arguments, **options)
        if name in _NO_STEPS:
            return original(*arguments, **options)
        with steps.step(name):
            return original(*arguments, **options)

    setattr(owner, name, counted)


def _words(query: object) -> str:
    if isinstance(query, psycopg.sql.Composable):
        query = query.as_string(None)
    if isinstance(query, bytes):
        query = query.decode()
    return " ".join(str(query).split())
