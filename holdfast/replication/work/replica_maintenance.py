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
    """Open an archive to compact or truncate it.

    A replica has to lead for that, and starts at the log's head.

    :param check: raises if this work must not go on.
    :param wait: seconds for another replica that leads, and for locks that others hold on this one.
    :param coordination: address of the store with its log; None for what the environment says.
    :raises BusyError: another replica leads; names it.
    :raises LockBusy: another process works on this replica, such as a sync; names it.
    :raises UsageError: it is a replica, and nothing says where its log is.
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
    """Return the state that compactions and truncations are planned by.

    It is for dry runs, which change nothing.

    :param coordination: address of the store with the log of its replicas; None for what the environment says.
    :raises HoldfastError: it is a replica, and its coordination store cannot be reached.
    :raises UsageError: it is a replica, and nothing says where its log is.
    """
    if archive.state.log is None:
        return archive.settled()
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.replica import settled

    with opened(coordination) as log_store:
        return settled(archive, log_store)


@contextmanager
def vacuum_permit(store: ObjectStore, *, dry_run: bool = False, coordination: AnyAddress = None) -> Iterator[Permit]:
    """Yield the permit that a vacuum asks before files are deleted.

    :param dry_run: nothing is to be changed, in the coordination store either.
    :param coordination: address of that store; None for what the environment says.
    :raises HoldfastError: it is a replica, and its coordination store cannot be reached.
    :raises LostReplicaError, OldStoreError: the replica has to be recovered first, or the store is another one.
    :raises UsageError: it is a replica, and nothing says where its log is.
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
