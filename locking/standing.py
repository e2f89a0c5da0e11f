"""Validity of a held lock, as one look shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locking.errors import LockLost
from locking.names import Mode, excludes
from locking.terms import CLOCK_STEP

if TYPE_CHECKING:
    from locking.folder import LockFolder, Look


def must_stand(look: Look, folder: LockFolder, *, mode: Mode, txn: str, lease: float) -> float:
    """Return the target's age in seconds by the store's clock; LockLost says why it is lost."""
    _not_ended(look, folder, txn)
    check_alone(look, folder, mode, txn)
    claim = look.claims.get(txn)
    if claim is None or claim.target is None:
        raise LockLost(f"The lock of {folder.resource} is gone from the store (txn {txn}).")
    age = look.age(claim.target)
    if age > lease + CLOCK_STEP:
        # The holder's own clock may have stood still with its machine.
        raise LockLost(f"The lease of {folder.resource} is over by the store's clock (txn {txn}).")
    return age


def _not_ended(look: Look, folder: LockFolder, txn: str) -> None:
    if txn in look.dead:
        raise LockLost(f"Another client ended the lock of {folder.resource} (txn {txn}).")


def check_alone(look: Look, folder: LockFolder, mode: Mode, txn: str) -> None:
    for other in look.living():
        if other.txn != txn and other.target is not None and excludes(mode, other.mode):
            raise LockLost(f"{folder.resource} has another holder (txn {other.txn}) beside us (txn {txn}).")
