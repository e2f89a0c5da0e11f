"""Who holds what, for people and programs that look on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locking.folder import LockFolder, looks_by_resource
from locking.info import LockInfo, Records, describe_claim, describe_foreign
from locking.runtime import SYSTEM, Runtime

if TYPE_CHECKING:
    from locking.store import LockStore


def inspect(store: LockStore, root: str = "locks", *, runtime: Runtime = SYSTEM) -> list[LockInfo]:
    """Every lock and every attempt at one, by resource and transaction; changes nothing.

    One listing (two where they are not ordered) and one GET for each lock.
    """
    found: list[LockInfo] = []
    for resource, look in sorted(looks_by_resource(store, root, runtime.clock).items()):
        found += [describe_foreign(resource, look, info) for info in look.foreign]
        if look.claims:
            folder = LockFolder(store, root, resource)
            records = Records(folder)
            found += [describe_claim(folder, look, claim, records.of(claim)) for claim in look.claims.values()]
    return found
