"""Removal of objects that owners leave: expired locks, intents, and what came late."""

from __future__ import annotations

from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING

from locking.errors import UnreadableRecord
from locking.info import Records, intent_is_over, is_over, lease_is_over
from locking.one_line import line_logger
from locking.owner import Owner, process_is_gone
from locking.record import DeadMarker, LockRecord, decode_marker, encode_marker
from locking.store import ObjectInfo, ObjectNotFound
from locking.terms import MARKER_LIFE, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from locking.folder import FolderClaim, LockFolder, Look
    from locking.store import LockStore, StoreError

log = line_logger(__name__)


class Fate(Enum):
    """Decision on another owner's claim."""

    LEAVE = auto()
    DROP_INTENT = auto()
    BURY = auto()


def none_finished(owner: Owner) -> bool:
    """Return False, since no owner is known to have finished."""
    del owner
    return False


class Reaper:
    """Reaper of one lock's folder: every client may end what is over, twice or by many.

    :param finished: whether an owner has finished, as a scheduler says it. That saves the grace, never the lease: a
        process of a task that was given up may still be at work.
    :param given_up: transactions of this process that are over, and whose objects it could not remove
    """

    def __init__(
        self,
        folder: LockFolder,
        records: Records,
        terms: Terms,
        *,
        finished: Callable[[Owner], bool] = none_finished,
        given_up: Collection[str] = (),
    ) -> None:
        self._folder = folder
        self._records = records
        self._terms = terms
        self._finished = finished
        self._given_up = given_up
        self._most: int | None = None
        self.ended: dict[str, str] = {}  # why, for each transaction that was ended

    def tidy(self, look: Look, *, own: str, suspects: Collection[FolderClaim]) -> Look:
        """End suspects that are over; return the look without them. Only their records are read."""
        return self._end(look, [claim for claim in suspects if claim.txn != own])

    def leaves(self, look: Look, *, own: str) -> bool:
        """Return whether there is anything to sweep."""
        return any(self._old(look, own)) or any(self._forgettable(look))

    def sweep(self, look: Look, *, own: str, most: int | None = None) -> None:
        """End what is over and in no client's way, and remove markers that have served.

        The records of claims are read that would be over on our own terms, or were ended.

        :param look: a new one: what it does not show may have come late since
        :param most: so many claims, and so many markers; None: all
        """
        self._end(look, list(islice(self._old(look, own), most)))
        self._most = most
        self._forget_markers(look)

    def _end(self, look: Look, claims: Iterable[FolderClaim]) -> Look:
        buried: set[str] = set()
        dropped: set[str] = set()
        for claim in claims:
            fate, reason, terms = self._judge(look, claim)
            if fate is Fate.BURY:
                self._bury(claim, reason, terms)
                buried.add(claim.txn)
                self.ended[claim.txn] = reason
            elif fate is Fate.DROP_INTENT and claim.intent is not None:
                self._folder.store.delete(claim.intent.key)
                dropped.add(claim.txn)
        return look.without(buried, dropped)

    def _old(self, look: Look, own: str) -> Iterator[FolderClaim]:
        for claim in look.claims.values():
            oldest = max(look.age(info) for info in (claim.intent, claim.target) if info is not None)
            is_known = claim.txn in look.dead or claim.txn in self._given_up
            if claim.txn != own and (is_known or oldest > self._terms.attempt_expiry):
                yield claim

    def _forgettable(self, look: Look) -> Iterator[ObjectInfo]:
        """Yield old markers, but those this reaper has put again, which are younger than the look says."""
        for txn, info in look.dead.items():
            if txn not in look.claims and txn not in self.ended and look.age(info) > MARKER_LIFE:
                yield info

    def _judge(self, look: Look, claim: FolderClaim) -> tuple[Fate, str, Terms]:
        record = self._records.of(claim)
        if claim.txn in look.dead:
            # What came late, or was renewed late, is ended again: its marker must outlive it.
            terms = record.terms if isinstance(record, LockRecord) else self._terms
            return Fate.BURY, "its transaction had been ended", terms
        if record is None or isinstance(record, UnreadableRecord):
            return Fate.LEAVE, "", self._terms
        if claim.txn in self._given_up:
            return Fate.BURY, "its own process had given it up", record.terms
        if self._ended_with_its_process(record, claim):
            return Fate.BURY, "its process is gone", record.terms
        if is_over(look, claim, record.terms):
            return Fate.BURY, "its lease and grace are over", record.terms
        if lease_is_over(look, claim, record.terms) and self._finished(record.owner):
            return Fate.BURY, "its lease is over and its owner has finished", record.terms
        if intent_is_over(look, claim, record.terms):
            # Its owner may be a healthy holder whose DELETE was lost, so no marker.
            return Fate.DROP_INTENT, "", record.terms
        return Fate.LEAVE, "", record.terms

    def _ended_with_its_process(self, record: LockRecord, claim: FolderClaim) -> bool:
        """Return whether the claim's process is gone and took the claim with it.

        A run's lock outlives the process that took it. Only its intent ends with that process, unless the process made
        it into the lock after our look and ended well: so look again once it is gone.
        """
        if record.owner.scope != "run":
            return process_is_gone(record.owner)
        return claim.target is None and process_is_gone(record.owner) and not self._has_target(claim)

    def _has_target(self, claim: FolderClaim) -> bool:
        try:
            self._folder.store.get(self._folder.target(claim.mode, claim.txn))
        except ObjectNotFound:
            return False
        return True

    def _bury(self, claim: FolderClaim, reason: str, terms: Terms) -> None:
        log.warning("Ending lock %s of %s: %s.", claim.txn, self._folder.resource, reason)
        put_marker(self._folder, claim.txn, reason, terms)
        for key in claim.keys:
            self._folder.store.delete(key)

    def _forget_markers(self, look: Look) -> None:
        some = islice(self._forgettable(look), self._most)
        delete_each(self._folder.store, [info.key for info in some if self._outlived(look, info)])

    def _outlived(self, look: Look, info: ObjectInfo) -> bool:
        try:
            terms = decode_marker(self._folder.store.get(info.key)).terms
        except (ObjectNotFound, UnreadableRecord):
            return False  # the lease that it ended is not known: a newer release may have longer ones
        return look.age(info) > terms.expiry


def delete_each(store: LockStore, keys: Sequence[str]) -> None:
    """Delete objects, by few requests where the store can; StoreError: one may still be there."""
    together: Callable[[Sequence[str]], Mapping[str, StoreError]] | None = getattr(store, "delete_each", None)
    if together is not None and len(keys) > 1:
        for error in together(keys).values():
            raise error
        return
    for key in keys:
        store.delete(key)


def put_marker(folder: LockFolder, txn: str, reason: str, terms: Terms) -> None:
    """Put the marker ``DEAD.<txn>``: from its acknowledgement on, no check counts the transaction.

    It is always put before the objects are deleted, so that a late renewal or a late PUT revives nothing.
    """
    marker = DeadMarker(txn=txn, reason=reason, terms=terms, by=Owner().here())
    folder.store.put(folder.marker(txn), encode_marker(marker))
