"""Ending locks on purpose, one or all that are over: first the marker, then the deletes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from locking.errors import LockNotFound
from locking.folder import LockFolder, looks_by_resource
from locking.info import LockInfo, Records, describe_claim
from locking.reaper import Reaper, none_finished, put_marker
from locking.record import LockRecord
from locking.runtime import SYSTEM, Runtime
from locking.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from locking.folder import Look
    from locking.owner import Owner
    from locking.store import LockStore


@dataclass(frozen=True, slots=True)
class Ended:
    """A lock as it was, or an attempt at one, that was ended, with the reason."""

    lock: LockInfo
    reason: str


def end(
    store: LockStore, resource: str, txn: str, *, reason: str, root: str = "locks", runtime: Runtime = SYSTEM
) -> LockInfo:
    """End one lock, or one attempt, whoever holds it; return it as it was.

    Its holder finds out at its next check. What it writes until then is not prevented by any lock.

    :param reason: kept in the marker, which says besides which process ended it
    :raises LockNotFound: there is nothing of this transaction; nothing was changed
    :raises StoreError: it is not certain that it was ended; it may be done again
    """
    folder = LockFolder(store, root, resource)
    look = folder.look(runtime.clock)
    claim = look.claims.get(txn)
    if claim is None:
        raise LockNotFound(f"{resource} has no lock {txn}: nothing was ended.")
    record = Records(folder).of(claim)
    put_marker(folder, txn, reason, record.terms if isinstance(record, LockRecord) else Terms())
    # Also what the look did not show: an attempt may have come as far as its target meanwhile.
    for key in (folder.intent(claim.mode, txn), folder.target(claim.mode, txn)):
        store.delete(key)
    return describe_claim(folder, look, claim, record)


def reap(
    store: LockStore,
    root: str = "locks",
    *,
    finished: Callable[[Owner], bool] = none_finished,
    runtime: Runtime = SYSTEM,
) -> list[Ended]:
    """End the locks and attempts that are over, and return them; a healthy lock never goes.

    Over is what outlived its lease and grace, what belongs to a process that is proved gone from this machine, and what
    came late to a transaction that had been ended. Intents left beside a healthy lock, and markers that nothing can
    come late to any more, go without being counted.

    :param finished: whether an owner has finished, as a scheduler says it; asked only of locks whose lease is over, and
        saves their grace. False where that is not known.
    """
    ended: list[Ended] = []
    for resource, look in sorted(looks_by_resource(store, root, runtime.clock, most=None).items()):
        if look.claims or look.dead:
            ended += _reap_folder(LockFolder(store, root, resource), look, finished)
    return ended


def _reap_folder(folder: LockFolder, look: Look, finished: Callable[[Owner], bool]) -> list[Ended]:
    records = Records(folder)
    infos = {txn: describe_claim(folder, look, claim, records.of(claim)) for txn, claim in look.claims.items()}
    reaper = Reaper(folder, records, Terms(), finished=finished)
    reaper.sweep(reaper.tidy(look, own="", suspects=tuple(look.claims.values())), own="")
    return [Ended(infos[txn], reason) for txn, reason in reaper.ended.items()]
