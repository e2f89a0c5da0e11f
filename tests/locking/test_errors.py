"""Errors of locks, as they cross from one process to another."""

from __future__ import annotations

import pickle

import pytest

from locking import (
    InvalidLockName,
    LockBusy,
    LockError,
    LockInfo,
    LockLost,
    LockNotFound,
    LockOvertaken,
    LockStateUnknown,
)
from locking.errors import UnreadableRecord

BLOCKER = LockInfo(
    resource="history", mode="W", txn="f" * 32, owner=None, purpose="vacuum", since=None, age_s=1.0, expires_in_s=None,
    state="held",
)  # fmt: skip


@pytest.mark.parametrize("kind", [LockBusy, LockOvertaken])
def test_who_was_in_the_way_comes_along(kind: type[LockBusy]) -> None:
    error = kind("history is held", (BLOCKER,))
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(found), str(found), found.blockers) == (kind, "history is held", (BLOCKER,))
    assert kind("history is held").blockers == ()


@pytest.mark.parametrize(
    "kind", [LockBusy, LockLost, LockNotFound, LockOvertaken, LockStateUnknown, InvalidLockName, UnreadableRecord]
)
def test_whoever_catches_errors_of_locks_catches_all(kind: type[LockError]) -> None:
    error = kind("it is so")
    assert isinstance(error, LockError)
    assert str(pickle.loads(pickle.dumps(error))) == "it is so"  # noqa: S301 - our own bytes
