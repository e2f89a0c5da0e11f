"""Additional steps of a replica's maintenance.

Most archives are at one place: what talks to a coordination store is imported only where there is one.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.archive.archive import Archive
from holdfast.archive.maintenance.vacuum import Permit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.format.state import State
    from holdfast.replication.log.settings import AnyAddress
    from holdfast.storage import ObjectStore


@contextmanager
def opened_for_maintenance(
    store: ObjectStore, *, check: Callable[[], None], wait: float = 0.0, coordination: AnyAddress = None
) -> Iterator[Archive]:
    """Open an archive to compact or truncate it; a replica has to lead for that, and starts at the log's head.

    :param check: raises if this work must not go on.
    :param wait: seconds for another leader (BusyError), and for locks on this replica (LockBusy).
    :param coordination: address of the store with its log; None for what the environment says.
    """
    archive = Archive.open(store)
    archive.check_may_add()
    if archive.state.log is None:
        yield archive
        return
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.leading import leading
    from holdfast.replication.work.replica import ReplicatedArchive

    until = time.monotonic() + wait
    with (
        opened(coordination) as log_store,
        leading(ReplicatedArchive.begin(store, log_store), wait=wait) as replica,
    ):
        replica.catch_up(check=check, wait=max(0.0, until - time.monotonic()))
        yield replica


def state_to_plan(archive: Archive, coordination: AnyAddress = None) -> State:
    """Return the state that dry runs of compactions and truncations are planned by."""
    if archive.state.log is None:
        return archive.settled()
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.replica import settled

    with opened(coordination) as log_store:
        return settled(archive, log_store)


@contextmanager
def vacuum_permit(store: ObjectStore, *, dry_run: bool = False, coordination: AnyAddress = None) -> Iterator[Permit]:
    """Yield the permit that a vacuum asks before files are deleted; a dry run changes nothing in the store.

    :raises HoldfastError: it is a replica, and its store cannot be reached, or contradicts it, or it is lost.
    """
    archive = Archive.open(store)
    if archive.state.log is None:
        yield Permit()
        return
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.replica import ReplicatedArchive
    from holdfast.replication.work.replica_vacuum import ReplicaPermit

    with opened(coordination) as log_store:
        acting = None if dry_run else ReplicatedArchive.begin(store, log_store).in_use()[1]
        yield ReplicaPermit(log_store, archive.identity.id, acting)
