"""Consistency check between the coordination store and the replicas.

A store that was brought back from an older copy would give the same index to another entry, and replicas that have
executed the first one would never be equal to those that execute the second. So before anything relies on the store,
all replicas that can be read are asked how far they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.archive import Archive
from holdfast.common.errors import DamagedError, HoldfastError, UsageError
from holdfast.replication.log import log
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.replicas import log_state, replica, replicas
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from holdfast.archive.format.model import LogPlace
    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

OLD_STORE = (
    "the store was brought back from an older copy. Nothing may be added to this log any more: see "
    "docs/runbooks/the-coordination-store-is-gone.md"
)


@dataclass(frozen=True)
class KnownReplica:
    """State of the log and of one replica in the coordination store.

    :param entry: id of the entry that the replica says it has executed last; None where the log does not have it, or
        no longer.
    """

    log: LogState
    row: ReplicaRow
    entry: str | None


def look_up(connection: Connection, archive: str, place: LogPlace) -> KnownReplica:
    """Return the state of the log and of a replica.

    :param archive: its id.
    :param place: where the replica says that it stands.
    """
    return KnownReplica(
        log_state(connection, archive),
        replica(connection, archive, place.replica),
        log.entry_id(connection, archive, place.index),
    )


def check_replica(known: KnownReplica, url: str, place: LogPlace, store: str) -> None:
    """Check a replica against the coordination store.

    The replica must follow this log, be at the URL that the store has for it, and have executed the log's own entries.

    :param url: where the archive was found.
    :param place: where it says that it stands.
    :param store: the coordination store's address, for people.
    :raises UsageError: it is a copy of the replica.
    :raises OldStoreError: store and archive contradict each other.
    """
    if known.log.store != place.store:
        raise OldStoreError(
            f"{url} follows the log of store {place.store}, and {store} has {known.log.store}: it is another store, or "
            "one that was made anew"
        )
    if known.row.url != url:
        raise UsageError(
            f"{url} says that it is replica {place.replica}, which is at {known.row.url}: it is a copy of that one. "
            f"Where the replica was moved, 'holdfast replica remove {place.replica}' first, then add it again"
        )
    _check_entry(known.log, known.entry, url, place, store)


def _check_entry(state: LogState, entry: str | None, url: str, place: LogPlace, store: str) -> None:
    if place.index > state.head or (place.entry and entry not in (None, place.entry)):
        raise OldStoreError(
            f"{url} has executed entry {place.index} ({place.entry}), which {store} does not know (its log ends at "
            f"{state.head}): {OLD_STORE}"
        )


def ask_others(
    coordination: CoordinationStore, archive: str, name: str, places: Callable[[str], ObjectStore]
) -> Mapping[str, LogPlace]:
    """Return the positions of the other replicas in the log, by URL.

    Replicas that are lost, being recovered or unreadable are left out.

    :param archive: its id.
    :param name: of the replica that asks.
    :param places: opens a replica by its URL.
    """
    rows = coordination.run(lambda c: replicas(c, archive))
    asked = {row.url: _told(archive, row, places) for row in rows if row.name != name and not row.is_lost}
    return {url: place for url, place in asked.items() if place is not None}


def _told(archive: str, row: ReplicaRow, places: Callable[[str], ObjectStore]) -> LogPlace | None:
    """Return a replica's own position in the log.

    None where it cannot be read, is being recovered, or something else lies there.
    """
    try:
        _, place = open_replica(places(row.url), archive, row.name)
    except (HoldfastError, StoreError):
        return None
    return None if place.recovering else place


def check_others(connection: Connection, archive: str, told: Mapping[str, LogPlace], store: str) -> None:
    """Check that the store has the entries executed by other replicas.

    :param told: what `ask_others` returned before this transaction began: what they have executed since was in the log
        before.
    :param store: the coordination store's address, for people.
    :raises OldStoreError: it does not.
    """
    state = log_state(connection, archive)
    for url, place in told.items():
        if place.store == state.store:
            _check_entry(state, log.entry_id(connection, archive, place.index), url, place, store)


def open_replica(store: ObjectStore, archive: str, name: str) -> tuple[Archive, LogPlace]:
    """Open the archive of a replica, and return its position in the log.

    A replica that is being recovered is opened, too.

    :param archive: its id.
    :raises DamagedError: something else lies in the store.
    """
    found = Archive.open(store, recovering=True)
    place = found.state.log
    if found.identity.id != archive or place is None or place.replica != name:
        raise DamagedError(f"{store.url} is not replica {name} of this archive: something else lies there")
    return found, place
