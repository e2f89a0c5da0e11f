"""Adding and removing of replicas.

Both are entries of the log, and count once enough of the replicas before have executed them: whoever adds or removes
one syncs these.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError, sentence
from holdfast.replication.log import members
from holdfast.replication.log.consistency_check import ask_others, check_line, check_others
from holdfast.replication.log.replicas import forget, replica
from holdfast.replication.work.upkeep import sync_replica
from holdfast.storage import open_store
from locking import LockError
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

logger = logging.getLogger(__name__)


def add(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    url: str,
    *,
    wait: float = 0.0,
    places: Callable[[str], ObjectStore] = open_store,
) -> None:
    """Add a replica that has nothing yet; recovery makes it what the others are.

    Run again it goes on.

    :param archive: its id.
    :param wait: seconds for locks that others hold on the replicas that are synced.
    :param places: opens a replica by its URL.
    :raises UsageError: the name, or the place, is another one's.
    :raises OldStoreError: a replica contradicts the coordination store, or what lies at the URL does.
    :raises BusyError: too few replicas could execute the entry; names them.
    """
    check_line(coordination, archive, name, places(url))
    index = _agreed(coordination, archive, lambda c: members.join(c, archive, name=name, url=url), places)
    if index:
        _spread(coordination, archive, index, wait=wait, places=places)


def remove(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    *,
    force: bool = False,
    wait: float = 0.0,
    places: Callable[[str], ObjectStore] = open_store,
) -> str:
    """Remove a replica, and return in words what cannot be known any more; "" where it has executed its removal.

    Nothing at its URL is changed but for that. Run again it goes on.

    :param archive: its id.
    :param force: even where it has what no other one has, and where too few replicas can execute the entry.
    :param wait, places: as of `add`.
    :raises RefusedError: it has, or may have, what no other one has.
    :raises OldStoreError: a replica contradicts the coordination store.
    :raises BusyError: too few replicas could execute the entry; names them.
    """
    row = coordination.run(lambda c: replica(c, archive, name))
    index = _agreed(coordination, archive, lambda c: members.leave(c, archive, name, force=force), places)
    why = _execute(coordination, archive, row, wait, places) if index else ""
    if index:
        try:
            _spread(coordination, archive, index, but_for=name if why else "", wait=wait, places=places)
        except HoldfastError:
            if not force:
                raise
    coordination.run(lambda c: forget(c, archive, name))
    if not why:
        return ""
    return (
        f"{name} could not record that it was removed ({why}): should the coordination store be put back from a copy "
        f"that is older than this, and used at {row.url} alone, nothing would tell"
    )


def _agreed(
    coordination: CoordinationStore,
    archive: str,
    work: Callable[[Connection], int],
    places: Callable[[str], ObjectStore],
) -> int:
    """Run a transaction where no replica that can be read contradicts the coordination store."""
    told = ask_others(coordination, archive, "", places)
    for each in told.not_asked:
        logger.warning("%s.", each.words)

    def checked(connection: Connection) -> int:
        check_others(connection, archive, told.places, coordination.url)
        return work(connection)

    return coordination.run(checked)


def _execute(
    coordination: CoordinationStore,
    archive: str,
    row: ReplicaRow,
    wait: float,
    places: Callable[[str], ObjectStore],
) -> str:
    """Sync a replica; return in words why that was not possible, or ""."""
    try:
        sync_replica(coordination, archive, row, wait=wait, places=places)
    except (HoldfastError, LockError, StoreError) as error:
        return sentence(error)
    return ""


def _spread(
    coordination: CoordinationStore,
    archive: str,
    index: int,
    *,
    but_for: str = "",
    wait: float,
    places: Callable[[str], ObjectStore],
) -> None:
    """Sync replicas until an entry by which replicas are added or removed counts.

    :param but_for: the name of a replica that leaves by it and cannot execute it any more.
    """
    count, waiting = coordination.run(lambda c: members.waited_for(c, archive, index, but_for=but_for))
    for row in waiting:
        if not count:
            return
        if not row.is_lost and (why := _execute(coordination, archive, row, wait, places)):
            logger.warning("%s cannot be synced now: %s.", row.name, why)
        count, _ = coordination.run(lambda c: members.waited_for(c, archive, index, but_for=but_for))
    coordination.run(lambda c: members.check_counts(c, archive, index, but_for=but_for))
