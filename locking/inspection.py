"""Inspection of locks, for people and programs that look on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locking.folder import LockFolder, looks_by_resource
from locking.info import LockInfo, Records, describe_claim, describe_foreign
from locking.names import Mode, excludes
from locking.runtime import SYSTEM, Runtime

if TYPE_CHECKING:
    from collections.abc import Collection

    from locking.folder import Look
    from locking.store import LockStore


def inspect(store: LockStore, root: str = "locks", *, runtime: Runtime = SYSTEM) -> list[LockInfo]:
    """Return every lock and every attempt, by resource and transaction.

    Nothing is changed. One listing (two where they are not ordered) and one GET for each lock.
    """
    found: list[LockInfo] = []
    for resource, look in sorted(looks_by_resource(store, root, runtime.clock).items()):
        found += [describe_foreign(resource, look, info) for info in look.foreign]
        if look.claims:
            folder = LockFolder(store, root, resource)
            records = Records(folder)
            found += [describe_claim(folder, look, claim, records.of(claim)) for claim in look.claims.values()]
    return found


def blockers(
    store: LockStore, resource: str, *, mode: Mode, root: str = "locks", runtime: Runtime = SYSTEM
) -> list[LockInfo]:
    """Return the locks that would keep an acquirer of ``resource`` out now.

    Nothing is changed. What is expired or dead does not count: whoever acquires ends it. One check, and one GET for
    each claim.
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
    """Return one look into the folders of several locks.

    It is for an acquirer that is about to take them all. Nothing is changed. One listing of the root (two where they
    are not ordered) instead of one for each lock.
    """
    looks = looks_by_resource(store, root, runtime.clock, also=resources)
    return {resource: looks[resource] for resource in resources}
