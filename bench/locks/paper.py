"""A plain port of the paper's algorithm, to be measured beside ours: no leases, no tie-break, no draining.

After "Put and Verify Transactions for External Storages" by Yu Juncen, function by function. Two things differ.
Its read lock looks for writers below its own target, where none can be, so readers and writers never meet; here it
looks where they are. And the paper says "back off", not how: here as ours does, so that the algorithms are compared.
Nothing here outlives a crash: never use it.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from locking.rwlock import LONGEST_PAUSE
from locking.transaction import FIRST_PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from locking.store import LockStore


class Conflict(Exception):  # noqa: N818 - the paper's word
    """Somebody else's file is in the way."""


@dataclass(frozen=True)
class VerifyWriteContext:
    """What a condition may look at."""

    store: LockStore
    target: str
    txn: str

    @property
    def intent(self) -> str:
        """The name of the intention file."""
        return f"{self.target}.INTENT.{self.txn}"

    def assert_no_other_of_prefix_except(self, prefix: str, expected: str) -> None:
        """Raise Conflict if there is another file with this prefix than the expected one."""
        for info in self.store.list(prefix).objects:
            if info.key != expected:
                raise Conflict(info.key)

    def assert_only_my_intent(self) -> None:
        """Raise Conflict if there is another file with the target's name as prefix."""
        self.assert_no_other_of_prefix_except(self.target, self.intent)


@dataclass(frozen=True)
class ExclusiveWrite:
    """Write a file if nobody else does and a condition holds."""

    target: str
    content: bytes
    verify: Callable[[VerifyWriteContext], None] | None = None

    def commit_to(self, store: LockStore) -> None:
        """Try once; raises Conflict."""
        context = VerifyWriteContext(store, self.target, uuid.uuid4().hex)
        self._check_conflict(context)
        store.put(context.intent, b"")
        try:
            self._check_conflict(context)
            store.put(self.target, self.content)
        finally:
            store.delete(context.intent)

    def _check_conflict(self, context: VerifyWriteContext) -> None:
        if self.verify is not None:
            self.verify(context)
        context.assert_only_my_intent()


def try_lock(store: LockStore, path: str) -> str:
    """Take the mutex or raise Conflict; returns what is to be deleted to release it."""
    ExclusiveWrite(path, b"I got the lock :D").commit_to(store)
    return path


def try_lock_write(store: LockStore, path: str) -> str:
    """Take the lock for writing or raise Conflict; returns what is to be deleted to release it."""

    def verify(context: VerifyWriteContext) -> None:
        context.assert_no_other_of_prefix_except(path, context.intent)

    target = f"{path}.WRIT"
    ExclusiveWrite(target, b"I'm going to write something down :<", verify).commit_to(store)
    return target


def try_lock_read(store: LockStore, path: str) -> str:
    """Take the lock for reading or raise Conflict; returns what is to be deleted to release it."""

    def verify(context: VerifyWriteContext) -> None:
        context.assert_no_other_of_prefix_except(f"{path}.WRIT", "")

    target = f"{path}.READ.{random.getrandbits(63):016x}"
    ExclusiveWrite(target, b"Guess what we will find today =D", verify).commit_to(store)
    return target


def lock(take: Callable[[LockStore, str], str], store: LockStore, path: str, wait: float) -> str:
    """Try until it succeeds, with full jitter between the tries.

    :param wait: seconds; the Conflict after them is raised.
    """
    deadline = time.monotonic() + wait
    backoff = FIRST_PAUSE
    while True:
        began = time.monotonic()
        try:
            return take(store, path)
        except Conflict:
            now = time.monotonic()
            if now >= deadline:
                raise
        time.sleep(min(random.random() * max(backoff, now - began), deadline - now))  # noqa: S311
        backoff = min(2 * backoff, LONGEST_PAUSE)
