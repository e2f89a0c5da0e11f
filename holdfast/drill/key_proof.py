"""Proofs that a copy of an archive's key opens it: drills that had the key from there, and from nowhere else."""

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
    """Return the context of an archive that is opened by the copy of its key that a drill names, if it names one.

    :raises UsageError: as `check_copy`.
    """
    if not request.key:
        return archive
    check_copy(request.key, archive.keys.key)
    return replace(archive, keys=archive.keys._replace(key=request.key))


def check_copy(address: str, usual: str | None) -> None:
    """Check that the address of a key's copy is not that of the key in use.

    :param usual: where the key is looked up by all others; None: nowhere.
    :raises UsageError: it is the same, so that a drill would prove nothing of any copy.
    """
    if address == usual:
        raise UsageError(f"{address} is where the key is looked up every day: name the place of its copy")


def record_proof(store: ObjectStore, drill: str) -> None:
    """Record that the key by which a store was opened is right.

    :param drill: name of the drill's record.
    """
    key = store.key if isinstance(store, SealedStore) else None
    with RunLog(store, new_run_id(PREFIX), "key proof") as log:
        log.result = {"drill": drill, "key": key, "wrapped_by": _wrapped_by(store)}


def last_proof(store: ObjectStore) -> datetime | None:
    """Return when a copy of the key in use was last proved, by the store's clock.

    A proof of a key that was exchanged since does not count. Requests: two, none where there is no key.
    """
    wrapped_by = _wrapped_by(store)
    if wrapped_by is None:
        return None
    for found in filter(None, (run.newest() for run in reversed(listed_runs(store, PREFIX)))):
        if found.record.state == "succeeded" and (found.record.result or {}).get("wrapped_by") == wrapped_by:
            return found.at
    return None


def _wrapped_by(store: ObjectStore) -> str | None:
    """Return the fingerprint of the key that opens an archive; "" where a service does; None: it is not encrypted."""
    ring = store.ring() if isinstance(store, SealedStore) else None
    return ring.document.wrapped_by if ring else None
