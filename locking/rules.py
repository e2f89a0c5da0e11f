"""Rules of precedence between attempts at a lock.

Ids break ties only among writers that have both announced themselves. Readers always give way to writers, so a writer
may wait for them, and no circle of waiting comes of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from locking.names import excludes

if TYPE_CHECKING:
    from locking.folder import FolderClaim, Look
    from locking.store import ObjectInfo


class Verdict(Enum):
    """Next step of an attempt."""

    CLEAR = auto()  # no other is in the way
    LOOK_AGAIN = auto()  # those in the way are bound to leave: keep the intent and look again
    WITHDRAW = auto()  # give way


@dataclass(frozen=True, slots=True)
class View:
    """A look, through the eyes of one transaction.

    :param announced: whether its own intent has been written
    """

    look: Look
    txn: str
    announced: bool

    @property
    def others(self) -> list[FolderClaim]:
        return [claim for claim in self.look.living() if claim.txn != self.txn]


@dataclass(frozen=True, slots=True)
class Ruling:
    """Verdict, with the claims and objects that caused it."""

    verdict: Verdict
    blockers: tuple[FolderClaim, ...] = ()
    foreign: tuple[ObjectInfo, ...] = ()


def writer_may_enter(view: View) -> Ruling:
    """Return the ruling on a writer, which needs the folder for itself alone."""
    stronger = tuple(claim for claim in view.others if _writer_gives_way(view, claim))
    if stronger or view.look.foreign:
        return Ruling(Verdict.WITHDRAW, stronger, view.look.foreign)
    if view.others:
        return Ruling(Verdict.LOOK_AGAIN, tuple(view.others))
    return Ruling(Verdict.CLEAR)


def reader_may_enter(view: View) -> Ruling:
    """Return the ruling on a reader, which gives way to any writer."""
    writers = tuple(claim for claim in view.others if excludes("R", claim.mode))
    if writers or view.look.foreign:
        return Ruling(Verdict.WITHDRAW, writers, view.look.foreign)
    return Ruling(Verdict.CLEAR)


def _writer_gives_way(view: View, claim: FolderClaim) -> bool:
    if claim.mode == "R":
        return False  # a reader's intent withdraws by itself; a held one drains
    if claim.target is not None:
        return True
    return not view.announced or claim.txn < view.txn
