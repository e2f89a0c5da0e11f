"""Folder of one lock, with its keys and its contents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from locking.errors import LockLost
from locking.names import WORDS, LockName, Mode, check_resource, check_root, excludes, is_resource, parse_name
from locking.store import MOST_OBJECTS, Listing, LockStore, ObjectInfo
from locking.terms import CLOCK_STEP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from locking.runtime import Clock


@dataclass(frozen=True, slots=True)
class FolderClaim:
    """Objects of one transaction in the folder: an intent, a target, or both."""

    txn: str
    mode: Mode
    intent: ObjectInfo | None = None
    target: ObjectInfo | None = None

    @property
    def newest(self) -> ObjectInfo:
        """Return the object whose age counts: the target, once that is there."""
        info = self.target or self.intent
        if info is None:
            raise ValueError(f"Transaction {self.txn} has no object.")
        return info

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(info.key for info in (self.intent, self.target) if info is not None)


@dataclass(frozen=True, slots=True)
class Look:
    """Contents of a lock's folder, as one check saw them.

    :param started: the looker's own clock before the first request
    :param now: the store's clock, not before ``started``
    :param claims: by transaction id, in its order; those of ended transactions too
    :param dead: the DEAD markers, by transaction id
    :param foreign: objects that are not ours; the lock fails closed on them
    """

    started: float
    now: datetime
    claims: Mapping[str, FolderClaim]
    dead: Mapping[str, ObjectInfo]
    foreign: tuple[ObjectInfo, ...]

    def age(self, info: ObjectInfo) -> float:
        """Return the seconds, at least 0, since the store saw the object written."""
        return max(0.0, (self.now - info.modified).total_seconds())

    def living(self) -> Iterable[FolderClaim]:
        """Return the claims that count: those of transactions that were not ended."""
        return (claim for claim in self.claims.values() if claim.txn not in self.dead)

    def without(self, txns: Collection[str], intents: Collection[str]) -> Look:
        """Return this look without the claims of ``txns`` and the intents of ``intents``."""
        claims = {
            txn: replace(claim, intent=None) if txn in intents else claim
            for txn, claim in self.claims.items()
            if txn not in txns
        }
        return replace(self, claims=claims)


class LockFolder:
    def __init__(self, store: LockStore, root: str, resource: str) -> None:
        self.store = store
        self.root = check_root(root)
        self.resource = check_resource(resource)
        self._prefix = f"{root}/{resource}/"

    def intent(self, mode: Mode, txn: str) -> str:
        return f"{self._prefix}INTENT.{WORDS[mode]}.{txn}"

    def target(self, mode: Mode, txn: str) -> str:
        return f"{self._prefix}{WORDS[mode]}.{txn}"

    def marker(self, txn: str) -> str:
        return f"{self._prefix}DEAD.{txn}"

    def look(self, clock: Clock) -> Look:
        """Return one check's view of the folder: one listing, or the union of two.

        Two where a listing is not read in key order: it can miss a client that moves from intent to target meanwhile;
        its target then stands before the second begins.
        """
        started = clock.monotonic()
        listing = list_union(self.store, self._prefix)
        return _sort(started, listing, self._prefix)

    def glance(self, clock: Clock) -> Look:
        """Return the view of one listing: enough for objects that stand still, such as DEAD markers."""
        started = clock.monotonic()
        return _sort(started, self.store.list(self._prefix, most=MOST_OBJECTS), self._prefix)


def list_union(store: LockStore, prefix: str, most: int | None = MOST_OBJECTS) -> Listing:
    """Return all objects of one listing, or of either of two where they are not in key order.

    The time is the first listing's, the objects' times are the second's: an age is never overstated.
    """
    first = store.list(prefix, most=most)
    if store.listing_is_ordered:
        return first
    infos = {info.key: info for info in first.objects}
    infos |= {info.key: info for info in store.list(prefix, most=most).objects}
    return Listing(tuple(infos[key] for key in sorted(infos)), first.now)


def looks_by_resource(
    store: LockStore, root: str, clock: Clock, also: Iterable[str] = (), *, most: int | None = MOST_OBJECTS
) -> dict[str, Look]:
    """Return a look into every folder below ``root``, by one check; ``also`` into these, if empty."""
    started = clock.monotonic()
    listing = list_union(store, f"{check_root(root)}/", most)
    folders: dict[str, list[ObjectInfo]] = {resource: [] for resource in also}
    for info in listing.objects:
        folders.setdefault(info.key[len(root) + 1 :].partition("/")[0], []).append(info)
    return {
        resource: _sort(started, Listing(tuple(objects), listing.now), _own_prefix(root, resource))
        for resource, objects in folders.items()
    }


def _own_prefix(root: str, resource: str) -> str:
    """Return the key prefix of our objects; "" for a folder whose name is not ours."""
    return f"{root}/{resource}/" if is_resource(resource) else ""


def _sort(started: float, listing: Listing, prefix: str) -> Look:
    claims: dict[str, FolderClaim] = {}
    dead: dict[str, ObjectInfo] = {}
    foreign: list[ObjectInfo] = []
    for info in listing.objects:
        name = parse_name(info.key.removeprefix(prefix))
        if name is not None and name.kind == "dead":
            dead[name.txn] = info
        elif name is None or (claim := _add(claims.get(name.txn), name, info)) is None:
            foreign.append(info)
        else:
            claims[name.txn] = claim
    return Look(started, listing.now, dict(sorted(claims.items())), dead, tuple(foreign))


def _add(claim: FolderClaim | None, name: LockName, info: ObjectInfo) -> FolderClaim | None:
    """Return the claim with one more object; None where no transaction of ours would have both."""
    if name.mode is None or (claim is not None and claim.mode != name.mode):
        return None
    claim = claim or FolderClaim(name.txn, name.mode)
    return replace(claim, intent=info) if name.kind == "intent" else replace(claim, target=info)


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
