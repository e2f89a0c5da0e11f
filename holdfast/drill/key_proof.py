"""Proofs that a copy of an archive's key opens it: drills that had the key from there alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.archive.format.runs import RunLog, listed_runs
from holdfast.common.errors import UsageError
from holdfast.operations.job_process import new_run_id
from holdfast.storage import SealedStore

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.operations.requests.drill import DrillRequest
    from holdfast.storage import ObjectStore

PREFIX = "key-proof."
"""Prefix of the names of their records."""


def by_copy(archive: ArchiveContext, request: DrillRequest) -> ArchiveContext:
    """Return the context of an archive with the copy of its key that a drill names, if any; UsageError as below."""
    if not request.key:
        return archive
    check_copy(request.key, archive.keys.key)
    return replace(archive, keys=archive.keys._replace(key=request.key))


def check_copy(address: str, usual: str | None) -> None:
    """Raise UsageError if the address of a key's copy is that of the key in use: a drill would prove nothing."""
    if address == usual:
        raise UsageError(f"{address} is the key in use: name the address of its copy")


def record_proof(store: ObjectStore, drill: str) -> None:
    """Record that the key that opened a store is right; `drill` is the name of the drill's record."""
    key = store.key if isinstance(store, SealedStore) else None
    with RunLog(store, new_run_id(PREFIX), "key proof") as log:
        log.result = {"drill": drill, "key": key, "wrapped_by": _wrapped_by(store)}


def last_proof(store: ObjectStore) -> datetime | None:
    """Return when a copy of the key in use was last proved, by the store's clock.

    A proof of a key that was exchanged since does not count. Requests: two, without a key none.
    """
    wrapped_by = _wrapped_by(store)
    if wrapped_by is None:
        return None
    for found in filter(None, (run.newest() for run in reversed(listed_runs(store, PREFIX)))):
        if found.record.state == "succeeded" and (found.record.result or {}).get("wrapped_by") == wrapped_by:
            return found.at
    return None


def _wrapped_by(store: ObjectStore) -> str | None:
    """Return the fingerprint of an archive's key; "" for a service's key, None without encryption."""
    ring = store.ring() if isinstance(store, SealedStore) else None
    return ring.document.wrapped_by if ring else None
