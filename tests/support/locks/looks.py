"""Looks into a lock's folder, made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from locking.folder import FolderClaim, Look
from locking.names import WORDS, Mode
from locking.store import ObjectInfo
from tests.support.locks.lockstore import START


def txn(number: int) -> str:
    return f"{number:032x}"


def object_at(key: str, second: float = 0.0) -> ObjectInfo:
    """Return an object that was written so many seconds after the start."""
    return ObjectInfo(key=key, size=1, modified=START + timedelta(seconds=second), etag="x")


def claim(number: int, mode: Mode, *, intent: float | None = None, target: float | None = None) -> FolderClaim:
    """Return the claim of a transaction, with the seconds at which its objects were written."""
    word = f"{WORDS[mode]}.{txn(number)}"
    return FolderClaim(
        txn(number),
        mode,
        intent=None if intent is None else object_at(f"locks/a/INTENT.{word}", intent),
        target=None if target is None else object_at(f"locks/a/{word}", target),
    )


def look(*claims: FolderClaim, now: float = 0.0, dead: Mapping[int, float] | None = None, foreign: int = 0) -> Look:
    """Return a look at some second.

    :param dead: by number of a transaction, when its marker was written.
    """
    return Look(
        started=now,
        now=START + timedelta(seconds=now),
        claims={each.txn: each for each in claims},
        dead={txn(number): object_at(f"locks/a/DEAD.{txn(number)}", at) for number, at in (dead or {}).items()},
        foreign=tuple(object_at(f"locks/a/note-{number}") for number in range(foreign)),
    )
