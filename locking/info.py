"""Descriptions of lock objects, for messages, and for people and programs that look on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from locking.errors import UnreadableRecord
from locking.folder import LockFolder, looks_by_resource
from locking.names import Mode, excludes
from locking.record import LockRecord, decode_record
from locking.runtime import SYSTEM, Runtime
from locking.store import ObjectNotFound
from locking.terms import CLOCK_STEP

if TYPE_CHECKING:
    from collections.abc import Collection

    from locking.folder import FolderClaim, Look
    from locking.owner import Owner
    from locking.store import LockStore, ObjectInfo
    from locking.terms import Terms

State = Literal["held", "intent", "expired", "dead", "unreadable", "foreign"]

_KIND: dict[Mode, str] = {"R": "reading", "W": "writing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """Description of a lock, or of an attempt at one.

    :param mode: "R", "W", or "" where the object is not ours
    :param txn: the transaction's id; the object's key where it is not ours
    :param since: when it was asked for, by the store's clock; None where that cannot be known
    :param age_s: seconds since then, or else since its object was written
    :param expires_in_s: seconds until every client may end it unless it is renewed; None where none may
    :param detail: why a record cannot be read
    """

    resource: str
    mode: Mode | Literal[""]
    txn: str
    owner: Owner | None
    purpose: str
    since: datetime | None
    age_s: float
    expires_in_s: float | None
    state: State
    detail: str = ""

    def describe(self) -> str:
        """Return who is in the way, what for and since when, as one clause."""
        if self.state == "foreign":
            return f"{self.txn} is not an object of ours (remove it if it is not needed)"
        if self.state == "unreadable":
            return f"{self.resource} has a lock {self.txn} that cannot be read: {self.detail}"
        verb = {"intent": "is requested", "dead": "was held"}.get(self.state, "is held")
        owner = self.owner.describe() if self.owner else "an owner who is just leaving"
        purpose = f" for {self.purpose}" if self.purpose else ""
        kind = _KIND[self.mode] if self.mode else "use"
        since = f"since {self.since:%Y-%m-%d %H:%M:%S} UTC, " if self.since else ""
        return (
            f"{self.resource} {verb} for {kind}{purpose} by {owner}, {since}{_span(self.age_s)} by now (txn {self.txn})"
        )


class Records:
    """Records of one folder, each read once, since they never change."""

    def __init__(self, folder: LockFolder) -> None:
        self._folder = folder
        self._read: dict[str, LockRecord | UnreadableRecord] = {}

    def of(self, claim: FolderClaim) -> LockRecord | UnreadableRecord | None:
        """Return the claim's record, or the error in it; None where the object has just gone."""
        if claim.txn not in self._read:
            try:
                body = self._folder.store.get(claim.newest.key)
            except ObjectNotFound:
                return None
            try:
                self._read[claim.txn] = decode_record(
                    body, resource=self._folder.resource, mode=claim.mode, txn=claim.txn
                )
            except UnreadableRecord as error:
                self._read[claim.txn] = error
        return self._read[claim.txn]


def is_over(look: Look, claim: FolderClaim, terms: Terms) -> bool:
    """Return whether the lease and grace of a claim's target, or of its lone intent, are over."""
    if claim.target is not None:
        return look.age(claim.target) > terms.expiry
    return intent_is_over(look, claim, terms)


def lease_is_over(look: Look, claim: FolderClaim, terms: Terms) -> bool:
    """Return whether no owner can trust the claim; its requests may still be under way."""
    limit = terms.lease if claim.target is not None else terms.attempt_lease
    return look.age(claim.newest) > limit + CLOCK_STEP


def intent_is_over(look: Look, claim: FolderClaim, terms: Terms) -> bool:
    """Return whether the claim has an intent that outlived every attempt."""
    return claim.intent is not None and look.age(claim.intent) > terms.attempt_expiry


def describe_claim(
    folder: LockFolder, look: Look, claim: FolderClaim, record: LockRecord | UnreadableRecord | None
) -> LockInfo:
    state: State = "held" if claim.target is not None else "intent"
    expires: float | None = None
    age = look.age(claim.newest)
    if isinstance(record, LockRecord):
        limit = record.terms.expiry if claim.target is not None else record.terms.attempt_expiry
        expires = limit - age
        age = max(age, (look.now - record.since).total_seconds())
        state = "expired" if is_over(look, claim, record.terms) else state
    elif record is not None:
        state = "unreadable"
    if claim.txn in look.dead:
        state = "dead"
    known = record if isinstance(record, LockRecord) else None
    return LockInfo(
        resource=folder.resource,
        mode=claim.mode,
        txn=claim.txn,
        owner=known.owner if known else None,
        purpose=known.purpose if known else "",
        since=known.since if known else None,
        age_s=age,
        expires_in_s=expires,
        state=state,
        detail=str(record) if isinstance(record, UnreadableRecord) else "",
    )


def describe_foreign(resource: str, look: Look, info: ObjectInfo) -> LockInfo:
    return LockInfo(
        resource=resource,
        mode="",
        txn=info.key,
        owner=None,
        purpose="",
        since=None,
        age_s=look.age(info),
        expires_in_s=None,
        state="foreign",
    )


def inspect(store: LockStore, root: str = "locks", *, runtime: Runtime = SYSTEM) -> list[LockInfo]:
    """Return every lock and every attempt, by resource and transaction; nothing is changed.

    One listing (two where they are not ordered) and one GET for each lock.
    """
    infos: list[LockInfo] = []
    for resource, look in sorted(looks_by_resource(store, root, runtime.clock).items()):
        infos += [describe_foreign(resource, look, info) for info in look.foreign]
        if look.claims:
            folder = LockFolder(store, root, resource)
            records = Records(folder)
            infos += [describe_claim(folder, look, claim, records.of(claim)) for claim in look.claims.values()]
    return infos


def blockers(
    store: LockStore, resource: str, *, mode: Mode, root: str = "locks", runtime: Runtime = SYSTEM
) -> list[LockInfo]:
    """Return the locks that would keep an acquirer out now; nothing is changed.

    What is expired or dead does not count: the next acquirer ends it. One check, and one GET for each claim.
    """
    folder = LockFolder(store, root, resource)
    look = folder.look(runtime.clock)
    records = Records(folder)
    claims = [describe_claim(folder, look, claim, records.of(claim)) for claim in look.living()]
    held = [info for info in claims if info.mode and excludes(mode, info.mode) and info.state != "expired"]
    return held + [describe_foreign(resource, look, info) for info in look.foreign]


def look_into(
    store: LockStore, resources: Collection[str], *, root: str = "locks", runtime: Runtime = SYSTEM
) -> dict[str, Look]:
    """Return a look into each of several locks, for one who takes them all; nothing is changed.

    One listing of the root (two where they are not ordered) instead of one for each lock.
    """
    looks = looks_by_resource(store, root, runtime.clock, also=resources)
    return {resource: looks[resource] for resource in resources}


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
